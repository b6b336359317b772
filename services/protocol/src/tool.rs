//! What a tool declares about itself: the contract that travels with a verdict and is copied into the plan, so that
//! nothing of it moves under a run (M8, M11, M15).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolName;

/// A tool's declaration, as far as the protocol needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolContract {
    pub tool: ToolName,
    /// Absent for a read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectContract>,
    /// Resources it reads, as templates over its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Template>,
    /// Resources it writes, as templates over its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Template>,
    /// How long one attempt may take; also the length of its lease.
    pub timeout_ms: u64,
    #[serde(default)]
    pub retry: RetryPolicy,
    /// Fields that say nothing new, such as a trace ID or the time: left out of the arguments where plans are compared,
    /// and out of the outputs where results are (M12). At the top level only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<String>,
    /// Meant to be called again and again: tools that poll, and tools that page by a cursor of their own. Exempt from the
    /// signals of no progress by declaration (M12).
    #[serde(default)]
    pub polling: bool,
    /// A tool that cannot be retried independently is never parallel with a writer.
    #[serde(default = "yes")]
    pub independent: bool,
    /// The task cannot be done without it: a call that ends `unavailable` after its retries ends the run `tool_unavailable`.
    #[serde(default)]
    pub required: bool,
}

fn yes() -> bool {
    true
}

/// What the owner of an effect promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectContract {
    /// How the Effect Key is made. There is no silent default.
    pub key: EffectKeyRule,
    /// The service that owns the data.
    pub owner: String,
    pub dedupe: Dedupe,
    /// Whether the owner can be asked by Effect Key.
    pub query: bool,
    /// Whether the owner closes a key on demand: a change that it has not applied it will then never apply. With a
    /// business key that holds for every run, later ones included.
    #[serde(default)]
    pub tombstone: bool,
    /// Added to lease end + request timeout before the owner's "not found" counts.
    #[serde(default = "default_settle_ms")]
    pub settle_ms: u64,
    #[serde(default)]
    pub probe: ProbePolicy,
}

impl EffectContract {
    /// From the end of an attempt's lease until the owner's "not found" counts: a request that was written at the lease's
    /// last moment may take one more timeout to arrive.
    pub fn settle_window_ms(&self, timeout_ms: u64) -> u64 {
        timeout_ms.saturating_add(self.settle_ms)
    }
}

fn default_settle_ms() -> u64 {
    500
}

/// How an Effect Key is made. Written as text: `per_invocation`, or a business template such as `refund:{order_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum EffectKeyRule {
    /// (tenant, tool, invocation, canonical arguments).
    PerInvocation,
    /// (tenant, tool, the rendered template).
    Business(Template),
}

impl EffectKeyRule {
    const PER_INVOCATION: &'static str = "per_invocation";
}

impl From<String> for EffectKeyRule {
    fn from(text: String) -> Self {
        if text == Self::PER_INVOCATION { Self::PerInvocation } else { Self::Business(Template(text)) }
    }
}

impl From<EffectKeyRule> for String {
    fn from(rule: EffectKeyRule) -> Self {
        match rule {
            EffectKeyRule::PerInvocation => EffectKeyRule::PER_INVOCATION.to_owned(),
            EffectKeyRule::Business(template) => template.0,
        }
    }
}

/// Whether the owner enforces the Effect Key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dedupe {
    Key,
    None,
}

/// Attempts of one call and the waits between them. Which errors are retried is the retry table's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    pub max_attempts: u32,
    pub base_ms: u64,
    pub cap_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 3, base_ms: 200, cap_ms: 10_000 }
    }
}

/// How often, and how long, an owner is asked before a person is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProbePolicy {
    pub max_probes: u32,
    pub base_ms: u64,
    pub cap_ms: u64,
    /// How long after the outcome became unknown a person is asked, however few questions there were; by the store's time.
    /// Must leave room for the settle window.
    pub give_up_after_ms: u64,
}

impl Default for ProbePolicy {
    fn default() -> Self {
        Self { max_probes: 12, base_ms: 250, cap_ms: 60_000, give_up_after_ms: 15 * 60 * 1_000 }
    }
}

/// The wait before the `n`-th retry (from 1): exponential, capped, with jitter drawn from `seed` so that it is the same
/// in every replay and differs between calls.
pub fn backoff_ms(base_ms: u64, cap_ms: u64, n: u32, seed: &[u8]) -> u64 {
    let full = base_ms.saturating_mul(1_u64 << n.saturating_sub(1).min(30)).min(cap_ms);
    let digest = crate::Digest::of("jitter", &[seed, &n.to_be_bytes()]);
    let roll = u64::from(u16::from_be_bytes([digest.0[0], digest.0[1]]));
    // Between one half and all of the full wait.
    full / 2 + (full / 2).saturating_mul(roll) / u64::from(u16::MAX)
}

/// Text with `{field}` or `{outer.inner}` places that a call's arguments fill; a trailing `*` matches every suffix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub String);

/// Why a template cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("`{0}` has an unclosed or empty place")]
    Malformed(String),
    #[error("arguments.{0} is missing, and the tool's declaration needs it")]
    Missing(String),
    #[error("arguments.{0} must be a string, an integer or a boolean, since the tool's declaration is built from it")]
    NotScalar(String),
}

impl Template {
    /// Fills the places. Values are escaped, so that no argument can produce a separator or a wildcard.
    pub fn render(&self, arguments: &Value) -> Result<String, TemplateError> {
        let mut out = String::new();
        let mut rest = self.0.as_str();
        while let Some(open) = rest.find('{') {
            out.push_str(&rest[..open]);
            let after = &rest[open + 1..];
            let close = after.find('}').filter(|at| *at > 0);
            let close = close.ok_or_else(|| TemplateError::Malformed(self.0.clone()))?;
            let path = &after[..close];
            let value = path.split('.').try_fold(arguments, |value, field| value.get(field));
            let text = match value.ok_or_else(|| TemplateError::Missing(path.to_owned()))? {
                Value::String(text) => text.clone(),
                Value::Bool(flag) => flag.to_string(),
                Value::Number(number) if !number.is_f64() => number.to_string(),
                _ => return Err(TemplateError::NotScalar(path.to_owned())),
            };
            for c in text.chars() {
                match c {
                    '%' | ':' | '*' | '{' | '}' => out.push_str(&format!("%{:02X}", c as u32)),
                    c => out.push(c),
                }
            }
            rest = &after[close + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// Whether two rendered resources can name the same thing. A `*` may only end one.
pub fn resources_overlap(a: &str, b: &str) -> bool {
    match (a.strip_suffix('*'), b.strip_suffix('*')) {
        (None, None) => a == b,
        (Some(prefix), None) => b.starts_with(prefix),
        (None, Some(prefix)) => a.starts_with(prefix),
        (Some(a), Some(b)) => a.starts_with(b) || b.starts_with(a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn template_fills_nested_fields_and_escapes_separators() {
        let template = Template("order:{order.id}".into());
        assert_eq!(template.render(&json!({"order": {"id": 7}})), Ok("order:7".into()));
        assert_eq!(template.render(&json!({"order": {"id": "7:*"}})), Ok("order:7%3A%2A".into()));
        assert_eq!(template.render(&json!({"order": {"id": true}})), Ok("order:true".into()));
        assert_eq!(template.render(&json!({})), Err(TemplateError::Missing("order.id".into())));
        assert_eq!(template.render(&json!({"order": {"id": 1.5}})), Err(TemplateError::NotScalar("order.id".into())));
        for malformed in ["a{", "a{}", "a{b}{"] {
            let rendered = Template(malformed.into()).render(&json!({"": 1, "b": 1}));
            assert_eq!(rendered, Err(TemplateError::Malformed(malformed.into())));
        }
    }

    #[test]
    fn what_a_declaration_leaves_out_is_filled_in() {
        let declared = json!({
            "tool": "refund", "timeout_ms": 1_000,
            "effect": {"key": "per_invocation", "owner": "payments", "dedupe": "key", "query": true},
        });
        let contract: ToolContract = serde_json::from_value(declared).unwrap();
        let effect = EffectContract {
            key: EffectKeyRule::PerInvocation,
            owner: "payments".into(),
            dedupe: Dedupe::Key,
            query: true,
            tombstone: false,
            settle_ms: 500,
            probe: ProbePolicy { max_probes: 12, base_ms: 250, cap_ms: 60_000, give_up_after_ms: 900_000 },
        };
        let whole = ToolContract {
            tool: "refund".into(),
            effect: Some(effect),
            reads: vec![],
            writes: vec![],
            timeout_ms: 1_000,
            retry: RetryPolicy { max_attempts: 3, base_ms: 200, cap_ms: 10_000 },
            volatile: vec![],
            polling: false,
            independent: true,
            required: false,
        };
        assert_eq!(contract, whole);
    }

    #[test]
    fn a_policy_of_questions_that_was_stored_without_a_time_limit_gets_the_default() {
        let stored = json!({"max_probes": 3, "base_ms": 100, "cap_ms": 1_000});
        let policy: ProbePolicy = serde_json::from_value(stored).unwrap();
        assert_eq!(policy, ProbePolicy { max_probes: 3, base_ms: 100, cap_ms: 1_000, ..ProbePolicy::default() });
    }

    #[test]
    fn a_wildcard_overlaps_its_prefix_only() {
        assert!(resources_overlap("customer:*", "customer:7"));
        assert!(resources_overlap("customer:7", "customer:*"));
        assert!(!resources_overlap("customer:*", "order:7"));
        assert!(resources_overlap("*", "order:7"));
        assert!(resources_overlap("customer:*", "customer:7*") && resources_overlap("customer:7*", "customer:*"));
        assert!(!resources_overlap("customer:*", "order:*"));
        assert!(!resources_overlap("order:7", "order:71"));
    }

    #[test]
    fn backoff_grows_is_capped_and_repeats_itself() {
        let wait = |n| backoff_ms(100, 1_000, n, b"call");
        assert!((50..=100).contains(&wait(1)));
        assert!((100..=200).contains(&wait(2)));
        assert!((500..=1_000).contains(&wait(20)));
        assert_eq!(wait(3), wait(3));
    }
}
