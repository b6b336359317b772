//! `emit` and `timers` see the state after the whole commit: what has been overtaken by then is neither asked for nor
//! waited for any more.

use serde_json::json;

use super::world::*;
use crate::*;

/// How many turns, calls and owners' answers these events ask for where the run stands now.
fn asked(world: &World, events: &[Event]) -> usize {
    let is_question = |outgoing: &Outgoing| match outgoing.message {
        Message::TurnReady(_) | Message::ToolCallDispatched(_) | Message::EffectQueried(_) => true,
        Message::RunEnded(_) | Message::EventsCommitted(_) => false,
    };
    emit(&world.state, events).iter().filter(|outgoing| is_question(outgoing)).count()
}

/// The newest event.
fn newest(world: &World) -> Vec<Event> {
    world.events.last().cloned().into_iter().collect()
}

fn released() -> (World, ToolCallDispatched) {
    let mut world = World::admitted();
    world.plan(vec![call("a", REFUND, json!({"order": 7}))]).unwrap();
    let dispatch = world.last_dispatch();
    (world, dispatch)
}

#[test]
fn a_turn_is_asked_for_only_while_its_decision_is_awaited() {
    let mut world = World::admitted();
    let admitted = newest(&world);
    world.fire(TimerName::Decide).unwrap();
    let reissued = newest(&world);
    assert_eq!((asked(&world, &admitted), asked(&world, &reissued)), (1, 1));
    world.fire(TimerName::Decide).unwrap();
    assert_eq!((asked(&world, &reissued), asked(&world, &newest(&world))), (0, 1));
    world.judge(Judgement::Rejected { findings: vec![], evidence: evidence() }).unwrap();
    assert_eq!((asked(&world, &admitted), asked(&world, &newest(&world))), (0, 1));
    let rejected = newest(&world);
    world.cancel().unwrap();
    assert_eq!(asked(&world, &rejected), 0);
}

#[test]
fn an_attempt_is_dispatched_only_while_it_may_start() {
    let (mut world, dispatch) = released();
    let first = newest(&world);
    assert_eq!(asked(&world, &first), 1);
    world.fire(TimerName::Call(dispatch.call_id)).unwrap();
    let second = newest(&world);
    assert_eq!((asked(&world, &first), asked(&world, &second)), (0, 1), "the second takes its place");
    let dispatch = world.last_dispatch();
    world.claim(&dispatch).unwrap();
    assert_eq!(asked(&world, &second), 0, "it has started");
    let (mut world, _) = released();
    world.cancel().unwrap();
    assert_eq!(asked(&world, &first), 0, "the run was stopped");
}

#[test]
fn an_owner_is_asked_only_what_is_still_to_be_known() {
    let (mut world, dispatch) = released();
    world.claim(&dispatch).unwrap();
    world.settle(&dispatch, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }).unwrap();
    let first = newest(&world);
    assert_eq!(asked(&world, &first), 1);
    world.say(&world.query(), Answer::Pending { retry_after_ms: 10 }).unwrap();
    assert_eq!(asked(&world, &first), 0, "it was answered");
    world.fire(TimerName::Call(dispatch.call_id)).unwrap();
    let second = newest(&world);
    assert_eq!((asked(&world, &first), asked(&world, &second)), (0, 1), "another question is open");
    world.say(&world.query(), Answer::Certain { outcome: effect_committed("r1") }).unwrap();
    assert_eq!(asked(&world, &second), 0, "it is known");
}

#[test]
fn a_run_that_is_over_waits_for_what_was_started_and_for_no_retry() {
    let mut world = World::admitted();
    let refund = |id: &str, order: u32| call(id, REFUND, json!({"order": order}));
    world.plan(vec![refund("a", 7), refund("b", 8)]).unwrap();
    let (a, b) = (world.dispatches()[0].clone(), world.dispatches()[1].clone());
    world.claim(&a).unwrap();
    world.claim(&b).unwrap();
    world.cancel().unwrap();
    world.fire(TimerName::Grace).unwrap();
    let nothing = AttemptOutcome::NothingSent { error: error(ErrorClass::Unavailable) };
    assert_eq!(world.settle(&a, nothing).unwrap(), ["attempt_failed"]);
    let waits: Vec<_> = timers(&world.state).iter().map(|timer| timer.name).collect();
    assert_eq!(waits, [TimerName::Call(b.call_id)]);
}
