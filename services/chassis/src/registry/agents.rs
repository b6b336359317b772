//! Agent profiles and tenants' ceilings (`agents.yaml`).

use protocol::{
    AgentName, Budget, Digest, MAX_EXACT_INTEGER, MixedBatches, Profile, ProgressLimits, Tenant, Timing, ToolName,
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
    pub progress: ProgressLimits,
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
            let largest = agent.budget.max_tokens.max(agent.budget.max_cost_micros).max(agent.timing.max_runtime_ms);
            if largest > MAX_EXACT_INTEGER {
                let at = format!("agents.yaml: agents[{i}]: budget and timing");
                problems.push(format!("{at}: {largest} is not exact in JSON; {MAX_EXACT_INTEGER} is the most"));
            }
            if let Some((field, why)) = agent.progress.problem() {
                problems.push(format!("agents.yaml: agents[{i}].progress.{field}: {why}"));
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
