//! Budgets at their edge: used up to the last unit, shared with retries, priced, and under a ceiling.

use chassis::registry::{Prices, Registry, Tenants};
use protocol::{Budget, BudgetRequest, Event, Fact, FindingCode, ReleaseReason, Request, TerminalReason};
use schemas::Topic;
use serde_json::{Value, json};

use crate::progress::{answer, read, script};
use crate::stage::*;

/// Four reads that each cost 90 + 10 tokens, then the answer.
fn priced_reads() -> String {
    let usage = json!({"input_tokens": 90, "output_tokens": 10, "cost_micros": 100});
    let step = |n: usize| json!({"step": n, "decision": read("a", n), "usage": usage});
    let mut steps: Vec<Value> = (1..=4).map(step).collect();
    steps.push(json!({"step": 5, "decision": answer(), "usage": usage}));
    json!({"runs": [{"steps": steps}]}).to_string()
}

struct Played {
    reason: TerminalReason,
    calls: usize,
    /// How often the model was asked.
    asked: usize,
    spent: protocol::Spent,
    detail: String,
}

fn play(registry: Registry, scenario: &str, world: &World, budget: BudgetRequest) -> Played {
    let mut pipeline = pipeline_with(1, registry, scenario, world);
    let ended = run(&mut pipeline, &Request { budget, ..request(1) });
    let asked = pipeline.seen().count(Topic::Turns);
    Played { reason: ended.reason, calls: world.called().len(), asked, spent: ended.spent, detail: ended.detail }
}

#[test]
fn a_token_budget_that_is_used_up_ends_the_run_before_the_model_is_asked_again() {
    let budget = |max_tokens| BudgetRequest { max_tokens: Some(max_tokens), ..BudgetRequest::default() };
    let exact = play(registry(), &priced_reads(), &World::echoing(), budget(200));
    assert_eq!((exact.reason, exact.calls, exact.asked), (TerminalReason::TokenBudgetExhausted, 2, 2));
    assert_eq!(exact.spent.usage.tokens(), 200);
    let more = play(registry(), &priced_reads(), &World::echoing(), budget(201));
    assert_eq!((more.reason, more.calls, more.asked), (TerminalReason::TokenBudgetExhausted, 2, 3));
    assert_eq!(more.spent.usage.tokens(), 300, "the third answer was paid for, and its call was not made");
}

#[test]
fn cost_is_computed_from_the_agents_prices_and_bounded() {
    let mut priced = registry();
    priced.agents.agents[0].prices =
        Some(Prices { input_micros_per_million: 3_000_000, output_micros_per_million: 15_000_001 });
    // 90 * 3 + 10 * 15.000001, rounded up.
    let each = 421;
    let budget = |micros| BudgetRequest { max_cost_micros: Some(micros), ..BudgetRequest::default() };
    let exact = play(priced.clone(), &priced_reads(), &World::echoing(), budget(2 * each));
    assert_eq!((exact.reason, exact.calls, exact.asked), (TerminalReason::CostBudgetExhausted, 2, 2));
    assert_eq!(
        (exact.spent.usage.cost_micros, exact.detail),
        (842, "842 micros are spent, and 842 is the budget".into())
    );
    let enough = play(priced, &priced_reads(), &World::echoing(), budget(5 * each));
    assert_eq!((enough.reason, enough.spent.usage.cost_micros), (TerminalReason::Completed, 5 * each));
}

/// The attempts that the log of a run releases; one that replaces an attempt that nobody started is none.
fn attempts(events: &[Event]) -> usize {
    let released = events.iter().map(|event| match &event.fact {
        Fact::WaveReleased { calls, .. } => calls.len(),
        Fact::CallReleased { why: ReleaseReason::Retry | ReleaseReason::NotApplied, .. } => 1,
        _ => 0,
    });
    released.sum()
}

#[test]
fn a_tool_budget_holds_for_retries_too() {
    let down = World::new(|_| (1, answered(503, json!({}))));
    let reads: Vec<Value> = (1..=3).map(|n| json!({"step": n, "decision": read("a", n)})).collect();
    let repair = json!({"step": 3, "round": 1, "decision": read("b", 1)});
    let scenario = json!({"runs": [{"steps": [reads[0], reads[1], reads[2], repair]}]}).to_string();
    let mut pipeline = pipeline(&scenario, &down);
    let budget = BudgetRequest { max_tool_calls: Some(3), ..BudgetRequest::default() };
    let ended = run(&mut pipeline, &Request { budget, ..request(1) });
    assert_eq!(ended.reason, TerminalReason::ToolBudgetExhausted);
    assert_eq!((down.called().len(), ended.spent.tool_calls), (3, 3), "two attempts, one, and none");
    let events = events(&pipeline, id(1));
    assert_eq!(attempts(&events), 3);
    let tried: Vec<u32> = turns(&events).iter().map(|turn| turn.results[0].outcome.attempts).collect();
    assert_eq!(tried, [2, 1], "the second call found nothing left for its retry");
    let rejected = events.iter().filter_map(|event| match &event.fact {
        Fact::DecisionRejected { findings, repair, .. } => Some((findings[0].code, *repair)),
        _ => None,
    });
    let expected = [(FindingCode::BudgetExceeded, true), (FindingCode::BudgetExceeded, false)];
    assert_eq!(rejected.collect::<Vec<_>>(), expected, "said at the proposal, and decided at the commit");
}

#[test]
fn what_is_never_called_costs_no_tool_call() {
    let refuses = World::new(|_| (1, answered(422, json!({}))));
    let calls = json!([
        {"call_id": "x", "tool_name": "refund", "arguments": {"n": 7}},
        {"call_id": "y", "tool_name": "read_order", "arguments": {"n": 7}},
    ]);
    let scenario = script(&[json!({"kind": "tool_calls", "calls": calls}), answer()]);
    let played = play(registry(), &scenario, &refuses, BudgetRequest::default());
    assert_eq!((played.reason, refuses.called()), (TerminalReason::Completed, vec!["refund".to_owned()]));
    assert_eq!(played.spent.tool_calls, 1, "the read that waited for the refund was skipped");
}

#[test]
fn max_steps_ends_a_run_that_always_finds_something_new() {
    let reads: Vec<Value> = (1..=8).map(|n| read("a", n)).collect();
    let budget = BudgetRequest { max_steps: Some(3), ..BudgetRequest::default() };
    let played = play(registry(), &script(&reads), &World::echoing(), budget);
    assert_eq!((played.reason, played.calls, played.asked), (TerminalReason::MaxSteps, 3, 3));
}

#[test]
fn the_active_time_of_the_profile_ends_a_run() {
    let mut short = registry();
    short.agents.agents[0].timing.max_runtime_ms = 2_500;
    let slow = World::new(|_| (1_000, answered(200, json!({}))));
    let reads: Vec<Value> = (1..=8).map(|n| read("a", n)).collect();
    let played = play(short, &script(&reads), &slow, BudgetRequest::default());
    assert_eq!((played.reason, played.calls), (TerminalReason::DeadlineExceeded, 3));
    assert!(played.detail.contains("active time"), "{}", played.detail);
}

#[test]
fn a_budget_over_the_tenants_ceiling_is_an_invalid_request_that_names_it() {
    let ceiling = Budget {
        max_steps: 20,
        max_tool_calls: 40,
        max_tokens: 300_000,
        max_cost_micros: 2_000_000,
        max_repeated_plan: 2,
    };
    let over = |name: &str, most: u64| {
        let mut registry = registry();
        registry.agents.tenants = vec![Tenants { tenant: TENANT.into(), ceiling }];
        let budget: BudgetRequest = serde_json::from_value(json!({name: most + 1})).unwrap();
        let played = play(registry, &script(&[answer()]), &World::echoing(), budget);
        assert_eq!((played.reason, played.asked), (TerminalReason::InvalidRequest, 0), "{name}");
        assert_eq!(played.detail, format!("budget.{name} is {}, and the tenant's ceiling is {most}", most + 1));
    };
    over("max_steps", 20);
    over("max_tool_calls", 40);
    over("max_tokens", 300_000);
    over("max_cost_micros", 2_000_000);
    over("max_repeated_plan", 2);
    let mut registry = registry();
    registry.agents.tenants = vec![Tenants { tenant: "*".into(), ceiling }];
    let budget = BudgetRequest { max_steps: Some(20), ..BudgetRequest::default() };
    assert_eq!(play(registry, &script(&[answer()]), &World::echoing(), budget).reason, TerminalReason::Completed);
}
