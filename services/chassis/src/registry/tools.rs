//! The tool registry (`tools.yaml`): the only place where an endpoint, an effect class or a key rule may come from (S6).

use std::collections::BTreeMap;

use protocol::{Dedupe, EffectContract, EffectKeyRule, RetryPolicy, Template, ToolContract, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolsFile {
    pub tools: Vec<Tool>,
}

/// One tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    pub name: ToolName,
    #[serde(default)]
    pub description: String,
    /// JSON Schema 2020-12 of the arguments; unknown fields are refused unless it allows them.
    pub arguments: Value,
    /// Absent for a read.
    #[serde(default)]
    pub effect: Option<EffectContract>,
    #[serde(default)]
    pub reads: Vec<Template>,
    #[serde(default)]
    pub writes: Vec<Template>,
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    #[serde(default)]
    pub retry: RetryPolicy,
    #[serde(default)]
    pub volatile: Vec<String>,
    #[serde(default)]
    pub polling: bool,
    #[serde(default = "yes")]
    pub independent: bool,
    /// The task cannot be done without it: when it stays unavailable, the run ends `tool_unavailable`.
    #[serde(default)]
    pub required: bool,
    /// The largest output kept, in bytes.
    #[serde(default = "default_max_output_bytes")]
    pub max_output_bytes: usize,
    pub run: ToolKind,
}

fn default_timeout_ms() -> u64 {
    10_000
}

fn default_max_output_bytes() -> usize {
    16 * 1024
}

/// A turn's record holds every output of its batch twice: once settled, once in the turn.
const MOST_OUTPUT_BYTES: usize = 24 * 1024;

fn yes() -> bool {
    true
}

/// How a tool is called.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, tag = "kind")]
pub enum ToolKind {
    Http {
        endpoint: Endpoint,
        /// Where its owner answers for an Effect Key.
        #[serde(default)]
        reconcile: Option<ReconcileEndpoint>,
    },
    /// Answers from a table in the registry by the value of one argument; needs no service.
    Lookup {
        /// The argument that names the row.
        argument: String,
        rows: BTreeMap<String, Value>,
        #[serde(default)]
        delay_ms: u64,
    },
}

/// A JSON-over-HTTP call: the arguments are the body, the JSON answer is the output.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    #[serde(default = "post")]
    pub method: String,
    pub url: String,
}

fn post() -> String {
    "POST".to_owned()
}

/// `GET {url}/{effect_key}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReconcileEndpoint {
    pub url: String,
    #[serde(default = "default_reconcile_timeout_ms")]
    pub timeout_ms: u64,
}

fn default_reconcile_timeout_ms() -> u64 {
    5_000
}

impl Tool {
    /// What the protocol needs to know of this tool.
    pub fn contract(&self) -> ToolContract {
        ToolContract {
            tool: self.name.clone(),
            effect: self.effect.clone(),
            reads: self.reads.clone(),
            writes: self.writes.clone(),
            timeout_ms: self.timeout_ms,
            retry: self.retry,
            volatile: self.volatile.clone(),
            polling: self.polling,
            independent: self.independent,
            required: self.required,
        }
    }
}

impl ToolsFile {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        for (i, tool) in self.tools.iter().enumerate() {
            let mut problem = |field: &str, message: String| {
                problems.push(format!("tools.yaml: tools[{i}] ({}): {field}: {message}", tool.name));
            };
            if self.tools[..i].iter().any(|other| other.name == tool.name) {
                problem("name", "stands twice".to_owned());
            }
            if !tool.arguments.is_object() {
                problem("arguments", "must be a JSON Schema: an object".to_owned());
            }
            if let Some(effect) = &tool.effect {
                check_effect(effect, tool.timeout_ms, &mut problem);
            }
            if tool.max_output_bytes > MOST_OUTPUT_BYTES {
                problem("max_output_bytes", format!("at most {MOST_OUTPUT_BYTES}, so that a turn fits a record"));
            }
            if tool.timeout_ms == 0 {
                problem("timeout_ms", "must be at least 1".to_owned());
            }
            if tool.effect.is_none() && !tool.writes.is_empty() {
                problem("writes", "a tool that writes has an effect; declare `effect` with its `key`".to_owned());
            }
            match &tool.run {
                ToolKind::Http { endpoint, reconcile } => {
                    let urls = std::iter::once(("run.endpoint.url", &endpoint.url))
                        .chain(reconcile.iter().map(|reconcile| ("run.reconcile.url", &reconcile.url)));
                    for (field, url) in urls {
                        if !url.starts_with("http://") && !url.starts_with("https://") {
                            problem(field, format!("`{url}` must start with http:// or https://"));
                        }
                    }
                    if tool.effect.as_ref().is_some_and(|effect| effect.query) && reconcile.is_none() {
                        let message = "the owner can be asked (`effect.query: true`), so say where";
                        problem("run.reconcile", message.to_owned());
                    }
                }
                ToolKind::Lookup { .. } if tool.effect.is_some() => {
                    problem("run", "a lookup has no effect".to_owned());
                }
                ToolKind::Lookup { .. } => {}
            }
        }
    }
}

fn check_effect(effect: &EffectContract, timeout_ms: u64, problem: &mut impl FnMut(&str, String)) {
    if let EffectKeyRule::Business(template) = &effect.key
        && !template.0.contains('{')
    {
        let message =
            "a key without a `{field}` would make every call one effect; use `per_invocation`, or name the field";
        problem("effect.key", message.to_owned());
    }
    if effect.tombstone && effect.dedupe != Dedupe::Key {
        let message = "an owner that does not enforce the key cannot close it; say `dedupe: key`, or leave it out";
        problem("effect.tombstone", message.to_owned());
    }
    if effect.tombstone && !effect.query {
        let message = "a key is closed where its owner is asked; say `query: true`, or leave it out";
        problem("effect.tombstone", message.to_owned());
    }
    // The outcome may be unknown from the claim on, one lease before the window begins.
    let least = timeout_ms.saturating_add(effect.settle_window_ms(timeout_ms));
    if effect.query && effect.dedupe == Dedupe::Key && effect.probe.give_up_after_ms <= least {
        let message = format!(
            "must be more than {least} (twice `timeout_ms`, and `settle_ms`): before, \"not found\" does not count"
        );
        problem("effect.probe.give_up_after_ms", message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The problems of one tool with this effect.
    fn problems(effect: Value) -> Vec<String> {
        let reconcile = json!({"url": "http://owner/effects"});
        let tools = json!({"tools": [{
            "name": "refund", "arguments": {}, "effect": effect,
            "run": {"kind": "http", "endpoint": {"url": "http://owner/refunds"}, "reconcile": reconcile},
        }]});
        let tools: ToolsFile = serde_json::from_value(tools).unwrap();
        let mut problems = Vec::new();
        tools.check(&mut problems);
        problems
    }

    fn effect(more: Value) -> Value {
        let mut effect = json!({"key": "per_invocation", "owner": "payments", "dedupe": "key", "query": true});
        effect.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        effect
    }

    #[test]
    fn only_an_owner_that_enforces_its_keys_and_can_be_asked_takes_tombstones() {
        assert_eq!(problems(effect(json!({"tombstone": true}))), [""; 0]);
        for (other, fix) in [(json!({"dedupe": "none"}), "dedupe: key"), (json!({"query": false}), "query: true")] {
            let mut declared = other.clone();
            declared["tombstone"] = json!(true);
            let problems = problems(effect(declared));
            let [problem] = &problems[..] else { panic!("{problems:?}") };
            assert!(problem.starts_with("tools.yaml: tools[0] (refund): effect.tombstone: "), "{problem}");
            assert!(problem.contains(fix), "{problem}");
            assert_eq!(self::problems(effect(other)), [""; 0], "without a tombstone it is as good as ever");
        }
    }

    #[test]
    fn an_owner_is_asked_until_its_not_found_counts_at_least() {
        // The tool has its default of 10 s.
        let declared = |give_up_after_ms: u64| json!({"settle_ms": 5, "probe": {"give_up_after_ms": give_up_after_ms}});
        assert_eq!(problems(effect(declared(20_006))), [""; 0]);
        let problems = problems(effect(declared(20_005)));
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.contains("effect.probe.give_up_after_ms: must be more than 20005 "), "{problem}");
        let mut keyless = declared(1);
        keyless["dedupe"] = json!("none");
        assert_eq!(self::problems(effect(keyless)), [""; 0], "from it, \"not found\" never counts");
    }

    #[test]
    fn a_business_key_names_a_field() {
        let problems = problems(effect(json!({"key": "refund"})));
        assert!(problems.len() == 1 && problems[0].contains("effect.key"), "{problems:?}");
    }
}
