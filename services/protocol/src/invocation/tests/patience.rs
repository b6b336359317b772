//! How long an owner is asked before a person is, and what may be sent again.

use serde_json::json;

use super::world::*;
use crate::*;

/// A run whose effect is unknown, at an owner that may be asked a thousand times in ten seconds.
fn unknown() -> World {
    let mut world = World::admitted();
    let mut refund = call("a", REFUND, json!({"order": 7}));
    let effect = refund.contract.effect.as_mut().unwrap();
    effect.probe = ProbePolicy { max_probes: 1_000, base_ms: 100, cap_ms: 4_000, give_up_after_ms: 10_000 };
    world.plan(vec![refund]).unwrap();
    let dispatch = world.last_dispatch();
    world.claim(&dispatch).unwrap();
    world.settle(&dispatch, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }).unwrap();
    world
}

/// The wait for the next question to be due.
fn fire(world: &mut World) -> Vec<&'static str> {
    let call_id = world.query().call_id;
    world.fire(TimerName::Call(call_id)).unwrap()
}

#[test]
fn an_owner_that_stays_pending_is_asked_for_its_time_and_then_a_person_is() {
    let mut world = unknown();
    let since = world.now;
    loop {
        world.say(&world.query(), Answer::Pending { retry_after_ms: 3_000 }).unwrap();
        if fire(&mut world) != ["probe_requested"] {
            break;
        }
    }
    assert_eq!(world.now.ms_since(since), 10_000, "neither sooner nor a wait later");
    let ended = world.last_end();
    assert_eq!((ended.reason, ended.effects_unresolved), (TerminalReason::ReconciliationRequired, true));
    assert_eq!(ended.detail, "refund: no certain answer came from the owner within 10000 ms");
    assert!(world.query().probe.0 < 10, "long before it was asked too often");
}

#[test]
fn a_lost_answer_and_a_late_pending_end_the_owners_time_as_well() {
    let mut world = unknown();
    world.now = world.now.plus_ms(9_999);
    assert_eq!(fire(&mut world), ["probe_requested"], "the answer was lost, and there is time left");
    let mut lost = world;
    lost.now = lost.now.plus_ms(1);
    assert_eq!(fire(&mut lost), ["effect_resolved", "reconciliation_required"]);
    let mut world = unknown();
    world.now = world.now.plus_ms(10_000);
    let facts = world.say(&world.query(), Answer::Pending { retry_after_ms: 0 }).unwrap();
    assert_eq!(facts, ["effect_resolved", "reconciliation_required"]);
}

#[test]
fn a_certain_word_counts_however_late_it_comes() {
    let mut world = unknown();
    world.now = world.now.plus_ms(10_000_000).min(Timestamp(900_000));
    let query = world.query();
    world.say(&query, Answer::Certain { outcome: effect_committed("r-1") }).unwrap();
    assert_eq!(world.entry().status, EffectStatus::Committed);
}

#[test]
fn every_attempt_has_the_owners_whole_time() {
    let mut world = unknown();
    world.now = world.now.plus_ms(9_000);
    fire(&mut world);
    assert_eq!(world.say(&world.query(), Answer::NotApplied).unwrap(), ["effect_resolved", "call_released"]);
    let again = world.last_dispatch();
    world.claim(&again).unwrap();
    world.settle(&again, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }).unwrap();
    world.now = world.now.plus_ms(9_000);
    assert_eq!(world.say(&world.query(), Answer::Pending { retry_after_ms: 0 }).unwrap(), ["effect_resolved"]);
}

/// Each way in which an attempt can end that was claimed at an owner without keys, and whether another one follows.
#[test]
fn at_an_owner_without_keys_only_what_was_not_sent_is_sent_again() {
    type Ending = fn(&mut World, &ToolCallDispatched);
    let nothing: Ending = |world, dispatch| {
        let error = error(ErrorClass::Unavailable);
        world.settle(dispatch, AttemptOutcome::NothingSent { error }).unwrap();
        world.fire(TimerName::Call(dispatch.call_id)).unwrap();
    };
    let unknown: Ending = |world, dispatch| {
        world.settle(dispatch, AttemptOutcome::Unknown { error: error(ErrorClass::Timeout) }).unwrap();
        let call_id = TimerName::Call(dispatch.call_id);
        world.say(&world.query(), Answer::Pending { retry_after_ms: 0 }).unwrap();
        world.fire(call_id).unwrap();
        world.now = world.now.plus_ms(60_000);
        world.say(&world.query(), Answer::NotApplied).unwrap();
    };
    let crashed: Ending = |world, dispatch| {
        world.fire(TimerName::Call(dispatch.call_id)).unwrap();
        world.say(&world.query(), Answer::NotApplied).unwrap();
    };
    let silent: Ending = |world, dispatch| {
        while world
            .state
            .execution()
            .is_some_and(|it| matches!(it.calls[0].stage, Stage::Claimed(_) | Stage::Unknown(_)))
        {
            world.fire(TimerName::Call(dispatch.call_id)).unwrap();
        }
    };
    for (name, ending, attempts) in
        [("nothing sent", nothing, 2), ("unknown", unknown, 1), ("crashed", crashed, 1), ("silent", silent, 1)]
    {
        let mut world = World::admitted();
        let mut refund = call("a", REFUND, json!({"order": 7}));
        refund.contract.effect.as_mut().unwrap().dedupe = Dedupe::None;
        world.plan(vec![refund]).unwrap();
        let dispatch = world.last_dispatch();
        world.claim(&dispatch).unwrap();
        ending(&mut world, &dispatch);
        assert_eq!(world.dispatches().len(), attempts, "{name}");
        let handed_over = world.ends().iter().any(|end| end.reason == TerminalReason::ReconciliationRequired);
        assert_eq!(handed_over, attempts == 1, "{name}: a person decides about what may have been sent");
    }
}
