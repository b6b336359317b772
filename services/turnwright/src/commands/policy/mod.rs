//! `policy`: what the operator's policies say, without a cluster: of the cases they are meant to decide, and of one call.

mod explain;
mod test;

use std::path::Path;
use std::sync::Arc;

use chassis::registry::Registry;
use clap::{Args, Subcommand};
use protocol::{Actor, AgentName, TaskType, Tenant, ToolName};
use serde_json::{Map, Value};
use validation::policy::{Caller, Policy, Ruling};
use validation::{DecisionLimits, Judge};

use crate::error::Error;
use crate::settings::Settings;
use crate::wiring::{FILES_FIX, read_registry};

/// Tests the policies against cases, or explains what they say of one call.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright policy test my-agents\n  turnwright policy explain --config my-agents --tenant demo --actor ada --tool customer_profile --arguments '{\"customer\":\"c-1001\"}'"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Test(test::Arguments),
    Explain(explain::Arguments),
}

pub fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    match arguments.action {
        Action::Test(arguments) => test::run(settings, arguments),
        Action::Explain(arguments) => explain::run(settings, arguments),
    }
}

/// A call that somebody may propose.
#[derive(Debug, Clone)]
struct Proposed {
    tenant: Tenant,
    actor: Actor,
    tool: ToolName,
    arguments: Map<String, Value>,
    agent: AgentName,
    task_type: TaskType,
}

/// The operator's files, as validation would use them.
struct Files {
    registry: Arc<Registry>,
    policy: Arc<Policy>,
    judge: Judge,
}

impl Files {
    fn read(directory: &Path) -> Result<Self, Error> {
        let unusable = |problems: &dyn std::fmt::Display| {
            Error::setting("--config (TURNWRIGHT_CONFIG)", format!("\n{problems}"), FILES_FIX)
        };
        let registry = read_registry(directory)?;
        let policy = Arc::new(Policy::read(directory).map_err(|problems| unusable(&problems))?);
        let judge = Judge::new(&registry, policy.clone(), DecisionLimits::default());
        let judge = judge.map_err(|problems| unusable(&problems))?;
        Ok(Self { registry, policy, judge })
    }

    /// What the policies say of a call. The error says why it would never come before them.
    fn rule(&self, call: &Proposed) -> Result<Ruling, String> {
        let Some(tool) = self.registry.tool(&call.tool) else {
            return Err(format!("`{}` is not declared in tools.yaml", call.tool));
        };
        let arguments = Value::Object(call.arguments.clone());
        let findings = self.judge.argument_findings(&call.tool, &arguments);
        if !findings.is_empty() {
            let findings = findings.iter().map(|finding| format!("{}: {}", finding.path, finding.message));
            return Err(findings.collect::<Vec<_>>().join("; "));
        }
        let caller =
            Caller { tenant: &call.tenant, actor: &call.actor, agent: &call.agent, task_type: &call.task_type };
        self.policy.rule(&caller, &tool.contract(), &arguments).map_err(|error| error.to_string())
    }
}
