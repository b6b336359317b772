//! A batch of calls, judged in this order: IDs, tools, arguments, sizes, budgets, authorization, plan. Progress is not judged
//! here: only the committer knows the last plan for certain.

use std::collections::BTreeMap;

use protocol::{
    AcceptedCall, Finding, FindingCode, MAX_BATCH_CALLS, Plan, PlanPlace, ProposedCall, RetryPolicy, Round,
    ToolContract, ToolName, TurnReady,
};

use crate::DecisionLimits;
use crate::authorize::{self, Gated};
use crate::judge::KnownTool;
use crate::policy::Policy;
use crate::schema::bounded;

/// The batch with its tools' contracts and the gates that apply, or everything that is wrong with it.
pub(crate) fn judge(
    turn: &TurnReady,
    mut calls: Vec<ProposedCall>,
    tools: &BTreeMap<ToolName, KnownTool>,
    policy: &Policy,
    limits: &DecisionLimits,
) -> Result<(Vec<AcceptedCall>, Vec<Gated>), Vec<Finding>> {
    let planned = u32::try_from(calls.len()).unwrap_or(u32::MAX);
    let mut ids = Vec::new();
    if calls.len() > MAX_BATCH_CALLS {
        let message = format!("holds {} calls, and {MAX_BATCH_CALLS} is the limit", calls.len());
        ids.push(Finding::new(FindingCode::TooManyCalls, "calls", message));
        calls.truncate(MAX_BATCH_CALLS);
    }
    let mut rest = Vec::new();
    let mut accepted = Vec::with_capacity(calls.len());
    for (ordinal, call) in calls.into_iter().enumerate() {
        let at = format!("calls[{ordinal}]");
        if let Some(finding) = id_finding(&call, &at, limits) {
            ids.push(finding);
        }
        let contract = match tool(turn, &call, &at, tools) {
            Ok(known) => {
                arguments(&call, known, &at, limits, &mut rest);
                known.contract.clone()
            }
            Err(finding) => {
                rest.push(finding);
                unknown(&call.tool)
            }
        };
        accepted.push(AcceptedCall { call, contract });
    }
    let (denied, gates) = authorize::judge(turn, &accepted, &rest, policy);
    rest.extend(steps(turn));
    let budget = budget(turn, planned);
    let mut unplanned = plan(turn, &accepted, &rest);
    let repeated = unplanned.extract_if(.., |finding| finding.code == FindingCode::DuplicateCallId);
    ids.extend(repeated);
    let only_budget = ids.is_empty() && rest.is_empty() && denied.is_empty() && unplanned.is_empty();
    // A repair that still overspends goes to the committer, whose own check ends the run with the budget's reason before
    // anything of the batch runs; a rejection would end it `invalid_decision`.
    if only_budget && (budget.is_none() || turn.scope.round > Round(0)) {
        return Ok((accepted, gates));
    }
    Err([ids, rest, budget.into_iter().collect(), denied, unplanned].concat())
}

/// Presence is a matter of parsing, uniqueness of the plan; what is left is the ID's size.
fn id_finding(call: &ProposedCall, at: &str, limits: &DecisionLimits) -> Option<Finding> {
    let bytes = call.provider_call_id.len();
    (bytes > limits.call_id_bytes).then(|| {
        let message = format!("{bytes} bytes are more than the limit of {}", limits.call_id_bytes);
        Finding::new(FindingCode::TooLarge, format!("{at}.call_id"), message)
    })
}

/// The tool of a call, if this run may use it.
fn tool<'t>(
    turn: &TurnReady,
    call: &ProposedCall,
    at: &str,
    tools: &'t BTreeMap<ToolName, KnownTool>,
) -> Result<&'t KnownTool, Finding> {
    let allowed = turn.tools.contains(&call.tool);
    match tools.get(&call.tool) {
        Some(known) if allowed => Ok(known),
        found => {
            let name = bounded(call.tool.as_str(), protocol::MAX_NAME_BYTES);
            let (code, what) = match found {
                Some(_) => (FindingCode::ToolNotAllowed, "is not allowed in this run"),
                None => (FindingCode::UnknownTool, "is not a tool"),
            };
            let names: Vec<&str> = turn.tools.iter().map(ToolName::as_str).collect();
            let message = format!("`{name}` {what}; the tools are: {}", bounded(&names.join(", "), 1_000));
            Err(Finding::new(code, format!("{at}.tool_name"), message))
        }
    }
}

fn arguments(call: &ProposedCall, known: &KnownTool, at: &str, limits: &DecisionLimits, findings: &mut Vec<Finding>) {
    let at = format!("{at}.arguments");
    let bytes = call.arguments.to_string().len();
    if bytes > limits.argument_bytes {
        let message = format!("{bytes} bytes are more than the limit of {}", limits.argument_bytes);
        findings.push(Finding::new(FindingCode::TooLarge, at, message));
        return;
    }
    let code = FindingCode::InvalidArguments;
    known.arguments.judge(&call.arguments, code, &at, limits.findings, findings);
}

/// What the budget says of so many calls at this turn. Tokens and cost are spent already: no repair can mend them, and
/// the committer ends the run with their own reason.
fn budget(turn: &TurnReady, planned: u32) -> Option<Finding> {
    let (budget, spent) = (&turn.budget, &turn.spent);
    let left = budget.max_tool_calls.saturating_sub(spent.tool_calls);
    if planned > left {
        let message = format!("{planned} calls are proposed, and {left} of {} are left", budget.max_tool_calls);
        return Some(Finding::new(FindingCode::BudgetExceeded, "calls", message));
    }
    None
}

fn steps(turn: &TurnReady) -> Option<Finding> {
    let most = turn.budget.max_steps;
    let spent = turn.spent.steps >= most;
    spent.then(|| Finding::new(FindingCode::BudgetExceeded, "", format!("all {most} steps are spent")))
}

/// What keeps the batch from being planned, beyond what is found already: a resource template cannot be filled from
/// arguments that break their schema, and saying so twice would not help a repair.
fn plan(turn: &TurnReady, accepted: &[AcceptedCall], found: &[Finding]) -> Vec<Finding> {
    let scope = &turn.scope;
    let place =
        PlanPlace { tenant: &scope.tenant, invocation_id: scope.invocation_id, step: scope.step, round: scope.round };
    let mut findings = Plan::build(place, accepted).err().unwrap_or_default();
    findings.retain(|finding| !found.iter().any(|known| known.path.starts_with(&finding.path)));
    findings
}

/// Stands in for the contract of a tool that is none, so that the rest of the batch can be judged; never accepted.
fn unknown(tool: &ToolName) -> ToolContract {
    ToolContract {
        tool: tool.clone(),
        effect: None,
        reads: Vec::new(),
        writes: Vec::new(),
        timeout_ms: 0,
        retry: RetryPolicy::default(),
        volatile: Vec::new(),
        polling: false,
        independent: true,
        required: false,
    }
}
