//! Tombstones: when an owner is asked to close the key, and what its word then does.

use serde_json::json;

use super::world::*;
use crate::*;

/// A run whose first effect is unknown after its first attempt, and has been asked about.
fn unknown(change: impl FnOnce(&mut ToolContract, &mut EffectContract)) -> World {
    let mut world = World::admitted();
    unknown_in(&mut world, change);
    world
}

fn unknown_in(world: &mut World, change: impl FnOnce(&mut ToolContract, &mut EffectContract)) -> ToolCallDispatched {
    let mut refund = call("a", REFUND, json!({"order": 7}));
    let mut effect = refund.contract.effect.take().unwrap();
    effect.tombstone = true;
    change(&mut refund.contract, &mut effect);
    refund.contract.effect = Some(effect);
    world.plan(vec![refund]).unwrap();
    let dispatch = world.last_dispatch();
    world.claim(&dispatch).unwrap();
    world.settle(&dispatch, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }).unwrap();
    dispatch
}

fn last_attempt(contract: &mut ToolContract, _: &mut EffectContract) {
    contract.retry.max_attempts = 1;
}

fn never_applied() -> Answer {
    Answer::Certain { outcome: EffectOutcome::Rejected { error: error(ErrorClass::Unavailable) } }
}

#[test]
fn the_key_is_not_closed_while_another_attempt_may_follow() {
    let mut world = unknown(|_, _| {});
    assert!(!world.query().seal);
    world.say(&world.query(), Answer::NotApplied).unwrap();
    let call_id = world.last_dispatch().call_id;
    world.fire(TimerName::Call(call_id)).unwrap();
    assert!(!world.query().seal, "asked after the settle window, and still not");
    assert_eq!(world.say(&world.query(), Answer::NotApplied).unwrap(), ["effect_resolved", "call_released"]);
    let (again, keys) = (world.last_dispatch(), world.dispatches().into_iter().map(|it| it.effect.unwrap().key));
    assert_eq!(keys.collect::<Vec<_>>(), [again.effect.clone().unwrap().key, again.effect.unwrap().key]);
}

#[test]
fn after_the_last_attempt_the_first_question_closes_the_key_and_waits_for_no_settle_window() {
    let mut world = unknown(last_attempt);
    assert!(world.query().seal);
    assert!(world.now < world.query().lease_until, "the request may still be on its way");
    let facts = world.say(&world.query(), never_applied()).unwrap();
    assert_eq!(facts, ["call_settled", "turn_committed"]);
    assert_eq!(world.entry().status, EffectStatus::Rejected);
    assert_eq!(world.entry().not_applied_at, None, "it is final, not as of some time");
}

#[test]
fn a_used_up_budget_and_a_run_whose_time_is_over_leave_no_other_attempt() {
    let mut world = World::new();
    let budget = BudgetRequest { max_tool_calls: Some(1), ..BudgetRequest::default() };
    world.request(Request { budget, ..request() }).unwrap();
    unknown_in(&mut world, |_, _| {});
    assert!(world.query().seal, "the budget is used up");
    let mut world = World::admitted();
    let end = world.state.run.as_ref().unwrap().ends_at().unwrap();
    world.now = Timestamp(end.0 - 1);
    unknown_in(&mut world, |_, _| {});
    assert!(!world.query().seal);
    world.say(&world.query(), Answer::Pending { retry_after_ms: 1 }).unwrap();
    // The probe's timer may be handled before the run's own, when both are due.
    world.fire(TimerName::Call(world.last_dispatch().call_id)).unwrap();
    assert!(world.now >= end && world.query().seal, "its time is over");
}

#[test]
fn a_question_from_before_the_cancel_is_asked_once_more_to_close_the_key() {
    let mut world = unknown(|_, _| {});
    let before = world.query();
    world.cancel().unwrap();
    let facts = world.say(&before, Answer::NotApplied).unwrap();
    assert_eq!(facts, ["effect_resolved"]);
    world.fire(TimerName::Call(before.call_id)).unwrap();
    let after = world.query();
    assert!(!before.seal && after.seal && after.probe > before.probe);
    world.say(&after, never_applied()).unwrap();
    let ended = world.last_end();
    assert_eq!((ended.reason, ended.effects_unresolved), (TerminalReason::Cancelled, false));
    assert_eq!((ended.effects[0].status, ended.effects[0].not_applied_at), (EffectStatus::Rejected, None));
}

#[test]
fn an_ended_run_closes_the_keys_that_it_left_open() {
    let mut world = unknown(|_, _| {});
    world.cancel().unwrap();
    world.fire(TimerName::Grace).unwrap();
    assert!(world.last_end().effects_unresolved);
    world.fire(TimerName::Call(world.last_dispatch().call_id)).unwrap();
    assert!(world.query().seal);
    assert_eq!(world.say(&world.query(), never_applied()).unwrap(), ["effect_settled_late"]);
    assert_eq!(world.entry().status, EffectStatus::Rejected);
}

#[test]
fn a_tombstone_that_finds_the_effect_applied_commits_it() {
    let mut world = unknown(last_attempt);
    world.say(&world.query(), Answer::Certain { outcome: effect_committed("r-1") }).unwrap();
    assert_eq!(world.entry().status, EffectStatus::Committed);
}

#[test]
fn an_owner_that_does_not_take_the_tombstone_it_declared_has_not_applied_it_as_of_now() {
    let mut world = unknown(last_attempt);
    assert_eq!(world.say(&world.query(), Answer::NotApplied).unwrap(), ["effect_resolved"], "the window is open");
    world.fire(TimerName::Call(world.last_dispatch().call_id)).unwrap();
    assert!(world.query().seal);
    world.say(&world.query(), Answer::NotApplied).unwrap();
    assert_eq!((world.entry().status, world.entry().not_applied_at), (EffectStatus::Prepared, Some(world.now)));
}

#[test]
fn an_owner_without_tombstones_or_without_keys_is_never_asked_to_close_one() {
    for change in [(|_, effect| effect.tombstone = false) as fn(&mut ToolContract, &mut EffectContract), |_, effect| {
        effect.dedupe = Dedupe::None
    }] {
        let world = unknown(|contract, effect| {
            contract.retry.max_attempts = 1;
            change(contract, effect);
        });
        assert!(!world.query().seal);
    }
}
