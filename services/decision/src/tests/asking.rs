use std::sync::atomic::Ordering;

use protocol::ModelAnswer;

use super::world::*;
use crate::ProviderError;

fn failed(world: &World) -> String {
    match world.answer(&world.turn()) {
        ModelAnswer::Failed { message } => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn transient_errors_are_retried_with_growing_waits_and_the_same_context() {
    let world = World::admitted();
    world.will_say([Err(ProviderError::transient("busy")), Err(ProviderError::transient("busy")), decision("x")]);
    assert!(matches!(world.answer(&world.turn()), ModelAnswer::Proposed { .. }));
    let requests = world.provider.requests.lock().unwrap();
    assert_eq!(requests.iter().map(|request| request.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(requests.iter().all(|request| request.context == requests[0].context));
    let sleeps = world.clock.sleeps_ms();
    assert!(sleeps.len() == 2 && (125..=250).contains(&sleeps[0]) && (250..=500).contains(&sleeps[1]), "{sleeps:?}");
}

#[test]
fn the_providers_own_word_on_when_to_come_back_is_honoured() {
    let world = World::admitted();
    let busy = ProviderError::Transient { message: "busy".into(), retry_after_ms: Some(3_000) };
    world.will_say([Err(busy), decision("x")]);
    world.answer(&world.turn());
    assert_eq!(world.clock.sleeps_ms(), [3_000]);
}

#[test]
fn attempts_are_bounded_and_their_failure_is_stored() {
    let world = World::admitted();
    world.will_say((0..9).map(|_| Err(ProviderError::transient("busy"))));
    let message = failed(&world);
    assert!(message.contains("busy") && message.contains("4 requests"), "{message}");
    assert_eq!(failed(&world), message);
    assert_eq!(world.provider.requests.lock().unwrap().len(), 4);
}

#[test]
fn a_final_error_is_not_retried() {
    let world = World::admitted();
    world.will_say([Err(ProviderError::permanent("no such model")), decision("x")]);
    assert_eq!(failed(&world), "no such model");
    assert!(world.clock.sleeps_ms().is_empty());
}

#[test]
fn a_model_that_never_answers_fails_within_the_budget() {
    let world = World::admitted();
    let message = failed(&world);
    assert!(message.contains("no decision within 45000 ms"), "{message}");
    assert_eq!(world.clock.sleeps_ms(), [45_000]);
}

#[test]
fn nobody_is_asked_when_the_runs_time_is_over() {
    let world = World::admitted();
    world.now.store(900_001, Ordering::SeqCst);
    let message = failed(&world);
    assert!(message.contains("no decision within 0 ms"), "{message}");
    assert!(world.provider.requests.lock().unwrap().is_empty());
}
