//! `policy test`: a list of cases, each with what the policies are meant to say.

use std::path::PathBuf;

use clap::Args;
use protocol::{Actor, AgentName, TaskType, Tenant, ToolName};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use validation::policy::Permission;

use super::{Files, Proposed};
use crate::error::Error;
use crate::settings::Settings;
use crate::{exit, render};

/// Runs cases.yaml against the policies; fails if one case is decided otherwise.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright policy test my-agents\n\nA case: {name: …, tenant: demo, actor: ada, tool: refund, arguments: {order: A-1, amount: 500}, expect: gate}\nwith expect: allow, gate or deny; agent and task_type may be added. Exit code 1 when a case fails."
)]
pub struct Arguments {
    /// The configuration directory [default: that of --config]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The cases, YAML or JSON [default: policies/cases.yaml in the directory]
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
}

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    name: String,
    tenant: Tenant,
    actor: Actor,
    tool: ToolName,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    task_type: String,
    expect: Expected,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expected {
    Allow,
    Gate,
    Deny,
}

impl From<Expected> for Permission {
    fn from(expected: Expected) -> Self {
        match expected {
            Expected::Allow => Self::Allow,
            Expected::Gate => Self::Gate,
            Expected::Deny => Self::Deny,
        }
    }
}

/// A case and what came of it.
struct Outcome {
    name: String,
    expected: Permission,
    /// The error says why the call would never come before the policies.
    found: Result<Permission, String>,
}

impl Outcome {
    fn passed(&self) -> bool {
        self.found.as_ref() == Ok(&self.expected)
    }

    fn found(&self) -> String {
        match &self.found {
            Ok(permission) => permission.as_str().to_owned(),
            Err(why) => format!("not judged: {why}"),
        }
    }
}

pub fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let directory = arguments.directory.unwrap_or_else(|| settings.config_directory());
    let files = Files::read(&directory)?;
    let outcomes: Vec<Outcome> = cases(arguments.cases.unwrap_or_else(|| directory.join("policies/cases.yaml")))?
        .into_iter()
        .enumerate()
        .map(|(i, case)| outcome(&files, i, case))
        .collect();
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    match settings.is_json() {
        true => render::json(&document(&outcomes, failed)),
        false => print(&outcomes, failed),
    }
    Ok(if failed == 0 { exit::COMPLETED } else { exit::OTHER })
}

fn cases(path: PathBuf) -> Result<Vec<Case>, Error> {
    let unusable = |why: String| {
        let fix = "write a list of cases, as `turnwright policy test --help` shows, or name it with --cases";
        Error::setting(path.display().to_string(), why, fix)
    };
    let text = std::fs::read_to_string(&path).map_err(|error| unusable(error.to_string()))?;
    let cases: Vec<Case> = serde_yaml_ng::from_str(&text).map_err(|error| unusable(error.to_string()))?;
    match cases.is_empty() {
        true => Err(unusable("there is no case in it".to_owned())),
        false => Ok(cases),
    }
}

fn outcome(files: &Files, i: usize, case: Case) -> Outcome {
    let name = match case.name.is_empty() {
        true => format!("case {}: {} by {}/{}", i + 1, case.tool, case.tenant, case.actor),
        false => case.name,
    };
    let call = Proposed {
        tenant: case.tenant,
        actor: case.actor,
        tool: case.tool,
        arguments: case.arguments,
        agent: AgentName(case.agent),
        task_type: TaskType(case.task_type),
    };
    let found = files.rule(&call).map(|ruling| ruling.permission());
    Outcome { name, expected: case.expect.into(), found }
}

fn print(outcomes: &[Outcome], failed: usize) {
    let mut table = render::table(["", "case", "expected", "found"]);
    for outcome in outcomes {
        let mark = if outcome.passed() { "ok" } else { "FAIL" };
        table.add_row([mark, &outcome.name, outcome.expected.as_str(), &outcome.found()]);
    }
    render::print(&table);
    render::line(format!("{} passed, {failed} failed", outcomes.len() - failed));
}

fn document(outcomes: &[Outcome], failed: usize) -> Value {
    let cases = outcomes.iter().map(|outcome| {
        json!({
            "name": outcome.name,
            "expected": outcome.expected.as_str(),
            "found": outcome.found.as_ref().ok().map(|permission| permission.as_str()),
            "error": outcome.found.as_ref().err(),
            "passed": outcome.passed(),
        })
    });
    json!({ "cases": cases.collect::<Vec<_>>(), "passed": outcomes.len() - failed, "failed": failed })
}
