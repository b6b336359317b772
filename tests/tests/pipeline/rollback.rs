//! The store loses commits that it had acknowledged: what the log has is had back, what it has not ends the run (I10).

use protocol::{EffectStatus, Fact, ReleaseReason, TerminalReason};
use serde_json::json;
use turnwright_tests::sim::{Pipeline, Seen};

use crate::stage::*;

/// A refund takes five seconds; its owner knows what became of it.
const REFUND: &str = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: refund, arguments: {n: 7}}]}
      - {step: 2, delay_ms: 5000, decision: {kind: final, answer: done}}
"#;

fn slow_owner() -> World {
    World::new(|_| (5_000, answered(200, json!({"effect_id": "r-1"}))))
        .with_owner(|_| owner_says(200, json!({"status": "committed", "effect_id": "r-1"})))
}

#[track_caller]
fn until(pipeline: &mut Pipeline, fact: &str) {
    let came = |seen: &Seen| facts(&seen.log(id(1))).contains(&fact);
    assert!(pipeline.run_until(PATIENCE_MS, came), "no `{fact}` came");
}

#[test]
fn commits_that_the_store_lost_come_back_from_the_log_and_nothing_is_asked_or_sent_twice() {
    let world = slow_owner();
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    until(&mut pipeline, "admitted");
    let image = pipeline.image();
    until(&mut pipeline, "call_claimed");
    let before = events(&pipeline, id(1));
    pipeline.run_for(100);
    pipeline.cut_back(&image);
    assert_eq!(facts(&events(&pipeline, id(1))), ["admitted"]);
    let ended = ended(&mut pipeline, id(1));
    assert_eq!(
        ended.reason,
        TerminalReason::Completed,
        "{:?}\n{:?}\n{:?}",
        facts(&events(&pipeline, id(1))),
        facts(&before),
        facts(&pipeline.seen().log(id(1)))
    );
    assert_eq!(world.called(), ["refund"]);
    assert_eq!(world.asked().len(), 2, "once per turn");
    let events = events(&pipeline, id(1));
    assert_eq!(events[..before.len()], before, "the lost commits as they were");
    assert_eq!(pipeline.seen().log(id(1)), events, "and the log never forks");
    assert_eq!(ended.effects[0].receipt.as_ref().map(|receipt| receipt.effect_id.as_str()), Some("r-1"));
}

#[test]
fn a_run_whose_lost_commits_the_log_lacks_too_ends_checkpoint_failed_and_its_owner_is_asked() {
    let world = slow_owner();
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    until(&mut pipeline, "wave_released");
    let (image, at) = (pipeline.image(), pipeline.now_ms());
    assert!(world.called().is_empty(), "what is lost is the claim, and all after it");
    until(&mut pipeline, "turn_committed");
    pipeline.run_for(100);
    assert_eq!((world.called(), world.asked().len()), (vec!["refund".to_owned()], 2));
    pipeline.cut_back(&image);
    pipeline.cut_log_back(at);
    // What proves the loss is the model's answer to the second turn. Until its owner answers, the effect is unresolved.
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.resumable), (TerminalReason::CheckpointFailed, false));
    assert!(ended.effects_unresolved);
    pipeline.run_for(60_000);
    assert_eq!(world.called(), ["refund"], "it is sent once");
    assert_eq!(world.asked().len(), 2, "the model is never asked again for that turn");
    let facts = facts(&events(&pipeline, id(1)));
    for once in ["call_claimed", "effect_unknown", "probe_requested", "ended", "effect_settled_late"] {
        assert_eq!(facts.iter().filter(|fact| **fact == once).count(), 1, "{once}: {facts:?}");
    }
    assert!(!pipeline.snapshot(&TENANT.into(), id(1)).has_unresolved_effects());
    // It stays so: its request, and everything else, delivered again changes nothing.
    schemas::Topic::ALL.into_iter().for_each(|topic| pipeline.redeliver(topic));
    pipeline.run_for(60_000);
    assert_eq!(events(&pipeline, id(1)).len(), facts.len());
    assert_eq!(world.called(), ["refund"]);
}

#[test]
fn a_run_of_which_nothing_is_left_but_an_answer_is_never_created_anew() {
    let world = slow_owner();
    let mut pipeline = pipeline(REFUND, &world);
    let (image, before) = (pipeline.image(), pipeline.now_ms() - 1);
    pipeline.request(&request(1));
    until(&mut pipeline, "call_claimed");
    pipeline.run_for(500);
    pipeline.cut_back(&image);
    pipeline.cut_log_back(before);
    pipeline.run_for(10_000);
    pipeline.redeliver(schemas::Topic::Invocations);
    pipeline.run_for(60_000);
    assert_eq!(facts(&events(&pipeline, id(1))), [""; 0]);
    assert_eq!((world.called(), world.asked().len()), (vec!["refund".to_owned()], 1));
    assert!(pipeline.seen().terminals(id(1)).is_empty());
}

/// Another server answers, and nothing was lost: what was released and not claimed may have been, so its owner is asked.
#[test]
fn a_dispatch_of_an_older_epoch_is_not_executed_and_its_effect_is_asked_for() {
    let world =
        World::new(|_| (10, answered(200, json!({"effect_id": "r-1"})))).with_owner(|_| owner_says(404, json!({})));
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    until(&mut pipeline, "wave_released");
    assert!(world.called().is_empty());
    pipeline.raise_epochs();
    let ended = ended(&mut pipeline, id(1));
    assert_eq!(ended.reason, TerminalReason::Completed);
    assert_eq!(ended.effects[0].status, EffectStatus::Committed);
    let events = events(&pipeline, id(1));
    let released = events.iter().find_map(|event| match &event.fact {
        Fact::CallReleased { attempt, why: ReleaseReason::NotApplied, .. } => Some(attempt.0),
        _ => None,
    });
    assert_eq!(released, Some(2), "once its owner says that it was not applied: {:?}", facts(&events));
    assert_eq!(world.called(), ["refund"], "the first attempt was never sent");
}
