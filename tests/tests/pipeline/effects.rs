//! Effects: applied once, unknown outcomes, hand-over to a person, cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::{EffectOutcome, EffectStatus, ErrorClass, Fact, Receipt, ResolvedBy, Segment, TerminalReason};
use serde_json::json;
use tool_executor::Transported;

use crate::stage::*;

const REFUND: &str = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: refund, arguments: {n: 7}}]}
      - {step: 2, decision: {kind: final, answer: done}}
"#;

/// The owner applies it and the answer is lost.
fn loses_the_answer() -> (World, Arc<AtomicU32>) {
    let applied = Arc::new(AtomicU32::new(0));
    let count = applied.clone();
    let world = World::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        (50, Transported::Uncertain { class: ErrorClass::Timeout, why: "the answer was lost" })
    });
    (world, applied)
}

#[test]
fn an_unknown_outcome_is_reconciled_by_its_key_before_the_model_is_asked_again() {
    let (world, applied) = loses_the_answer();
    let world = world
        .with_owner(|_| owner_says(200, json!({"status": "committed", "effect_id": "r-1", "output": {"ok": true}})));
    let mut pipeline = pipeline(REFUND, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.reason, TerminalReason::Completed);
    assert_eq!(applied.load(Ordering::Relaxed), 1, "it is not sent again");
    assert_eq!(ended.effects.len(), 1);
    assert_eq!(ended.effects[0].status, EffectStatus::Committed);
    assert_eq!(ended.effects[0].receipt.as_ref().map(|receipt| receipt.effect_id.as_str()), Some("r-1"));
    assert!(!ended.effects_unresolved);
    let events = events(&pipeline, id(1));
    let order = ["call_claimed", "effect_unknown", "probe_requested", "call_settled", "turn_committed"];
    let mut rest = facts(&events).into_iter();
    for wanted in order {
        assert!(rest.any(|fact| fact == wanted), "`{wanted}` is not in its place: {:?}", facts(&events));
    }
    let by = events.iter().find_map(|event| match &event.fact {
        Fact::CallSettled { by, .. } => by.clone(),
        _ => None,
    });
    assert_eq!(by, Some(ResolvedBy::Reconciler));
}

#[test]
fn an_effect_that_its_owner_never_got_is_sent_again_under_the_same_key() {
    let world = World::new(|request| match request.idempotency_key {
        Some(_) => (10, Transported::NothingSent { class: ErrorClass::Unavailable, why: "connection refused" }),
        None => panic!("an effect has a key"),
    });
    let mut pipeline = pipeline(REFUND, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(world.called().len(), 2, "as often as its retry policy says");
    let events = events(&pipeline, id(1));
    let keys = events.iter().filter_map(|event| match &event.fact {
        Fact::CallClaimed { effect_key, .. } => Some(effect_key.clone()),
        _ => None,
    });
    let keys: Vec<_> = keys.collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
    assert!(!ended.effects_unresolved, "nothing was ever sent: {:?}", ended.effects);
}

#[test]
fn an_outcome_that_nobody_can_tell_goes_to_a_person_and_the_run_goes_on_afterwards() {
    let (world, applied) = loses_the_answer();
    let scenario = REFUND.replace("refund", "wire");
    let mut pipeline = pipeline(&scenario, &world);
    pipeline.request(&request(1));
    let first = suspended(&mut pipeline, 1);
    assert_eq!((first.reason, first.resumable), (TerminalReason::ReconciliationRequired, true));
    assert!(first.effects_unresolved);
    let receipt = Receipt { effect_id: "w-9".into(), body_digest: protocol::Digest::default() };
    let outcome = EffectOutcome::Committed { receipt: Some(receipt), output: json!({}) };
    pipeline.control(&resolve(1, first.effects[0].key.clone(), outcome));
    let last = ended(&mut pipeline, id(1));
    assert_eq!((last.reason, last.segment), (TerminalReason::Completed, Segment(first.segment.0 + 1)));
    assert!(!last.effects_unresolved);
    assert_eq!(applied.load(Ordering::Relaxed), 1);
}

/// The refund conflicts with the read of its order, so it waits for it.
const READ_THEN_REFUND: &str = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: read_order, arguments: {n: 7}}
            - {call_id: y, tool_name: refund, arguments: {n: 7}}
      - {step: 2, decision: {kind: final, answer: done}}
"#;

#[test]
fn a_cancel_during_a_call_ends_the_run_and_no_effect_starts_after_it() {
    let world = World::new(|_| (15_000, answered(200, json!({}))));
    let mut pipeline = pipeline(READ_THEN_REFUND, &world);
    pipeline.request(&request(1));
    pipeline.run_for(2_000);
    assert_eq!(world.called(), ["read_order"]);
    let asked_at = pipeline.now_ms();
    pipeline.control(&cancel(TENANT, id(1)));
    let ended_run = ended(&mut pipeline, id(1));
    assert_eq!(ended_run.reason, TerminalReason::Cancelled);
    let (at, _) = pipeline.seen().terminals(id(1)).remove(0);
    let took = u64::try_from(at).unwrap() - asked_at;
    assert!(took < 3_000, "the cancel took {took} ms, and the call would have taken 15 s");
    pipeline.run_for(60_000);
    assert_eq!(world.called(), ["read_order"], "the refund never started");
    assert!(!ended_run.effects_unresolved);
}

#[test]
fn a_cancel_while_an_effect_is_under_way_does_not_forget_it() {
    let world = World::new(|_| (15_000, answered(200, json!({"effect_id": "r-1"}))))
        .with_owner(|_| owner_says(200, json!({"status": "committed", "effect_id": "r-1"})));
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    pipeline.run_for(2_000);
    assert_eq!(world.called(), ["refund"]);
    pipeline.control(&cancel(TENANT, id(1)));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!(ended.reason, TerminalReason::Cancelled);
    pipeline.run_for(60_000);
    assert_eq!(world.called(), ["refund"], "it is sent once");
    let invocation = pipeline.snapshot(&TENANT.into(), id(1));
    assert!(!invocation.has_unresolved_effects(), "its owner was asked until it was certain");
}
