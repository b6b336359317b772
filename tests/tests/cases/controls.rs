//! What comes in twice, too late, too old, or unreadable.

use protocol::{EffectKey, EffectStatus, Fact, Invocation, TerminalReason, Timestamp, apply};
use schemas::{DeadLetterCode, Topic};
use serde_json::json;
use tool_executor::{Answered, Transported};

use crate::stage::*;
use crate::{Books, REFUND};

/// A signal that arrives as an attempt starts is delivered twice, by replay and live; and so is everything else.
#[test]
fn everything_delivered_twice_acts_once() {
    let books = Books::default();
    let applied = books.clone();
    let world = World::new(move |request| (500, answered(200, applied.apply(request))));
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    for _ in 0..10 {
        pipeline.run_for(100);
        Topic::ALL.iter().filter(|topic| !topic.is_public()).for_each(|topic| pipeline.redeliver(*topic));
    }
    let ended = ended(&mut pipeline, id(1));
    assert_eq!(ended.reason, TerminalReason::Completed);
    assert_eq!(books.requests(), [1]);
    assert_eq!(world.asked().len(), 2, "the model was asked once per turn");
    let before = events(&pipeline, id(1));
    Topic::ALL.iter().filter(|topic| !topic.is_public()).for_each(|topic| pipeline.redeliver(*topic));
    pipeline.run_for(120_000);
    assert_eq!(events(&pipeline, id(1)), before, "nothing moves after the end");
    assert_eq!(pipeline.seen().terminals(id(1)).len(), 1);
    assert!(pipeline.seen().dead_letters().is_empty());
}

/// A cancel is delivered twice: it cancels once.
#[test]
fn a_cancel_delivered_twice_cancels_once() {
    let world = World::new(|_| (15_000, answered(200, json!({}))));
    let mut pipeline = pipeline(REFUND, &world.with_owner(|_| owner_says(404, json!({}))));
    pipeline.request(&request(1));
    pipeline.run_for(1_000);
    pipeline.control(&cancel(TENANT, id(1)));
    pipeline.control(&cancel(TENANT, id(1)));
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Cancelled);
    let cancels = facts(&events(&pipeline, id(1))).into_iter().filter(|fact| *fact == "cancel_requested").count();
    assert_eq!(cancels, 1);
}

/// A cancel while the engine backs off reports success, and the retries go on.
#[test]
fn a_cancel_while_a_retry_waits_ends_the_retries() {
    let scenario = REFUND.replace("refund", "a");
    let again_in_30_s = || {
        let busy = Answered { retry_after_ms: Some(30_000), ..Answered::new(503, Vec::new()) };
        (1, Transported::Answered(busy))
    };
    let world = World::new(move |_| again_in_30_s());
    let mut pipeline = pipeline(&scenario, &world);
    pipeline.request(&request(1));
    pipeline.run_for(5_000);
    assert_eq!(facts(&events(&pipeline, id(1))).last(), Some(&"attempt_failed"), "the retry waits");
    let asked_at = pipeline.now_ms();
    pipeline.control(&cancel(TENANT, id(1)));
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Cancelled);
    let (at, _) = pipeline.seen().terminals(id(1)).remove(0);
    assert!(u64::try_from(at).unwrap() - asked_at < 1_000, "it ends at once");
    pipeline.run_for(60_000);
    assert_eq!(world.called(), ["a"], "and is not tried again");
}

/// The caller cancels; the loop goes on and writes state.
#[test]
fn what_comes_after_the_cancel_moves_the_ledger_and_nothing_else() {
    // The answer would take longer than the grace, and the owner cannot say yet.
    let world = World::new(|_| (18_000, answered(200, json!({"effect_id": "r-1"}))))
        .with_owner(|_| owner_says(202, json!({"status": "in_progress"})));
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    pipeline.run_for(1_000);
    pipeline.control(&cancel(TENANT, id(1)));
    let end = ended(&mut pipeline, id(1));
    assert_eq!((end.reason, end.effects_unresolved), (TerminalReason::Cancelled, true));
    pipeline.control(&resolve(1, end.effects[0].key.clone(), was_committed(json!({}))));
    pipeline.run_for(60_000);
    let events = events(&pipeline, id(1));
    let at_end = events.iter().position(|event| matches!(event.fact, Fact::Ended { .. })).unwrap();
    let after: Vec<_> = facts(&events[at_end + 1..]);
    assert_eq!(after, ["effect_settled_late"], "the ledger has the outcome");
    assert_eq!(world.asked().len(), 1, "the model is not asked again");
    assert_eq!(world.called(), ["refund"]);
    let state = pipeline.snapshot(&TENANT.into(), id(1));
    assert!(state.is_ended() && !state.has_unresolved_effects());
    assert_eq!(pipeline.seen().terminals(id(1)).len(), 1);
}

/// A run that was refused for good is resumed, and the tool executes.
#[test]
fn a_run_that_has_ended_refuses_every_resume() {
    let world = World::new(|_| (1, answered(200, json!({"effect_id": "r-1"}))));
    let mut pipeline = pipeline(REFUND, &world);
    let end = run(&mut pipeline, &request(1));
    assert_eq!(end.effects[0].status, EffectStatus::Committed);
    let before = events(&pipeline, id(1));
    pipeline.control(&cancel(TENANT, id(1)));
    pipeline.control(&resolve(1, end.effects[0].key.clone(), was_committed(json!({}))));
    pipeline.control(&resolve(1, EffectKey("another".to_owned()), was_committed(json!({}))));
    pipeline.request(&request(1));
    pipeline.run_for(120_000);
    assert_eq!(events(&pipeline, id(1)), before);
    assert_eq!(pipeline.seen().terminals(id(1)).len(), 1, "the first end stands");
    assert_eq!(world.called(), ["refund"]);
}

/// A mutation log is replayed twice, and memory is corrupt: here an event applies at its version only.
#[test]
fn a_log_that_is_read_twice_gives_the_same_state() {
    let world = World::new(|_| (1, answered(200, json!({"effect_id": "r-1"}))));
    let mut pipeline = pipeline(REFUND, &world);
    run(&mut pipeline, &request(1));
    let log = events(&pipeline, id(1));
    let twice = log.iter().chain(&log).fold(Invocation::absent(TENANT.into(), id(1)), |state, event| {
        // A reader keeps what it has when an event does not follow.
        apply(state.clone(), event).unwrap_or(state)
    });
    assert_eq!(json!(twice), json!(pipeline.snapshot(&TENANT.into(), id(1))));
}

/// A record that cannot be read stops the partition, or is looped on.
#[test]
fn a_record_that_cannot_be_read_is_quarantined_and_the_run_goes_on() {
    let world = World::new(|_| (1_000, answered(200, json!({"effect_id": "r-1"}))));
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    pipeline.run_for(500);
    let internal = [Topic::Turns, Topic::Decisions, Topic::Verdicts, Topic::Dispatches, Topic::Results];
    for topic in internal {
        pipeline.produce(topic, &id(1).to_string(), "no schema is named by this");
    }
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Completed);
    assert_eq!(codes(&pipeline), [DeadLetterCode::Malformed; 5], "each is set aside once");
}

/// Retention has deleted the evidence of a run's effects, and its old request comes again.
#[test]
fn a_request_older_than_the_evidence_is_refused_by_name() {
    let mut pipeline = pipeline(REFUND, &World::echoing());
    let now = i64::try_from(pipeline.now_ms()).unwrap();
    let mut old = request(1);
    old.requested_at = Some(Timestamp(now - 31 * 24 * 3_600_000));
    pipeline.request(&old);
    pipeline.run_for(10_000);
    assert!(events(&pipeline, id(1)).is_empty(), "it is not run");
    assert_eq!(codes(&pipeline), [DeadLetterCode::ExpiredRequest]);
}
