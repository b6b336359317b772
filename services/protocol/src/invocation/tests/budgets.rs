//! Budgets (M6): what counts, what is given back, and that they hold for any order of inputs (I12).

use proptest::prelude::*;
use serde_json::json;

use super::progress::admitted_as;
use super::properties::{input, steps};
use super::world::*;
use crate::*;

fn usage(input_tokens: u64, cost_micros: u64) -> ModelEvidence {
    ModelEvidence { usage: Usage { input_tokens, output_tokens: 0, cost_micros }, ..evidence() }
}

fn under(budget: Budget) -> World {
    admitted_as(|profile| (profile.budget, profile.ceiling) = (budget, budget), json!([]))
}

fn decide(world: &mut World, decision: AcceptedDecision, evidence: ModelEvidence) -> Vec<&'static str> {
    world.judge(Judgement::Accepted { decision, evidence }).unwrap()
}

fn look(q: u32) -> AcceptedDecision {
    AcceptedDecision::ToolCalls { calls: vec![call("a", LOOKUP, json!({"q": q}))] }
}

/// Plans one read that costs so much, and settles it.
fn turn(world: &mut World, q: u32, evidence: ModelEvidence) -> Vec<&'static str> {
    decide(world, look(q), evidence);
    let dispatch = world.last_dispatch();
    world.settle(&dispatch, ok(json!(q))).unwrap()
}

fn spent(world: &World) -> Spent {
    world.state.run.as_ref().unwrap().spent
}

#[test]
fn a_budget_that_is_used_up_to_the_last_token_ends_the_run_before_the_model_is_asked_again() {
    let tokens = Budget { max_tokens: 100, ..budget() };
    let mut world = under(tokens);
    assert_eq!(turn(&mut world, 1, usage(99, 0)), ["call_settled", "turn_committed"]);
    assert_eq!(turn(&mut world, 2, usage(1, 0)), ["call_settled", "turn_committed", "ended"]);
    let end = world.last_end();
    assert_eq!((end.reason, end.spent.usage.tokens()), (TerminalReason::TokenBudgetExhausted, 100));
    assert_eq!(end.detail, "100 tokens are spent, and 100 is the budget");

    let mut world = under(Budget { max_cost_micros: 50, ..budget() });
    assert_eq!(turn(&mut world, 1, usage(1, 50)), ["call_settled", "turn_committed", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::CostBudgetExhausted);

    // Not for a repair either.
    let mut world = under(tokens);
    let findings = vec![Finding::new(FindingCode::UnknownTool, "calls", "no")];
    let facts = world.judge(Judgement::Rejected { findings, evidence: usage(100, 0) }).unwrap();
    assert_eq!(facts, ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::TokenBudgetExhausted);
}

#[test]
fn what_costs_nothing_may_be_had_for_nothing() {
    let mut world = under(Budget { max_tokens: 0, max_cost_micros: 0, ..budget() });
    assert_eq!(turn(&mut world, 1, usage(0, 0)), ["call_settled", "turn_committed"]);
    assert_eq!(decide(&mut world, look(2), usage(1, 0)), ["decision_rejected", "ended"]);
    assert_eq!((world.last_end().reason, world.dispatches().len()), (TerminalReason::TokenBudgetExhausted, 1));
}

#[test]
fn an_answer_that_overspends_is_still_an_answer_and_the_last_thing_paid_for() {
    let mut world = under(Budget { max_tokens: 10, ..budget() });
    decide(&mut world, AcceptedDecision::Final { answer: json!(1) }, usage(11, 0));
    assert_eq!((world.last_end().reason, spent(&world).usage.tokens()), (TerminalReason::Completed, 11));
}

#[test]
fn nobody_is_asked_a_question_whose_answer_nothing_is_left_for() {
    let mut world = under(Budget { max_tokens: 10, ..budget() });
    let question = || AcceptedDecision::Clarification { question: "which order?".into() };
    assert_eq!(decide(&mut world, question(), usage(10, 0)), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::TokenBudgetExhausted);
}

#[test]
fn a_failed_call_counts_a_retry_counts_again_and_no_retry_goes_over_the_budget() {
    let mut world = under(Budget { max_tool_calls: 2, ..budget() });
    decide(&mut world, look(1), usage(1, 1));
    let first = world.last_dispatch();
    let failed = || AttemptOutcome::Failed { error: error(ErrorClass::Unavailable) };
    assert_eq!(world.settle(&first, failed()).unwrap(), ["attempt_failed"]);
    assert_eq!(world.fire(TimerName::Call(first.call_id)).unwrap(), ["call_released"]);
    assert_eq!(spent(&world).tool_calls, 2);
    let second = world.last_dispatch();
    assert_eq!(world.settle(&second, failed()).unwrap(), ["call_settled", "turn_committed"]);
    assert_eq!(decide(&mut world, look(2), usage(1, 1)), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::ToolBudgetExhausted);
    assert_eq!((world.dispatches().len(), spent(&world).tool_calls), (2, 2));
}

#[test]
fn two_calls_that_wait_for_a_retry_share_what_is_left() {
    let mut world = under(Budget { max_tool_calls: 3, ..budget() });
    let calls = vec![call("a", LOOKUP, json!({"q": 1})), call("b", LOOKUP, json!({"q": 2}))];
    decide(&mut world, AcceptedDecision::ToolCalls { calls }, usage(1, 1));
    let dispatches = world.dispatches();
    let failed = || AttemptOutcome::Failed { error: error(ErrorClass::Unavailable) };
    for dispatch in &dispatches {
        assert_eq!(world.settle(dispatch, failed()).unwrap(), ["attempt_failed"]);
    }
    // Both are due: the first takes what is left.
    world.now = world.now.plus_ms(10_000);
    let facts = world.input(Input::TimerFired(TimerName::Call(dispatches[0].call_id))).unwrap();
    assert_eq!(facts, ["call_released", "call_settled"]);
    assert_eq!((world.dispatches().len(), spent(&world).tool_calls), (3, 3));
}

#[test]
fn an_owners_not_applied_is_followed_by_another_attempt_within_the_budget_only() {
    for (max_tool_calls, expected) in [(2, "call_released"), (1, "call_settled")] {
        let mut world = under(Budget { max_tool_calls, ..budget() });
        let calls = vec![call("a", REFUND, json!({"order": 7}))];
        decide(&mut world, AcceptedDecision::ToolCalls { calls }, usage(1, 1));
        let dispatch = world.last_dispatch();
        world.claim(&dispatch).unwrap();
        world.settle(&dispatch, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }).unwrap();
        world.say(&world.query(), Answer::NotApplied).unwrap();
        world.fire(TimerName::Call(dispatch.call_id)).unwrap();
        let facts = world.say(&world.query(), Answer::NotApplied).unwrap();
        assert_eq!((facts[0], facts[1]), ("effect_resolved", expected));
        assert!(spent(&world).tool_calls <= max_tool_calls);
    }
}

#[test]
fn an_attempt_that_nobody_started_is_replaced_and_not_counted_twice() {
    let mut world = under(Budget { max_tool_calls: 1, ..budget() });
    let calls = vec![call("a", REFUND, json!({"order": 7}))];
    decide(&mut world, AcceptedDecision::ToolCalls { calls }, usage(1, 1));
    let (first, name) = (world.last_dispatch(), TimerName::Call(world.last_dispatch().call_id));
    for _ in 0..3 {
        assert_eq!(world.fire(name).unwrap(), ["call_released"]);
    }
    assert_eq!(spent(&world).tool_calls, 1);
    assert_eq!(world.claim(&first), Err(Ignored::Claim(ClaimRefusal::Superseded)), "it never starts any more");
    let last = world.last_dispatch();
    world.claim(&last).unwrap();
    world.settle(&last, committed("r1")).unwrap();
    assert_eq!(spent(&world).tool_calls, 1);
}

#[test]
fn what_was_reserved_for_a_call_that_is_never_made_is_given_back() {
    let mut world = under(Budget { max_tool_calls: 2, ..budget() });
    let order = json!({"order": 7});
    let calls = vec![call("a", REFUND, order.clone()), call("b", "read_order", order.clone())];
    decide(&mut world, AcceptedDecision::ToolCalls { calls }, usage(1, 1));
    assert_eq!(spent(&world).tool_calls, 2, "reserved");
    let dispatch = world.last_dispatch();
    world.claim(&dispatch).unwrap();
    world.settle(&dispatch, AttemptOutcome::Failed { error: error(ErrorClass::BusinessRejected) }).unwrap();
    assert_eq!(spent(&world).tool_calls, 1, "the dependant was skipped");
    // The recorded rejection is given again, without a call.
    decide(&mut world, AcceptedDecision::ToolCalls { calls: vec![call("a", REFUND, order)] }, usage(1, 1));
    assert_eq!((spent(&world).tool_calls, world.dispatches().len()), (1, 1));
    assert_eq!(turn(&mut world, 1, usage(1, 1)), ["call_settled", "turn_committed"]);
    assert_eq!(decide(&mut world, look(2), usage(1, 1)), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::ToolBudgetExhausted);
}

/// Every attempt that may have run: a release that replaces an attempt nobody started is none.
fn attempts(events: &[Event]) -> usize {
    let released = events.iter().map(|event| match &event.fact {
        Fact::WaveReleased { calls, .. } => calls.len(),
        Fact::CallReleased { why: ReleaseReason::Retry | ReleaseReason::NotApplied, .. } => 1,
        _ => 0,
    });
    released.sum()
}

/// What the events say was paid for answers: each answer stands in the event that first took it.
fn paid(events: &[Event]) -> Usage {
    let answers = events.iter().filter_map(|event| match &event.fact {
        Fact::DecisionRejected { evidence, .. } | Fact::ClarificationRequested { evidence, .. } => Some(evidence),
        Fact::ApprovalRequested(requested) => Some(&requested.evidence),
        Fact::TurnPlanned(planned) => Some(&planned.evidence),
        Fact::TurnCommitted(turn) => Some(&turn.evidence),
        _ => None,
    });
    let mut seen = Vec::new();
    let firsts = answers.filter(|evidence| {
        let is_new = !seen.contains(&evidence.response_id);
        seen.push(evidence.response_id.clone());
        is_new
    });
    firsts.fold(Usage::default(), |sum, evidence| sum.plus(&evidence.usage))
}

fn approve(world: &World) -> Option<Input> {
    match world.state.phase()? {
        Phase::Suspended(Suspension::Approval(pending)) => {
            let proposal_digest = pending.requested.proposal_digest;
            Some(Input::Control(Control::Approve { actor: "grace".into(), proposal_digest }))
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1_000), ..ProptestConfig::default() })]

    /// Whatever comes in which order, and however often: no turn is asked for and no call runs beyond a budget, and what
    /// the run says it has spent is what its events say it has.
    #[test]
    fn budgets_hold_for_any_order_of_inputs(
        steps in steps(), max_steps in 1..5_u32, max_tool_calls in 0..6_u32, max_tokens in 0..60_u64, max_cost in 0..60_u64,
    ) {
        let budget =
            Budget { max_steps, max_tool_calls, max_tokens, max_cost_micros: max_cost, max_repeated_plan: 9 };
        let mut world = under(budget);
        for (at, (kind, n, wait)) in steps.into_iter().enumerate() {
            world.now = world.now.plus_ms(u64::from(wait));
            let drawn = if n % 2 == 0 { approve(&world) } else { None };
            let Some(mut input) = drawn.or_else(|| input(&world, kind, n)) else { continue };
            if let Input::Verdict(verdict) = &mut input
                && let Judgement::Accepted { decision, evidence } | Judgement::ApprovalRequired { decision, evidence, .. } =
                    &mut verdict.judgement
            {
                evidence.response_id = format!("answer-{at}");
                evidence.usage =
                    Usage { input_tokens: u64::from(n % 13), output_tokens: u64::from(n % 5), cost_micros: u64::from(n % 17) };
                if let (AcceptedDecision::ToolCalls { calls }, true) = (&decision, n % 7 == 0) {
                    *decision = AcceptedDecision::RequestApproval { calls: calls.clone() };
                }
            } else if let Input::Verdict(verdict) = &mut input
                && let Judgement::Rejected { evidence, .. } = &mut verdict.judgement
            {
                evidence.response_id = format!("answer-{at}");
            }
            let (asked, ran) = (world.out.len(), attempts(&world.events));
            let Ok(facts) = world.input(input) else { continue };
            let (spent, paid) = (spent(&world), paid(&world.events));
            prop_assert_eq!(spent.usage, paid, "after {:?}", facts);
            prop_assert!(spent.steps <= max_steps && spent.tool_calls <= max_tool_calls);
            let made = attempts(&world.events);
            prop_assert!(made <= usize::try_from(spent.tool_calls).unwrap());
            let fits = paid.tokens() <= max_tokens && paid.cost_micros <= max_cost;
            prop_assert!(fits || made == ran, "a call runs that nothing is left for, after {:?}", facts);
            let used_up = |spent, most| spent > 0 && spent >= most;
            let nothing_left = used_up(paid.tokens(), max_tokens) || used_up(paid.cost_micros, max_cost);
            for message in &world.out[asked..] {
                if let Message::TurnReady(turn) = message {
                    prop_assert!(!nothing_left && turn.scope.step.0 <= max_steps, "a turn is asked for after {:?}", facts);
                    prop_assert_eq!(turn.spent, spent);
                }
            }
        }
    }
}
