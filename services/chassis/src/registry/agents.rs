//! Agent profiles and tenants' ceilings (`agents.yaml`).

use protocol::{
    AgentName, Budget, Digest, MAX_EXACT_INTEGER, MAX_POINTER_BYTES, MixedBatches, Profile, ProgressLimits, Tenant,
    Timing, ToolName, is_pointer,
};
use serde::{Deserialize, Serialize};

use super::ToolsFile;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentsFile {
    pub agents: Vec<Agent>,
    #[serde(default)]
    pub tenants: Vec<Tenants>,
}

/// One agent profile: who decides, with which tools, within which budgets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub name: AgentName,
    pub provider: ProviderConfig,
    pub model: String,
    /// The system prompt.
    #[serde(default)]
    pub system: String,
    pub tools: Vec<ToolName>,
    #[serde(default)]
    pub budget: Budget,
    #[serde(default)]
    pub timing: Timing,
    /// What happens to a batch with calls that must wait for each other.
    #[serde(default)]
    pub mixed_batches: MixedBatches,
    /// When a run that gets nowhere is stopped.
    #[serde(default)]
    pub progress: ProgressLimits,
    /// What the model's tokens cost. Absent: what the provider itself says that an answer has cost.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// What every final answer must satisfy, besides the request's `output_schema` (M14).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validators: Vec<AnswerRule>,
}

/// A price table, in millionths of the profile's currency per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input_micros_per_million: u64,
    pub output_micros_per_million: u64,
}

/// A deterministic check of a final answer. `at` is a JSON pointer (RFC 6901) into it; the whole answer when left out. The
/// text of a value is the value itself where it is a text, else its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, tag = "kind")]
pub enum AnswerRule {
    /// A value must be there, and its text must contain this.
    RequiredText {
        #[serde(default)]
        at: String,
        text: String,
    },
    /// The text of the value, if there is one, must not contain this.
    ForbiddenText {
        #[serde(default)]
        at: String,
        text: String,
    },
    /// The text of the value, if there is one, must not be longer.
    MaxBytes {
        #[serde(default)]
        at: String,
        bytes: usize,
    },
    /// A text must be there, and this regular expression must match somewhere in it.
    Pattern {
        #[serde(default)]
        at: String,
        pattern: String,
    },
}

impl AnswerRule {
    /// The pointer to what is checked.
    pub fn at(&self) -> &str {
        match self {
            Self::RequiredText { at, .. }
            | Self::ForbiddenText { at, .. }
            | Self::MaxBytes { at, .. }
            | Self::Pattern { at, .. } => at,
        }
    }
}

/// Where decisions come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, tag = "kind")]
pub enum ProviderConfig {
    /// Decisions from a scenario file, relative to the configuration directory.
    Scripted { scenario: String },
}

/// What a tenant's runs may spend at most. `*` is every tenant that is not named.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenants {
    pub tenant: Tenant,
    pub ceiling: Budget,
}

impl AgentsFile {
    pub(super) fn check(&self, tools: &ToolsFile, problems: &mut Vec<String>) {
        for (i, agent) in self.agents.iter().enumerate() {
            if self.agents[..i].iter().any(|other| other.name == agent.name) {
                problems.push(format!("agents.yaml: agents[{i}].name: `{}` stands twice", agent.name));
            }
            let price =
                agent.prices.map_or(0, |prices| prices.input_micros_per_million.max(prices.output_micros_per_million));
            let largest = agent.budget.max_tokens.max(agent.budget.max_cost_micros).max(agent.timing.max_runtime_ms);
            let largest = largest.max(price);
            if largest > MAX_EXACT_INTEGER {
                let at = format!("agents.yaml: agents[{i}]: budget, timing and prices");
                problems.push(format!("{at}: {largest} is not exact in JSON; {MAX_EXACT_INTEGER} is the most"));
            }
            if let Some((field, why)) = agent.progress.problem() {
                problems.push(format!("agents.yaml: agents[{i}].progress.{field}: {why}"));
            }
            for (n, rule) in agent.validators.iter().enumerate() {
                if !is_pointer(rule.at()) {
                    let at = format!("agents.yaml: agents[{i}].validators[{n}].at");
                    problems.push(format!(
                        "{at}: `{}` is not a JSON pointer of at most {MAX_POINTER_BYTES} bytes: empty, or /field/0/…",
                        rule.at()
                    ));
                }
            }
            for name in &agent.tools {
                if !tools.tools.iter().any(|tool| &tool.name == name) {
                    let at = format!("agents.yaml: agents[{i}].tools");
                    problems.push(format!("{at}: `{name}` is not declared in tools.yaml"));
                }
            }
        }
    }

    /// The ceiling of a tenant: its own, the `*` entry's, or the widest there is.
    pub fn ceiling(&self, tenant: &Tenant) -> Budget {
        let named = self.tenants.iter().find(|entry| &entry.tenant == tenant);
        let any = self.tenants.iter().find(|entry| entry.tenant.as_str() == "*");
        named.or(any).map(|entry| entry.ceiling).unwrap_or(Budget {
            max_steps: u32::MAX,
            max_tool_calls: u32::MAX,
            max_tokens: u64::MAX,
            max_cost_micros: u64::MAX,
            max_repeated_plan: u32::MAX,
        })
    }

    /// What admission needs to know of an agent, for a tenant.
    pub fn profile(&self, name: &AgentName, tenant: &Tenant) -> Option<Profile> {
        let agent = self.agents.iter().find(|agent| &agent.name == name)?;
        let text = serde_json::to_vec(agent).expect("an agent profile is always JSON");
        Some(Profile {
            budget: agent.budget,
            ceiling: self.ceiling(tenant),
            timing: agent.timing,
            mixed_batches: agent.mixed_batches,
            progress: agent.progress,
            tools: agent.tools.clone(),
            digest: Digest::of("profile", &[&text]),
        })
    }
}

#[cfg(test)]
mod tests {
    use protocol::Limit;

    use super::*;

    const DEMO: &str = include_str!("../../../../infra/examples/demo/agents.yaml");

    fn problems(agent: &str) -> Vec<String> {
        let text = format!(
            "agents:\n- {{name: a, provider: {{kind: scripted, scenario: s}}, model: m, tools: [], {agent}}}\n"
        );
        let file: AgentsFile = match serde_yaml_ng::from_str(&text) {
            Ok(file) => file,
            Err(error) => return vec![error.to_string()],
        };
        let mut problems = Vec::new();
        file.check(&ToolsFile { tools: Vec::new() }, &mut problems);
        problems
    }

    #[test]
    fn limits_and_prices_that_cannot_be_used_are_named() {
        let none: [&str; 0] = [];
        assert_eq!(problems("progress: {window: 32, no_state_delta: off, error_cycle: 1}"), none);
        assert_eq!(problems("validators: [{kind: max_bytes, bytes: 1}, {kind: max_bytes, at: /a~1b, bytes: 1}]"), none);
        assert_eq!(problems("prices: {input_micros_per_million: 0, output_micros_per_million: 1}"), none);
        for (agent, said) in [
            ("progress: {window: 1}", "agents[0].progress.window: must be a number of plans from 2 to 32"),
            ("progress: {error_cycle: 0}", "a whole number from 1, or `off`"),
            ("progress: {error_cycle: never}", "a whole number from 1, or `off`"),
            ("progress: {error_cycles: 1}", "unknown field `error_cycles`"),
            (
                "validators: [{kind: max_bytes, at: order, bytes: 1}]",
                "agents[0].validators[0].at: `order` is not a JSON pointer",
            ),
            (
                "validators: [{kind: max_bytes, at: /a~2, bytes: 1}]",
                "agents[0].validators[0].at: `/a~2` is not a JSON pointer",
            ),
            ("prices: {input_micros_per_million: 1}", "missing field `output_micros_per_million`"),
            ("prices: {input_micros_per_million: 1, output_micros_per_million: 9007199254740992}", "not exact in JSON"),
        ] {
            let found = problems(agent);
            assert!(found.len() == 1 && found[0].contains(said), "{agent}: {found:?}");
        }
    }

    /// The settings that the demo shows as comments.
    #[test]
    fn the_commented_settings_of_the_demo_hold_when_they_are_uncommented() {
        let shown = |line: &str| match line.trim_start().strip_prefix("# ") {
            Some(rest) if ["progress:", "prices:", "  "].iter().any(|start| rest.starts_with(start)) => {
                line.replacen("# ", "", 1)
            }
            Some(_) | None => line.to_owned(),
        };
        let text = DEMO.lines().map(shown).collect::<Vec<_>>().join("\n");
        let file: AgentsFile = serde_yaml_ng::from_str(&text).unwrap();
        let value = serde_yaml_ng::from_str::<serde_json::Value>(&text).unwrap();
        let written = value["agents"][0]["progress"].as_object().map(serde_json::Map::len);
        assert_eq!(written, serde_json::to_value(ProgressLimits::default()).unwrap().as_object().map(|all| all.len()));
        assert_eq!(file.agents[0].progress, ProgressLimits::default(), "what is shown are the defaults");
        assert_eq!(file.agents[0].progress.unmet_goal_predicates, Limit::Off);
        assert!(file.agents[0].prices.is_some());
    }
}
