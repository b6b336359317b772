//! A run with its progress, and short ways to give it turns.

mod errors;
mod goals;
mod properties;
mod signals;

use serde_json::{Value, json};

use super::*;
use crate::{CallId, CallOutcome, InvocationId, PlanPlace, ProposedCall, RetryPolicy, Round, Step, Tenant};

/// A tool whose name starts with `poll` is a polling one; its field `at` is volatile.
fn call(tool: &str, arguments: Value) -> AcceptedCall {
    let contract = ToolContract {
        tool: tool.into(),
        effect: None,
        reads: vec![],
        writes: vec![],
        timeout_ms: 1_000,
        retry: RetryPolicy::default(),
        volatile: vec!["at".into()],
        polling: tool.starts_with("poll"),
        independent: true,
        required: false,
    };
    let provider_call_id = format!("{tool}/{arguments}");
    AcceptedCall { call: ProposedCall { provider_call_id, tool: tool.into(), arguments }, contract }
}

fn plan(calls: &[AcceptedCall]) -> Plan {
    let (tenant, invocation_id) = (Tenant("acme".into()), InvocationId(uuid::Uuid::nil()));
    let place = PlanPlace { tenant: &tenant, invocation_id, step: Step(1), round: Round(0) };
    Plan::build(place, calls).unwrap()
}

fn output(value: Value) -> CallOutcome {
    CallOutcome { result: CallResult::Output(value), attempt_id: None, attempts: 1, effect_status: None, receipt: None }
}

fn failure(class: ErrorClass) -> CallOutcome {
    CallOutcome { attempts: 1, ..CallOutcome::without_attempt(class, "no") }
}

/// A run with its progress, as the decider keeps it.
struct Run(Progress);

impl Run {
    fn new(limits: ProgressLimits) -> Self {
        Self(Progress::new(limits, &[]))
    }

    /// The signals that keep these calls from running.
    fn stopped_by(&self, calls: &[AcceptedCall], max_repeated_plan: u32) -> Vec<String> {
        let plan = plan(calls);
        let mark = self.0.mark(&plan, fingerprint(calls));
        let findings = self.0.findings(&plan, mark, max_repeated_plan);
        assert!(findings.iter().all(|finding| finding.code == FindingCode::NoProgress));
        let signal = |finding: Finding| finding.message.split(':').next().map(str::to_owned).unwrap_or_default();
        findings.into_iter().map(signal).collect()
    }

    fn stopped(&self, tool: &str, n: u32) -> Vec<String> {
        self.stopped_by(&[call(tool, json!({"n": n}))], u32::MAX)
    }

    fn turn(&mut self, calls: &[AcceptedCall], outcomes: &[CallOutcome]) -> TurnProgress {
        let mark = self.0.mark(&plan(calls), fingerprint(calls));
        let results: Vec<TurnResult> = calls
            .iter()
            .zip(outcomes)
            .map(|(accepted, outcome)| TurnResult {
                call_id: CallId(uuid::Uuid::nil()),
                provider_call_id: accepted.call.provider_call_id.clone(),
                tool: accepted.call.tool.clone(),
                outcome: outcome.clone(),
            })
            .collect();
        let decision = AcceptedDecision::ToolCalls { calls: calls.to_vec() };
        let (next, turn) = self.0.after(Some(mark), &decision, &results);
        self.0 = next;
        turn
    }

    fn one(&mut self, tool: &str, n: u32, outcome: CallOutcome) -> TurnProgress {
        self.turn(&[call(tool, json!({"n": n}))], &[outcome])
    }

    /// A read that answers with the name of its tool.
    fn read(&mut self, tool: &str) -> TurnProgress {
        self.one(tool, 1, output(json!(tool)))
    }
}

fn only(change: impl FnOnce(&mut ProgressLimits)) -> ProgressLimits {
    let off = Limit::Off;
    let mut limits = ProgressLimits {
        window: 8,
        evidence_repeats: off,
        no_state_delta: off,
        unmet_goal_predicates: off,
        error_cycle: off,
    };
    change(&mut limits);
    limits
}

fn goal(name: &str, tool: &str, rest: Value) -> GoalPredicate {
    let mut predicate = json!({"name": name, "tool": tool});
    predicate.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
    serde_json::from_value(predicate).unwrap()
}
