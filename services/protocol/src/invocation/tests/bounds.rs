//! Bounds of what is kept and of how long is waited, at their edges.

use serde_json::json;

use super::progress::admitted_as;
use super::world::*;
use crate::*;

/// 366 days.
const YEAR_MS: u64 = 31_622_400_000;

#[test]
fn no_proposal_waits_longer_than_a_year_whatever_a_policy_says() {
    let wait = |ttl_ms| {
        let mut world = World::new();
        world.request(Request { deadline: None, ..request() }).unwrap();
        let decision = AcceptedDecision::ToolCalls { calls: vec![call("a", REFUND, json!({"order": 7}))] };
        let reasons = vec![ApprovalReason::asked_by_model()];
        let evidence = evidence();
        world
            .judge(Judgement::ApprovalRequired { decision, reasons, four_eyes: false, ttl_ms: Some(ttl_ms), evidence })
            .unwrap();
        world.last_end().proposal.unwrap().expires_at.ms_since(world.now)
    };
    assert_eq!((wait(YEAR_MS - 1), wait(YEAR_MS), wait(u64::MAX)), (YEAR_MS - 1, YEAR_MS, YEAR_MS));
}

#[test]
fn the_ledger_lists_the_newest_attempts_of_an_effect() {
    let most = u32::try_from(MAX_ATTEMPT_RECORDS).unwrap();
    let budget = Budget { max_tool_calls: 2 * most, ..budget() };
    let mut world = admitted_as(|profile| (profile.budget, profile.ceiling) = (budget, budget), json!([]));
    let mut refund = call("a", REFUND, json!({"order": 7}));
    refund.contract.retry.max_attempts = 2 * most;
    world.plan(vec![refund]).unwrap();
    let mut listed = Vec::new();
    for _ in 0..=most {
        let dispatch = world.last_dispatch();
        world.claim(&dispatch).unwrap();
        let numbers: Vec<u32> = world.entry().attempts.iter().map(|attempt| attempt.number.0).collect();
        listed.push(numbers);
        let nothing = AttemptOutcome::NothingSent { error: error(ErrorClass::Unavailable) };
        world.settle(&dispatch, nothing).unwrap();
        world.fire(TimerName::Call(dispatch.call_id)).unwrap();
    }
    assert_eq!(listed[MAX_ATTEMPT_RECORDS - 1], (1..=most).collect::<Vec<_>>());
    assert_eq!(listed[MAX_ATTEMPT_RECORDS], (2..=most + 1).collect::<Vec<_>>());
}

#[test]
fn the_ledger_lists_the_newest_calls_of_an_effect_which_counts_once() {
    let most = u32::try_from(MAX_ATTEMPT_RECORDS).unwrap();
    let budget = Budget { max_steps: 2 * most, max_tokens: u64::MAX, max_repeated_plan: 2 * most, ..budget() };
    let mut world = admitted_as(
        |profile| {
            (profile.budget, profile.ceiling) = (budget, budget);
            profile.progress.no_state_delta = Limit::Off;
        },
        json!([]),
    );
    let mut planned = Vec::new();
    for turn in 1..=MAX_ATTEMPT_RECORDS + 1 {
        world.plan(vec![call("a", REFUND, json!({"order": 7}))]).unwrap();
        if turn == 1 {
            let dispatch = world.last_dispatch();
            world.claim(&dispatch).unwrap();
            world.settle(&dispatch, committed("r1")).unwrap();
        }
        planned.extend(world.events.iter().rev().find_map(|event| match &event.fact {
            Fact::TurnPlanned(planned) => Some(planned.plan.calls[0].call_id),
            _ => None,
        }));
        let oldest = planned.len().saturating_sub(MAX_ATTEMPT_RECORDS);
        assert_eq!(world.entry().call_ids, planned[oldest..]);
    }
    assert_eq!(world.state.run.as_ref().unwrap().effects, 1);
    world.plan(vec![call("a", REFUND, json!({"order": 8})), call("b", LOOKUP, json!({"q": 1}))]).unwrap();
    assert_eq!(world.state.run.as_ref().unwrap().effects, 2);
}

#[test]
fn a_retry_that_would_come_when_the_time_is_over_is_not_waited_for() {
    let failed = || AttemptOutcome::Failed { error: error(ErrorClass::Unavailable) };
    let fails = |deadline| {
        let mut world = World::new();
        world.request(Request { deadline, ..request() }).unwrap();
        world.plan(vec![call("a", LOOKUP, json!({"q": 1}))]).unwrap();
        let facts = world.settle(&world.last_dispatch(), failed()).unwrap();
        (facts[0], timers(&world.state)[1].due)
    };
    let (_, retry_at) = fails(None);
    assert_eq!(fails(Some(retry_at.plus_ms(1))).0, "attempt_failed");
    assert_eq!(fails(Some(retry_at)).0, "call_settled");
}

#[test]
fn an_owners_not_applied_is_followed_by_another_attempt_while_there_is_time() {
    for (left_ms, expected) in [(1, "call_released"), (0, "call_settled")] {
        let mut world = World::admitted();
        world.plan(vec![call("a", REFUND, json!({"order": 7}))]).unwrap();
        let dispatch = world.last_dispatch();
        world.claim(&dispatch).unwrap();
        world.settle(&dispatch, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }).unwrap();
        world.say(&world.query(), Answer::Pending { retry_after_ms: 0 }).unwrap();
        world.now = world.query().lease_until.plus_ms(10_000);
        world.fire(TimerName::Call(dispatch.call_id)).unwrap();
        world.state.run.as_mut().unwrap().deadline = Some(world.now.plus_ms(left_ms));
        let facts = world.say(&world.query(), Answer::NotApplied).unwrap();
        assert_eq!((facts[0], facts[1]), ("effect_resolved", expected));
    }
}
