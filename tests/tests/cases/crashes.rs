//! Services die and come back.

use protocol::{CallId, EffectKey, EffectStatus, Fact, FindingCode, Invocation, Tenant, TerminalReason, apply};
use serde_json::json;

use crate::stage::*;
use crate::{Books, REFUND};

/// Reads an order, then refunds it, in one batch of two waves; then answers.
const READ_AND_REFUND: &str = r#"
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

/// A world whose refunds are kept in books, and answered after 100 ms.
fn world(books: &Books) -> World {
    let (applied, asked) = (books.clone(), books.clone());
    let act = move |request: &tool_executor::ToolRequest<'_>| match request.idempotency_key {
        Some(_) => (100, answered(200, applied.apply(request))),
        None => (10, answered(200, json!({"state": "open"}))),
    };
    World::new(act).with_owner(move |question| asked.answer(question))
}

/// A process is killed while a checkpoint is being written: whatever the moment, the turn is there as a whole or not at all,
/// nothing that has a result runs again, and the run comes to its one end.
#[test]
fn a_crash_at_any_point_leaves_whole_turns_and_repeats_no_effect() {
    let tenant = Tenant(TENANT.to_owned());
    let mut point = 0;
    loop {
        point += 1;
        let books = Books::default();
        let world = world(&books);
        let mut pipeline = pipeline(READ_AND_REFUND, &world);
        pipeline.crash_at(point);
        let ended = run(&mut pipeline, &request(1));
        if pipeline.crashes() == 0 {
            break;
        }
        assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!("done"))), "point {point}");
        assert_eq!(books.requests(), [1], "point {point}: the refund was sent once");
        let events = events(&pipeline, id(1));
        let replayed = events.iter().fold(Invocation::absent(tenant.clone(), id(1)), |state, event| {
            apply(state, event).unwrap_or_else(|error| panic!("point {point}: {error}"))
        });
        assert_eq!(json!(replayed), json!(pipeline.snapshot(&tenant, id(1))), "point {point}");
        assert_eq!(events, pipeline.seen().log(id(1)), "point {point}: every commit was published");
        let calls = turns(&events)[0].results.iter().map(|result| result.outcome.succeeded()).collect::<Vec<_>>();
        assert_eq!(calls, [true, true], "point {point}");
        let settled = facts(&events).into_iter().filter(|fact| *fact == "call_settled").count();
        assert_eq!(settled, 2, "point {point}: each call is settled once");
    }
    assert!(point > 30, "a run has more than {point} points at which a process can die");
}

/// A process is killed after the payment and before its result is stored: the outcome is unknown, and the owner is asked by
/// key before anything else happens.
#[test]
fn a_crash_between_the_payment_and_its_result_asks_the_owner_by_key() {
    let books = Books::default();
    let (applied, asked) = (books.clone(), books.clone());
    let world = World::new(move |request| (5_000, answered(200, applied.apply(request))))
        .with_owner(move |question| asked.answer(question));
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    pipeline.run_for(2_000);
    assert_eq!(books.requests(), [1], "the payment is made, and its answer is on its way");
    pipeline.kill("tool-executor");
    let ended = ended(&mut pipeline, id(1));
    assert_eq!(pipeline.crashes(), 1);
    assert_eq!((ended.reason, ended.effects_unresolved), (TerminalReason::Completed, false));
    assert_eq!(ended.effects[0].status, EffectStatus::Committed);
    assert_eq!(books.requests(), [1], "it is not made again");
    let events = events(&pipeline, id(1));
    let order = facts(&events).into_iter().filter(|fact| !matches!(*fact, "admitted" | "effect_resolved"));
    let order: Vec<_> = order.take_while(|fact| *fact != "turn_committed").collect();
    let expected =
        ["turn_planned", "wave_released", "call_claimed", "effect_unknown", "probe_requested", "call_settled"];
    assert_eq!(order, expected);
}

/// A model answers with invalid tool calls on every turn, and the services restart in between: the repair is counted in the
/// log, so there is one.
#[test]
fn a_model_that_is_invalid_on_every_turn_is_repaired_once_across_restarts() {
    let scenario = r#"
runs:
  - steps:
      - {step: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: nowhere, arguments: {n: 1}}]}, delay_ms: 500}
      - {step: 1, round: 1, decision: {kind: tool_calls, calls: [{call_id: x, tool_name: nowhere, arguments: {n: 1}}]}, delay_ms: 500}
      - {step: 1, round: 2, decision: {kind: final, answer: never}}
"#;
    let world = World::echoing();
    let mut pipeline = pipeline(scenario, &world);
    pipeline.request(&request(1));
    for service in ["committer", "decision", "validation", "committer"] {
        pipeline.run_for(250);
        pipeline.kill(service);
    }
    let ended = ended(&mut pipeline, id(1));
    assert_eq!(pipeline.crashes(), 4);
    assert_eq!(ended.reason, TerminalReason::InvalidDecision);
    let events = events(&pipeline, id(1));
    let repairs = events.iter().filter_map(|event| match &event.fact {
        Fact::DecisionRejected { findings, repair, .. } => Some((findings[0].code, *repair)),
        _ => None,
    });
    let unknown = FindingCode::UnknownTool;
    assert_eq!(repairs.collect::<Vec<_>>(), [(unknown, true), (unknown, false)]);
    assert!(world.called().is_empty());
}

/// After a recovery, recorded results are looked up under new random IDs and missed: here every identity derives from content
/// and position, so two histories of one request have the same ones.
#[test]
fn a_run_that_is_played_again_has_the_same_call_attempt_and_effect_identities() {
    let identities = |seed| -> (Vec<(CallId, EffectKey, protocol::AttemptId)>, Vec<EffectKey>) {
        let books = Books::default();
        let mut pipeline = pipeline_with(seed, registry(), READ_AND_REFUND, &world(&books));
        run(&mut pipeline, &request(1));
        let events = events(&pipeline, id(1));
        let claims = events.iter().filter_map(|event| match &event.fact {
            Fact::CallClaimed { call_id, effect_key, attempt_id, .. } => {
                Some((*call_id, effect_key.clone(), *attempt_id))
            }
            _ => None,
        });
        (claims.collect(), books.keys())
    };
    let (claims, keys) = identities(1);
    assert_eq!((claims.len(), keys.len()), (1, 1));
    assert_eq!(claims[0].1, keys[0], "the owner sees the key that the log has");
    assert_eq!((claims, keys), identities(42));
}
