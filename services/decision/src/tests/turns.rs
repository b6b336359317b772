use chassis::registry::Prices;
use chassis::{Failure, Handler, names};
use futures::executor::block_on;
use protocol::*;
use serde_json::json;
use store::Store;

use super::world::*;
use crate::Said;
use crate::committed::History;

fn journal_field(scope: &Scope) -> String {
    format!("{}/{}/{}/{}", scope.step, scope.round, scope.basis.version, scope.basis.hash)
}

#[test]
fn a_redelivered_turn_publishes_the_stored_answer_and_asks_nobody() {
    let world = World::admitted();
    world.will_say([decision("first"), decision("second")]);
    let first = world.handle(&world.turn()).unwrap();
    let again = world.handle(&world.turn()).unwrap();
    assert_eq!(first.publish, again.publish);
    assert_eq!(world.provider.requests.lock().unwrap().len(), 1);
    let proposed = world.decoded(first.publish[0].clone());
    assert_eq!(proposed.turn, world.turn());
    let request = world.provider.requests.lock().unwrap()[0].clone();
    assert_eq!(request.digest, request.context.digest());
    let ModelAnswer::Proposed { body, evidence } = proposed.answer else { panic!("proposed") };
    assert_eq!((body.as_str(), evidence.context_digest), ("first", request.digest));
    let scope = &world.turn().scope;
    assert_eq!(first.publish[0].event_id, EventId::answer(scope.invocation_id, scope.basis, "decision/1/0"));
}

#[test]
fn an_answer_that_is_not_stored_yet_is_published_beside_and_the_turn_comes_again_if_storing_fails() {
    let world = World::admitted();
    world.will_say([decision("first"), decision("second")]);
    let reply = world.handle_once(&world.turn()).unwrap();
    assert_eq!((reply.publish.len(), reply.beside.len()), (1, 1));
    // The process dies before either is done: another asks again.
    drop(reply);
    let ModelAnswer::Proposed { body, .. } = world.answer(&world.turn()) else { panic!("proposed") };
    assert_eq!(body, "second");
}

#[test]
fn of_two_answers_the_one_stored_first_is_published() {
    let world = World::admitted();
    world.will_say([decision("mine")]);
    let theirs = ModelAnswer::Failed { message: "theirs".into() };
    let field = journal_field(&world.turn().scope);
    *world.provider.meanwhile.lock().unwrap() =
        Some((world.store.clone(), world.address.clone(), field, theirs.clone()));
    assert_eq!(world.answer(&world.turn()), theirs);
}

#[test]
fn a_turn_that_is_over_is_dropped_and_counted() {
    let world = World::admitted();
    let old = world.turn();
    world.run_calls(&[("c1", "look")], |_| ok(json!(1)));
    let reply = world.handle(&old).unwrap();
    assert!(reply.publish.is_empty() && reply.rejected.is_empty());
    assert_eq!(world.metrics.total(names::IGNORED), 1);
    world.will_say([decision("next")]);
    assert_eq!(world.handle(&world.turn()).unwrap().publish.len(), 1);
}

#[test]
fn a_basis_the_store_does_not_have_is_never_decided() {
    let world = World::admitted();
    let mut newer = world.turn();
    newer.scope.basis.version = Version(9);
    let mut other = world.turn();
    other.scope.basis.hash = Digest::of("other", &[]);
    let mut unknown = world.turn();
    unknown.scope.invocation_id = InvocationId(uuid::Uuid::from_u128(8));
    for turn in [newer, other, unknown] {
        assert!(world.handle(&turn).unwrap().publish.is_empty());
    }
    assert!(world.provider.requests.lock().unwrap().is_empty());
    assert_eq!(world.metrics.total(names::IGNORED), 3);
}

#[test]
fn a_frozen_invocation_is_not_decided() {
    let world = World::admitted();
    block_on(world.store.freeze(&world.address, world.turn().scope.basis)).unwrap();
    assert!(world.handle(&world.turn()).unwrap().publish.is_empty());
    assert!(world.provider.requests.lock().unwrap().is_empty());
}

#[test]
fn a_history_that_is_altered_cut_or_swapped_is_refused() {
    let world = World::admitted();
    world.run_calls(&[("c1", "look")], |_| ok(json!(1)));
    let scope = world.turn().scope;
    let records = world.store.all_events().remove(&world.address).unwrap();
    assert_eq!(History::default().extended(&records, scope.basis).unwrap().events.len(), records.len());
    let mut altered = records.clone();
    let text = String::from_utf8(altered[0].bytes.clone()).unwrap().replace("\"ada\"", "\"eve\"");
    altered[0].bytes = text.into_bytes();
    let mut swapped = records.clone();
    swapped.swap(1, 2);
    let mut gap = records.clone();
    gap.remove(1);
    for broken in [altered, swapped, gap, records[..records.len() - 1].to_vec(), Vec::new()] {
        assert!(History::default().extended(&broken, scope.basis).is_err());
    }
}

#[test]
fn a_record_that_is_no_turn_is_rejected_alone() {
    let world = World::admitted();
    world.will_say([decision("x")]);
    let good = world.record(&world.turn());
    let mut bad = good.clone();
    bad.value = Some(b"junk".to_vec());
    let reply = block_on(world.handler().handle(&[bad, good])).unwrap();
    assert_eq!((reply.publish.len(), reply.rejected.len(), reply.rejected[0].0), (1, 1, 0));
}

#[test]
fn refusals_empty_and_cut_off_answers_are_decisions_that_validation_refuses() {
    for (said, expected) in [(Said::Refused, "refused"), (Said::Empty, "empty"), (Said::CutOff, "cut_off")] {
        let world = World::admitted();
        world.will_say([reply(said)]);
        let ModelAnswer::Proposed { body, .. } = world.answer(&world.turn()) else { panic!("proposed") };
        assert_eq!(body, format!("{{\"no_decision\":\"{expected}\"}}"));
        assert!(Decision::parse(&body, JsonLimits::default()).is_err());
    }
}

#[test]
fn an_answer_is_priced_by_the_table_of_its_agent() {
    let cost = |prices| {
        let mut world = World::admitted();
        let mut registry = registry();
        registry.agents.agents[0].prices = prices;
        world.registry = std::sync::Arc::new(registry);
        world.will_say([decision("x")]);
        let ModelAnswer::Proposed { evidence, .. } = world.answer(&world.turn()) else { panic!("proposed") };
        assert_eq!((evidence.usage.input_tokens, evidence.usage.output_tokens), (3, 2));
        evidence.usage.cost_micros
    };
    assert_eq!(cost(None), 1, "what the provider said");
    let prices = Prices { input_micros_per_million: 3_000_000, output_micros_per_million: 15_000_000 };
    assert_eq!(cost(Some(prices)), 3 * 3 + 2 * 15);
}

#[test]
fn an_endless_answer_is_cut_and_still_found_too_large() {
    let world = World::admitted();
    world.will_say([decision(&"é".repeat(2_000_000))]);
    let ModelAnswer::Proposed { body, .. } = world.answer(&world.turn()) else { panic!("proposed") };
    let findings = Decision::parse(&body, JsonLimits::default()).unwrap_err();
    assert_eq!(findings[0].code, FindingCode::TooLarge);
}

#[test]
fn an_agent_that_is_gone_is_a_failed_decision() {
    let mut world = World::admitted();
    let mut registry = registry();
    registry.agents.agents.clear();
    world.registry = std::sync::Arc::new(registry);
    let ModelAnswer::Failed { message } = world.answer(&world.turn()) else { panic!("failed") };
    assert!(message.contains("desk"), "{message}");
}

#[test]
fn a_journalled_answer_that_cannot_be_read_is_not_replaced() {
    let world = World::admitted();
    let field = journal_field(&world.turn().scope);
    block_on(world.store.journal(&world.address, &field, b"junk")).unwrap();
    assert!(matches!(world.handle(&world.turn()), Err(Failure::Retry(_))));
    assert!(world.provider.requests.lock().unwrap().is_empty());
}
