//! Every terminal reason, brought about in the whole pipeline.

use protocol::{BudgetRequest, Control, Request, RunEnded, Segment, TerminalReason};
use serde_json::json;
use tool_executor::Transported;

use crate::stage::*;

/// Reads something new in every step.
const ENDLESS: &str = r#"
runs:
  - match: endless
    steps:
      - {step: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 1}}]}, usage: {input_tokens: 90, output_tokens: 10, cost_micros: 100}}
      - {step: 2, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 2}}]}, usage: {input_tokens: 90, output_tokens: 10, cost_micros: 100}}
      - {step: 3, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 3}}]}, usage: {input_tokens: 90, output_tokens: 10, cost_micros: 100}}
      - {step: 3, round: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: b, arguments: {n: 3}}]}}
      - {step: 4, decision: {kind: final, answer: late}, usage: {input_tokens: 90, output_tokens: 10, cost_micros: 100}}
  - match: same
    steps:
      - {step: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 1}}]}}
      - {step: 2, decision: {kind: tool_calls, calls: [{call_id: y, tool_name: a, arguments: {n: 1}}]}}
      - {step: 3, decision: {kind: tool_calls, calls: [{call_id: z, tool_name: a, arguments: {n: 1}}]}}
      - {step: 3, round: 1, decision: {kind: tool_calls, calls: [{call_id: z, tool_name: a, arguments: {n: 1}}]}}
      - {step: 4, decision: {kind: final, answer: late}}
  - match: invalid
    steps:
      - {step: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: one}}]}}
      - {step: 1, round: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: nowhere, arguments: {n: 1}}]}}
  - match: denied
    steps:
      - {step: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 1}}]}}
      - {step: 1, round: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 1}}]}}
      - {step: 2, decision: {kind: final, answer: done}}
  - match: wire
    steps:
      - {step: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: wire, arguments: {n: 1}}]}}
      - {step: 2, decision: {kind: final, answer: wired}}
  - match: approval
    steps:
      - {step: 1, decision: {kind: request_approval, calls: [{call_id: x, tool_name: refund, arguments: {n: 1}}]}}
      - {step: 2, decision: {kind: final, answer: refunded}}
  - match: question
    steps:
      - {step: 1, decision: {kind: clarification, question: "which order?"}}
      - {step: 2, decision: {kind: final, answer: answered}}
  - match: stuck
    steps: [{step: 1, decision: {kind: cannot_continue, reason: no order number}}]
  - match: broken
    steps: [{step: 1, decision: {kind: final, answer: never}, fail: {times: 99, error: final}}]
"#;

/// How each reason is brought about. A reason that has no test here cannot occur yet, and the README says so.
const SHOWN: [(TerminalReason, fn()); 17] = [
    (TerminalReason::Completed, ends_completed),
    (TerminalReason::CannotContinue, ends_cannot_continue),
    (TerminalReason::Cancelled, ends_cancelled),
    (TerminalReason::DeadlineExceeded, ends_deadline_exceeded),
    (TerminalReason::MaxSteps, ends_max_steps),
    (TerminalReason::ToolBudgetExhausted, ends_tool_budget_exhausted),
    (TerminalReason::TokenBudgetExhausted, ends_token_budget_exhausted),
    (TerminalReason::CostBudgetExhausted, ends_cost_budget_exhausted),
    (TerminalReason::NoProgress, ends_no_progress),
    (TerminalReason::InvalidDecision, ends_invalid_decision),
    (TerminalReason::PermissionDenied, ends_permission_denied),
    (TerminalReason::ModelError, ends_model_error),
    (TerminalReason::ToolUnavailable, ends_tool_unavailable),
    (TerminalReason::InvalidRequest, ends_invalid_request),
    (TerminalReason::ApprovalRequired, ends_approval_required),
    (TerminalReason::ClarificationRequired, ends_clarification_required),
    (TerminalReason::ReconciliationRequired, ends_reconciliation_required),
];

#[test]
fn every_reason_is_shown_here_or_said_to_be_impossible() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    for reason in TerminalReason::ALL {
        let row = format!("| `{}` |", reason.as_str());
        let row = readme.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no row {row}"));
        let shown = SHOWN.iter().any(|(known, _)| *known == reason);
        assert_ne!(shown, row.contains("Cannot occur yet"), "{row}");
    }
}

/// Runs the goal's scenario with a changed request: how it ended, and the tools it called.
fn ends(goal: &str, change: impl FnOnce(&mut Request)) -> (RunEnded, Vec<String>) {
    let world = World::new(|_| (1_000, answered(200, json!({}))));
    let mut pipeline = pipeline(ENDLESS, &world);
    let mut asked = request(1);
    asked.goal = json!(goal);
    change(&mut asked);
    let ended = run(&mut pipeline, &asked);
    assert_eq!(ended.answer.is_some(), ended.reason == TerminalReason::Completed, "{ended:?}");
    assert_eq!(ended.reason, events_say(&pipeline), "the log and the terminal event agree");
    (ended, world.called())
}

fn events_say(pipeline: &turnwright_tests::sim::Pipeline) -> TerminalReason {
    match events(pipeline, id(1)).last().map(|event| event.fact.clone()) {
        Some(protocol::Fact::Ended { reason, .. }) => reason,
        last => panic!("the last event is {last:?}"),
    }
}

fn budget(asked: &mut Request, budget: BudgetRequest) {
    asked.budget = budget;
}

#[test]
fn ends_completed() {
    let (ended, called) = ends("endless", |_| {});
    assert_eq!((ended.reason, ended.spent.steps, called.len()), (TerminalReason::Completed, 4, 3));
}

#[test]
fn ends_cannot_continue() {
    let (ended, called) = ends("stuck", |_| {});
    assert_eq!((ended.reason, ended.detail.as_str()), (TerminalReason::CannotContinue, "no order number"));
    assert!(called.is_empty());
}

#[test]
fn ends_cancelled() {
    let world = World::new(|_| (15_000, answered(200, json!({}))));
    let mut pipeline = pipeline(ENDLESS, &world);
    pipeline.request(&Request { goal: json!("endless"), ..request(1) });
    pipeline.run_for(2_000);
    pipeline.control(&cancel(TENANT, id(1)));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.detail.as_str()), (TerminalReason::Cancelled, "changed my mind"));
}

#[test]
fn ends_deadline_exceeded() {
    // Virtual time starts at 1,000 s: this is in the middle of the second call.
    let (ended, called) = ends("endless", |asked| asked.deadline = Some(protocol::Timestamp(1_001_500)));
    assert_eq!((ended.reason, called.len()), (TerminalReason::DeadlineExceeded, 2));
}

#[test]
fn ends_max_steps() {
    let (ended, called) =
        ends("endless", |asked| budget(asked, BudgetRequest { max_steps: Some(2), ..BudgetRequest::default() }));
    assert_eq!((ended.reason, ended.spent.steps, called.len()), (TerminalReason::MaxSteps, 2, 2));
}

#[test]
fn ends_tool_budget_exhausted() {
    let (ended, called) =
        ends("endless", |asked| budget(asked, BudgetRequest { max_tool_calls: Some(2), ..BudgetRequest::default() }));
    assert_eq!((ended.reason, called.len()), (TerminalReason::ToolBudgetExhausted, 2));
}

#[test]
fn ends_token_budget_exhausted() {
    let (ended, called) =
        ends("endless", |asked| budget(asked, BudgetRequest { max_tokens: Some(150), ..BudgetRequest::default() }));
    assert_eq!((ended.reason, called.len()), (TerminalReason::TokenBudgetExhausted, 1));
}

#[test]
fn ends_cost_budget_exhausted() {
    let (ended, called) = ends("endless", |asked| {
        budget(asked, BudgetRequest { max_cost_micros: Some(250), ..BudgetRequest::default() })
    });
    assert_eq!((ended.reason, called.len()), (TerminalReason::CostBudgetExhausted, 2));
}

#[test]
fn ends_no_progress() {
    let (ended, called) = ends("same", |_| {});
    assert_eq!((ended.reason, called.len()), (TerminalReason::NoProgress, 2), "it may be repeated once, and is");
}

#[test]
fn ends_invalid_decision() {
    let (ended, called) = ends("invalid", |_| {});
    assert_eq!((ended.reason, called.len()), (TerminalReason::InvalidDecision, 0));
}

#[test]
fn ends_model_error() {
    assert_eq!(ends("broken", |_| {}).0.reason, TerminalReason::ModelError);
}

#[test]
fn ends_invalid_request() {
    let (unknown, _) = ends("endless", |asked| asked.agent = "nobody".into());
    let (foreign, _) = ends("endless", |asked| asked.tools = Some(vec!["shell".into()]));
    let (greedy, called) = ends("endless", |asked| {
        budget(asked, BudgetRequest { max_steps: Some(1_000_000), ..BudgetRequest::default() });
    });
    for ended in [&unknown, &foreign, &greedy] {
        assert_eq!(ended.reason, TerminalReason::InvalidRequest, "{ended:?}");
    }
    assert!(called.is_empty());
}

/// Runs to a suspension, does what the caller is told to do, and runs to the end.
fn resumed(goal: &str, reason: TerminalReason, answer: impl FnOnce(&RunEnded) -> Control) -> RunEnded {
    let lost = || Transported::Uncertain { class: protocol::ErrorClass::Timeout, why: "the answer was lost" };
    let world = World::new(move |request| match request.tool.name.as_str() {
        "wire" => (10, lost()),
        _ => (10, answered(200, json!({"effect_id": "r-1"}))),
    });
    let mut pipeline = pipeline(ENDLESS, &world);
    pipeline.request(&Request { goal: json!(goal), ..request(1) });
    let segment = suspended(&mut pipeline, 1);
    assert_eq!((segment.reason, segment.resumable, &segment.answer), (reason, true, &None));
    pipeline.control(&control(1, answer(&segment)));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.segment), (TerminalReason::Completed, Segment(2)));
    segment
}

#[test]
fn ends_approval_required() {
    resumed("approval", TerminalReason::ApprovalRequired, |segment| Control::Approve {
        actor: "grace".into(),
        proposal_digest: segment.proposal.as_ref().unwrap().digest,
    });
}

#[test]
fn ends_clarification_required() {
    resumed("question", TerminalReason::ClarificationRequired, |segment| Control::Clarify {
        actor: "ada".into(),
        answer: json!("order 7"),
        step: Some(segment.scope.step),
    });
}

#[test]
fn ends_reconciliation_required() {
    let segment = resumed("wire", TerminalReason::ReconciliationRequired, |segment| Control::ResolveEffect {
        actor: "grace".into(),
        effect_key: segment.effects[0].key.clone(),
        outcome: was_committed(json!({})),
        evidence: "statement of account, line 12".into(),
    });
    assert!(segment.effects_unresolved);
}

#[test]
fn active_time_ends_a_run_as_its_deadline_does() {
    // 120 s are the profile's; a call takes at most 20 s, twice.
    let world = World::new(|_| (19_000, answered(200, json!({}))));
    let steps: Vec<String> = (1..=8)
        .map(|n| {
            let call = format!("{{call_id: x, tool_name: a, arguments: {{n: {n}}}}}");
            format!("      - {{step: {n}, decision: {{kind: tool_calls, calls: [{call}]}}}}")
        })
        .collect();
    let mut pipeline = pipeline(&format!("runs:\n  - steps:\n{}\n", steps.join("\n")), &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.reason, TerminalReason::DeadlineExceeded);
    assert_eq!(ended.ended_at.ms_since(ended.requested_at) / 1_000, 120);
}

#[test]
fn ends_permission_denied() {
    let world = World::echoing();
    let ends = |policies: &str| {
        let mut pipeline = pipeline_under(policies, ENDLESS, &world);
        run(&mut pipeline, &Request { goal: json!("denied"), ..request(1) })
    };
    let everything = "permit(principal, action, resource);";
    let denied = ends(&format!("{everything}\nforbid(principal, action == Action::\"a\", resource);"));
    assert_eq!((denied.reason, denied.spent.tool_calls), (TerminalReason::PermissionDenied, 0), "{denied:?}");
    assert_eq!(ends("").reason, TerminalReason::PermissionDenied, "nothing is allowed unless a policy says so");
    assert!(world.called().is_empty());
    assert_eq!(ends(everything).reason, TerminalReason::Completed);
    assert_eq!(world.called().len(), 1);
}

#[test]
fn a_gate_of_the_policy_asks_a_person_and_runs_what_was_approved() {
    let gate = "@approval(\"look first\") @four_eyes(\"true\") forbid(principal, action == Action::\"a\", resource);";
    let world = World::echoing();
    let mut pipeline = pipeline_under(&format!("permit(principal, action, resource);\n{gate}"), ENDLESS, &world);
    pipeline.request(&Request { goal: json!("denied"), ..request(1) });
    let segment = suspended(&mut pipeline, 1);
    assert_eq!((segment.reason, world.called().len()), (TerminalReason::ApprovalRequired, 0));
    let proposal = segment.proposal.unwrap();
    assert!(proposal.four_eyes);
    assert_eq!(proposal.reasons[0].message, "look first");
    let approve = |actor: &str| Control::Approve { actor: actor.into(), proposal_digest: proposal.digest };
    pipeline.control(&control(1, approve("ada")));
    pipeline.control(&control(1, approve("grace")));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, world.called().len()), (TerminalReason::Completed, 1));
    let granted = events(&pipeline, id(1)).into_iter().find_map(|event| match event.fact {
        protocol::Fact::ApprovalGranted { actor, .. } => Some(actor),
        _ => None,
    });
    assert_eq!(granted, Some("grace".into()), "the actor cannot approve, another can");
}

#[test]
fn ends_tool_unavailable() {
    let world = World::new(|_| (10, answered(503, json!({}))));
    let ends = |required: bool| {
        let mut registry = registry();
        registry.tools.tools[0].required = required;
        let mut pipeline = pipeline_with(1, registry, ENDLESS, &world);
        let asked = Request { goal: json!("endless"), ..request(1) };
        run(&mut pipeline, &asked)
    };
    let ended = ends(true);
    assert_eq!((ended.reason, ended.spent.steps), (TerminalReason::ToolUnavailable, 1));
    assert_eq!(world.called().len(), 2, "after its retries");
    assert_eq!(ends(false).reason, TerminalReason::Completed, "another tool's failure is the model's to see");
}
