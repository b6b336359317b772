use std::sync::atomic::Ordering;
use std::time::Duration;

use chassis::{Failure, Handler};
use protocol::{AttemptOutcome, ErrorClass, Input, Phase, Stage};
use schemas::Topic;
use turnwright_tool_executor::{Answered, Transported, names};

use crate::support::{World, inbound};

fn committed(_: &crate::support::Seen) -> Option<(Duration, Transported)> {
    let answer = Answered::new(200, r#"{"effect_id":"e-1","n":1}"#);
    Some((Duration::from_millis(20), Transported::Answered(answer)))
}

#[test]
fn a_granted_effect_is_claimed_before_it_is_sent_and_settles_with_its_receipt() {
    let world = World::new(&["refund"]);
    let mut dispatch = world.planned(&["refund"]);
    dispatch[0].headers.push(("traceparent".into(), b"00-a-b-01".to_vec()));
    let (decider, address) = (world.decider.clone(), world.address());
    world.tool_answers(move |seen| {
        let (state, _) = futures::executor::block_on(decider.peek(&address)).unwrap();
        assert!(matches!(state.execution().unwrap().calls[0].stage, Stage::Claimed(_)), "sent without a claim");
        committed(seen)
    });
    let kept = world.outbox_len();
    let results = world.handle(&dispatch);
    let AttemptOutcome::Succeeded { receipt: Some(receipt), .. } = &results[0].outcome else { panic!("{results:?}") };
    assert_eq!((results.len(), receipt.effect_id.as_str()), (1, "e-1"));
    let seen = world.tool.seen.lock().unwrap().clone();
    assert_eq!(seen[0].key, results[0].effect_key);
    assert_eq!(seen[0].traceparent.as_deref(), Some("00-a-b-01"));
    let published = world.bus.published.lock().unwrap().clone();
    assert_eq!(published.iter().map(|record| record.topic).collect::<Vec<_>>(), [Topic::Events]);
    assert!(published[0].headers.iter().any(|(name, _)| name == "traceparent"));
    assert_eq!(world.outbox_len(), kept, "what was acknowledged is deleted");
    // The core takes the result as it is.
    world.decide(Input::CallSettled(Box::new(results[0].clone())));
}

#[test]
fn a_claim_that_cannot_be_published_is_left_to_the_sweeper_and_the_call_goes_on() {
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    world.tool_answers(committed);
    let kept = world.outbox_len();
    world.bus.down.store(true, Ordering::SeqCst);
    assert!(matches!(world.handle(&dispatch)[0].outcome, AttemptOutcome::Succeeded { .. }));
    assert_eq!(world.outbox_len(), kept + 1);
    assert_eq!(world.metrics.total(names::LEFT_TO_SWEEPER), 1);
}

#[test]
fn a_dispatch_that_comes_again_is_held_then_expired_and_never_sent_twice() {
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    world.tool_answers(committed);
    assert_eq!(world.handle(&dispatch).len(), 1);
    assert_eq!(world.handle(&dispatch), [], "held by the first");
    world.clock.advance(10_000);
    let results = world.handle(&dispatch);
    assert!(matches!(&results[0].outcome, AttemptOutcome::Unknown { .. }));
    assert_eq!(world.tool.seen.lock().unwrap().len(), 1);
    world.decide(Input::CallSettled(Box::new(results[0].clone())));
    assert_eq!(world.handle(&dispatch), [], "superseded by the question to its owner");
    assert_eq!(world.metrics.total(chassis::names::IGNORED), 3);
}

#[test]
fn one_dispatch_twice_in_a_batch_runs_once() {
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    world.tool_answers(committed);
    assert_eq!(world.handle(&[dispatch[0].clone(), dispatch[0].clone()]).len(), 1);
}

#[test]
fn after_a_cancel_no_effect_starts() {
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    world.tool_answers(committed);
    world.cancel();
    assert_eq!(world.handle(&dispatch), []);
    assert!(world.tool.seen.lock().unwrap().is_empty());
}

#[test]
fn a_cancel_while_the_call_runs_aborts_it_and_its_outcome_is_unknown() {
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    let (decider, address) = (world.decider.clone(), world.address());
    world.tool_answers(move |_| {
        let cancel = protocol::Control::Cancel { actor: "ada".into(), reason: "enough".into() };
        futures::executor::block_on(decider.decide(&address, &[Input::Control(cancel)])).unwrap();
        None
    });
    let results = world.handle(&dispatch);
    assert!(matches!(&results[0].outcome, AttemptOutcome::Unknown { .. }), "{results:?}");
    assert_eq!(world.metrics.total(names::ABORTED), 1);
    let (state, _) = world.run(world.decider.peek(&world.address())).unwrap();
    assert!(matches!(state.phase(), Some(Phase::Cancelling(_))));
}

#[test]
fn a_tool_that_hangs_is_unknown_when_its_lease_ends() {
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    let results = world.handle(&dispatch);
    assert!(matches!(&results[0].outcome, AttemptOutcome::Unknown { .. }));
    assert_eq!(world.clock_ms(), 2_000);
}

#[test]
fn a_lease_that_is_over_before_the_request_is_written_sends_nothing() {
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    world.commit_ms.store(2_000, Ordering::SeqCst);
    let results = world.handle(&dispatch);
    let AttemptOutcome::NothingSent { error } = &results[0].outcome else { panic!("{results:?}") };
    assert_eq!(error.class, ErrorClass::Timeout);
    assert!(world.tool.seen.lock().unwrap().is_empty());
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    world.commit_ms.store(500, Ordering::SeqCst);
    world.tool_answers(committed);
    assert_eq!(world.handle(&dispatch).len(), 1);
    assert_eq!(world.tool.seen.lock().unwrap()[0].timeout, Duration::from_millis(1_500), "what is left of the lease");
}

#[test]
fn a_receipt_of_another_request_settles_the_call_as_a_conflict() {
    let world = World::new(&["refund"]);
    let dispatch = world.planned(&["refund"]);
    world.tool_answers(|_| {
        let answer = Answered::new(200, r#"{"effect_id":"e-1","request_fingerprint":"another"}"#);
        Some((Duration::ZERO, Transported::Answered(answer)))
    });
    let results = world.handle(&dispatch);
    let AttemptOutcome::Failed { error } = &results[0].outcome else { panic!("{results:?}") };
    assert_eq!(error.class, ErrorClass::Conflict);
    world.decide(Input::CallSettled(Box::new(results[0].clone())));
}

#[test]
fn an_effect_whose_tool_is_not_registered_is_claimed_and_reported_as_not_sent() {
    let world = World::new(&[]);
    let dispatch = world.planned(&["refund"]);
    let results = world.handle(&dispatch);
    let AttemptOutcome::NothingSent { error } = &results[0].outcome else { panic!("{results:?}") };
    assert_eq!(error.class, ErrorClass::Unavailable);
    world.decide(Input::CallSettled(Box::new(results[0].clone())));
}

#[test]
fn an_undecodable_record_is_rejected_and_its_neighbour_still_runs() {
    let world = World::new(&["refund"]);
    let mut batch = world.planned(&["refund"]);
    world.tool_answers(committed);
    let mut broken = batch[0].clone();
    broken.value = Some(b"garbage".to_vec());
    assert_eq!(world.handler.order_key(&broken), broken.key.clone().unwrap());
    batch.insert(0, broken);
    let reply = world.run(world.handler.handle(&batch)).unwrap();
    assert_eq!(reply.rejected.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0]);
    assert_eq!(inbound(&reply.publish, Topic::Results).len(), 1);
}

#[test]
fn calls_of_one_plan_are_claimed_side_by_side() {
    let world = World::new(&["refund"]);
    let dispatches = world.planned(&["refund", "refund"]);
    assert_eq!(dispatches.len(), 2);
    assert_ne!(world.handler.order_key(&dispatches[0]), world.handler.order_key(&dispatches[1]));
    world.tool_answers(committed);
    let both: (Result<_, Failure>, Result<_, Failure>) = world
        .run(futures::future::join(world.handler.handle(&dispatches[..1]), world.handler.handle(&dispatches[1..])));
    assert_eq!((both.0.unwrap().publish.len(), both.1.unwrap().publish.len()), (1, 1));
    assert_eq!(world.clock_ms(), 20, "both ran in the time of one");
}
