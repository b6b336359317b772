//! Calls that fail, time out, wait, or were made before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::{EffectStatus, ErrorClass, Fact, TerminalReason};
use reconciler::Verb;
use serde_json::json;
use tool_executor::{Answered, Body, Transported};

use crate::stage::*;
use crate::{Books, REFUND};

/// A run is resumed after an interrupt, and the siblings that had finished are run again.
#[test]
fn a_resumed_run_never_repeats_a_call_that_has_a_result() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: a, arguments: {n: 1}}
            - {call_id: y, tool_name: wire, arguments: {n: 7}}
            - {call_id: z, tool_name: refund, arguments: {n: 9}}
      - {step: 2, decision: {kind: final, answer: "{x.output.ok} {z.output.ok}"}}
"#;
    let world = World::new(|request| match request.tool.name.as_str() {
        "wire" => (10, Transported::Uncertain { class: ErrorClass::Timeout, why: "the answer was lost" }),
        _ => (10, answered(200, json!({"ok": true, "effect_id": "e-1"}))),
    });
    let mut pipeline = pipeline(scenario, &world);
    pipeline.request(&request(1));
    let handed_over = suspended(&mut pipeline, 1);
    assert_eq!(handed_over.reason, TerminalReason::ReconciliationRequired);
    let mut called = world.called();
    called.sort();
    assert_eq!(called, ["a", "refund", "wire"]);
    // Every service comes back from nothing but what is stored.
    pipeline.restart();
    let wire = handed_over.effects.iter().find(|effect| effect.status.is_unresolved()).expect("the wire is unresolved");
    pipeline.control(&resolve(1, wire.key.clone(), was_committed(json!({"ok": true}))));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!("true true"))));
    assert_eq!(world.called().len(), 3, "nothing was called again: {:?}", world.called());
    assert_eq!(world.asked().len(), 2, "the model was not asked again for what it had decided");
}

/// A timed-out activity still runs beside its retry: here a write that timed out is unknown, and is not sent again while it
/// may still be under way.
#[test]
fn a_write_that_times_out_is_asked_for_and_never_sent_beside_itself() {
    let (books, questions) = (Books::default(), Arc::new(AtomicU32::new(0)));
    let (applied, asked, count) = (books.clone(), books.clone(), questions.clone());
    // Its timeout is 20 s.
    let world =
        World::new(move |request| (60_000, answered(200, applied.apply(request)))).with_owner(move |question| {
            match count.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => owner_says(202, json!({"status": "in_progress"})),
                _ => asked.answer(question),
            }
        });
    let mut pipeline = pipeline(REFUND, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!((ended.reason, ended.effects_unresolved), (TerminalReason::Completed, false));
    assert_eq!(books.requests(), [1]);
    assert_eq!(questions.load(Ordering::Relaxed), 3, "it was asked for until its owner knew");
}

/// "The provider has no record" is taken for "it did not happen", while the request is still on its way.
#[test]
fn not_found_counts_only_after_the_settle_window() {
    let questions = Arc::new(AtomicU32::new(0));
    let count = questions.clone();
    let world = World::new(|_| (10, Transported::Uncertain { class: ErrorClass::Timeout, why: "the answer was lost" }))
        .with_owner(move |question| match count.fetch_add(1, Ordering::Relaxed) {
            0 => owner_says(404, json!({})),
            // The request has arrived in the meantime.
            _ => owner_says(200, json!({"status": "committed", "effect_id": question.effect_key.as_str()})),
        });
    let mut pipeline = pipeline(REFUND, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(world.called(), ["refund"], "it was not sent a second time");
    assert_eq!(ended.effects[0].status, EffectStatus::Committed);
    let events = events(&pipeline, id(1));
    let asked = |n| {
        let asked = events.iter().filter(|event| matches!(event.fact, Fact::ProbeRequested { .. }));
        asked.map(|event| event.at).nth(n).expect("the owner was asked")
    };
    let lease_until = events.iter().find_map(|event| match event.fact {
        Fact::CallClaimed { lease_until, .. } => Some(lease_until),
        _ => None,
    });
    assert!(asked(0) < lease_until.unwrap(), "the first question came while the request might still be on its way");
    assert!(asked(1) >= lease_until.unwrap().plus_ms(20_000), "the second after the longest time it could have taken");
}

/// The same, and the request arrives after the last look: here the owner closes the key, so that it is refused for ever.
#[test]
fn never_applied_is_final_once_the_owner_has_closed_the_key() {
    let (closed, questions) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (closing, asking) = (closed.clone(), questions.clone());
    let world = World::new(|_| (10, Transported::Uncertain { class: ErrorClass::Timeout, why: "the answer was lost" }))
        .with_owner(move |question| match question.verb {
            Verb::Ask if closing.load(Ordering::Relaxed) == 0 => {
                asking.fetch_add(1, Ordering::Relaxed);
                owner_says(404, json!({}))
            }
            Verb::Ask => owner_says(200, json!({"status": "rejected", "closed": true})),
            Verb::Close => {
                closing.fetch_add(1, Ordering::Relaxed);
                owner_says(201, json!({"status": "rejected", "closed": true}))
            }
        });
    let mut registry = registry();
    let refund = registry.tools.tools.iter_mut().find(|tool| tool.name.as_str() == "refund").unwrap();
    refund.effect.as_mut().unwrap().tombstone = true;
    let mut pipeline = pipeline_with(1, registry, REFUND, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(world.called(), ["refund", "refund"], "as often as its retry policy says, under one key");
    assert_eq!(closed.load(Ordering::Relaxed), 1, "closed once");
    assert_eq!(questions.load(Ordering::Relaxed), 3, "twice for the first attempt, once for the last");
    assert_eq!((ended.effects[0].status, ended.effects_unresolved), (EffectStatus::Rejected, false));
    let events = events(&pipeline, id(1));
    let at = |wanted: fn(&Fact) -> bool| events.iter().rfind(move |event| wanted(&event.fact)).unwrap().at;
    let unknown = at(|fact| matches!(fact, Fact::EffectUnknown { .. }));
    let settled = at(|fact| matches!(fact, Fact::CallSettled { .. }));
    assert!(settled < unknown.plus_ms(1_000), "a closed key waits for no settle window: {unknown:?} {settled:?}");
}

/// A payload over the limit is classed as retryable and sent for ever.
#[test]
fn an_output_over_the_limit_is_a_final_error_of_its_call() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 1}}]}
      - {step: 2, decision: {kind: final, answer: "{x.error.class}"}}
"#;
    let too_large = || {
        let answer = Answered { body: Body::TooLarge, ..Answered::new(200, Vec::new()) };
        Transported::Answered(answer)
    };
    let world = World::new(move |_| (1, too_large()));
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.answer, Some(json!("output_too_large")));
    assert_eq!(world.called(), ["a"]);
}

/// Arguments that can never work are retried by the engine until the run fails: here they go back to the model.
#[test]
fn arguments_that_the_tool_refuses_go_back_to_the_model_and_are_not_retried() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 0}}]}
      - step: 2
        decision: {kind: tool_calls, calls: [{call_id: y, tool_name: a, arguments: {n: 1}}]}
      - {step: 3, decision: {kind: final, answer: "{y.output.ok}"}}
"#;
    let world = World::new(|request| match request.arguments["n"].as_u64() {
        Some(0) => (1, answered(422, json!({"problem": "n must be positive"}))),
        _ => (1, answered(200, json!({"ok": true}))),
    });
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.answer, Some(json!(true)));
    assert_eq!(outcomes(&pipeline), [(Some(ErrorClass::InvalidArguments), 1)]);
    assert_eq!(world.called().len(), 2, "one call each");
    let shown = serde_json::to_string(&world.asked()[1].context.turns[0].results).unwrap();
    assert!(shown.contains("invalid_arguments"), "the model sees what was wrong: {shown}");
}

/// One retry policy for model calls, reads and writes: here by operation and error class first, by count second.
#[test]
fn retries_go_by_operation_and_error_class_before_they_go_by_count() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        fail: {times: 2, error: transient}
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: a, arguments: {n: 1}}
            - {call_id: y, tool_name: b, arguments: {n: 2}}
            - {call_id: z, tool_name: refund, arguments: {n: 3}}
      - {step: 2, decision: {kind: final, answer: done}}
"#;
    // Unavailable, all of them but the absent row.
    let world = World::new(|request| match request.tool.name.as_str() {
        "b" => (1, answered(404, json!({}))),
        _ => (1, answered(503, json!({}))),
    })
    .with_owner(|question| owner_says(200, json!({"status": "committed", "effect_id": question.effect_key.as_str()})));
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.reason, TerminalReason::Completed);
    let expected = [(Some(ErrorClass::Unavailable), 2), (Some(ErrorClass::NotFound), 1), (None, 1)];
    assert_eq!(outcomes(&pipeline), expected, "a read is tried again, an absent row is final, a write is asked for");
    assert_eq!(world.asked().len(), 4, "the model was asked until it answered, and once more for step 2");
}

/// The engine comes back with a payment that was made under its key before: the recorded outcome is the outcome.
#[test]
fn a_resumed_change_under_an_existing_key_gets_the_recorded_outcome() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: refund, arguments: {n: 7}}]}
      - step: 2
        decision: {kind: tool_calls, calls: [{call_id: y, tool_name: refund, arguments: {n: 7}}]}
      - {step: 3, decision: {kind: final, answer: "{x.output.effect_id} {y.output.effect_id}"}}
"#;
    let world = World::new(|_| (10, answered(200, json!({"effect_id": "r-1"}))));
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.answer, Some(json!("r-1 r-1")));
    assert_eq!(world.called(), ["refund"]);
    assert_eq!(ended.effects.len(), 1, "one change, one line in the ledger");
}
