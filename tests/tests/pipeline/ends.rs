//! Budgets and the other typed ends.

use protocol::{BudgetRequest, Request, TerminalReason};
use serde_json::json;

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
  - match: stuck
    steps: [{step: 1, decision: {kind: cannot_continue, reason: no order number}}]
  - match: broken
    steps: [{step: 1, decision: {kind: final, answer: never}, fail: {times: 99, error: final}}]
"#;

fn ends(goal: &str, change: impl FnOnce(&mut Request)) -> (TerminalReason, u32, usize) {
    let world = World::new(|_| (1_000, answered(200, json!({}))));
    let mut pipeline = pipeline(ENDLESS, &world);
    let mut asked = request(1);
    asked.goal = json!(goal);
    change(&mut asked);
    let ended = run(&mut pipeline, &asked);
    assert_eq!(ended.answer.is_some(), ended.reason == TerminalReason::Completed, "{ended:?}");
    (ended.reason, ended.spent.steps, world.called().len())
}

#[test]
fn without_a_narrow_budget_the_run_completes() {
    assert_eq!(ends("endless", |_| {}), (TerminalReason::Completed, 4, 3));
}

#[test]
fn steps_are_bounded() {
    let (reason, steps, calls) =
        ends("endless", |asked| asked.budget = BudgetRequest { max_steps: Some(2), ..BudgetRequest::default() });
    assert_eq!((reason, steps, calls), (TerminalReason::MaxSteps, 2, 2));
}

#[test]
fn tool_calls_are_bounded() {
    let (reason, _, calls) =
        ends("endless", |asked| asked.budget = BudgetRequest { max_tool_calls: Some(2), ..BudgetRequest::default() });
    assert_eq!((reason, calls), (TerminalReason::ToolBudgetExhausted, 2));
}

#[test]
fn tokens_are_bounded() {
    let (reason, _, calls) =
        ends("endless", |asked| asked.budget = BudgetRequest { max_tokens: Some(150), ..BudgetRequest::default() });
    assert_eq!((reason, calls), (TerminalReason::TokenBudgetExhausted, 1));
}

#[test]
fn cost_is_bounded() {
    let (reason, _, calls) = ends("endless", |asked| {
        asked.budget = BudgetRequest { max_cost_micros: Some(250), ..BudgetRequest::default() }
    });
    assert_eq!((reason, calls), (TerminalReason::CostBudgetExhausted, 2));
}

#[test]
fn a_deadline_ends_the_run_in_the_middle_of_a_call() {
    // Virtual time starts at 1,000 s.
    let (reason, _, calls) = ends("endless", |asked| asked.deadline = Some(protocol::Timestamp(1_001_500)));
    assert_eq!((reason, calls), (TerminalReason::DeadlineExceeded, 2));
}

#[test]
fn the_same_plan_again_and_again_is_no_progress_and_does_not_run() {
    let (reason, steps, calls) = ends("same", |_| {});
    assert_eq!((reason, steps, calls), (TerminalReason::NoProgress, 2, 2), "it may be repeated once, and is");
}

#[test]
fn a_model_may_give_up() {
    assert_eq!(ends("stuck", |_| {}).0, TerminalReason::CannotContinue);
}

#[test]
fn a_provider_that_fails_for_good_is_a_model_error() {
    assert_eq!(ends("broken", |_| {}).0, TerminalReason::ModelError);
}

#[test]
fn an_unknown_agent_is_an_invalid_request() {
    assert_eq!(ends("endless", |asked| asked.agent = "nobody".into()).0, TerminalReason::InvalidRequest);
}

#[test]
fn a_tool_outside_the_profile_is_an_invalid_request() {
    assert_eq!(ends("endless", |asked| asked.tools = Some(vec!["shell".into()])).0, TerminalReason::InvalidRequest);
}

#[test]
fn a_required_tool_that_stays_unavailable_ends_the_run() {
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
