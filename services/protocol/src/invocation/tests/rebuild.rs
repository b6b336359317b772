//! Rebuilds: the store is cut back to any of a run's commits, the log to any later or earlier one.

use serde_json::json;

use super::world::*;
use crate::*;

type Commits = Vec<Vec<Event>>;

/// A run with a read beside a refund whose answer is lost, found by the reconciler, and a final answer.
fn whole_run() -> World {
    let mut world = World::admitted();
    world.plan(vec![call("a", LOOKUP, json!({"q": 1})), call("b", REFUND, json!({"order": 7}))]).unwrap();
    let [read, refund] = world.dispatches().try_into().unwrap();
    world.claim(&refund).unwrap();
    world.settle(&read, ok(json!("found"))).unwrap();
    world.settle(&refund, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }).unwrap();
    let outcome = effect_committed("r-1");
    world.say(&world.query(), Answer::Certain { outcome }).unwrap();
    world.answer(json!("done")).unwrap();
    world
}

/// The state after some commits, as the store would load it with its whole ledger.
fn after(commits: &[Vec<Event>]) -> Invocation {
    let absent = World::new().state;
    let mut state = commits.iter().flatten().fold(absent, |state, event| apply(state, event).unwrap());
    state.ledger.mark_committed();
    state
}

/// Everything that was ever said of these commits, as each was committed.
fn said(commits: &[Vec<Event>]) -> Vec<Outgoing> {
    (0..commits.len()).flat_map(|n| emit(&after(&commits[..=n]), &commits[n])).collect()
}

fn last(commits: &[Vec<Event>]) -> Basis {
    commits.last().and_then(|commit| commit.last()).unwrap().basis()
}

fn rebuilt(store: &[Vec<Event>], log: &[Vec<Event>], basis: Basis) -> Option<Rebuilt> {
    let known: Commits = log.iter().chain(store).cloned().collect();
    rebuild(&after(store), &known, basis, Timestamp(50_000)).unwrap()
}

fn names(commit: &[Event]) -> Vec<&'static str> {
    commit.iter().map(|event| event.fact.name()).collect()
}

fn is_final(outgoing: &Outgoing) -> bool {
    matches!(&outgoing.message, Message::RunEnded(ended) if !ended.resumable)
}

#[test]
fn a_store_cut_back_to_any_commit_goes_on_from_the_newest_one_of_the_log() {
    let commits = whole_run().commits;
    for kept in 0..commits.len() {
        let rebuilt = rebuilt(&commits[..kept], &commits, last(&commits)).unwrap();
        assert!(rebuilt.restored);
        assert_eq!(rebuilt.commits, commits[kept..], "the lost commits as they were");
        let mut state = rebuilt.state;
        state.ledger.mark_committed();
        assert_eq!(state, after(&commits));
        // Nothing new is said, and nothing that somebody has answered.
        let before = said(&commits);
        assert!(rebuilt.outgoing.iter().all(|outgoing| before.contains(outgoing)), "cut back to {kept}");
        assert_eq!(rebuilt.outgoing.iter().filter(|outgoing| is_final(outgoing)).count(), 1);
        assert_eq!(rebuilt.outgoing.len(), 1, "an ended run waits for nothing: {:?}", rebuilt.outgoing);
    }
}

#[test]
fn what_a_restored_run_still_waits_for_is_said_again() {
    let commits = whole_run().commits;
    for end in 1..commits.len() {
        let rebuilt = rebuilt(&[], &commits[..end], last(&commits[..end])).unwrap();
        let open = |message: &Message| !matches!(message, Message::EventsCommitted(_) | Message::RunEnded(_));
        let state = after(&commits[..end]);
        let mut wanted: Vec<Outgoing> = said(&commits[..end]);
        wanted.retain(|outgoing| open(&outgoing.message) && is_awaited(&state, &outgoing.message));
        assert!(!wanted.is_empty(), "after {end} commits it waits for something");
        assert_eq!(rebuilt.outgoing, wanted, "after {end} commits");
    }
}

#[test]
fn a_run_whose_lost_commit_the_log_lacks_as_well_ends_and_its_started_effects_stay_open() {
    let run = whole_run();
    let commits = run.commits;
    let mut unresolved = 0;
    for logged in 1..commits.len() {
        for kept in 0..=logged {
            let rebuilt = rebuilt(&commits[..kept], &commits[..logged], last(&commits)).unwrap();
            assert!(!rebuilt.restored);
            let (end, restored) = rebuilt.commits.split_last().unwrap();
            assert_eq!(restored, &commits[kept..logged], "what the log has is had back first");
            let end = end.last().unwrap();
            let Fact::Ended { reason, .. } = &end.fact else { panic!("{end:?} is not the end") };
            assert_eq!(*reason, TerminalReason::CheckpointFailed);
            let finals: Vec<_> = rebuilt.outgoing.iter().filter(|outgoing| is_final(outgoing)).collect();
            assert_eq!(finals.len(), 1);
            let Message::RunEnded(ended) = &finals[0].message else { unreachable!() };
            // Whatever was released may have been started: the model is not asked again, nothing is sent again.
            let started = after(&commits[..logged]).ledger.entries().any(|entry| entry.outcome.is_none());
            assert_eq!(ended.effects_unresolved, started, "{logged} logged");
            assert_eq!(rebuilt.state.has_unresolved_effects(), started);
            unresolved += u32::from(started);
            let asks = |outgoing: &Outgoing| {
                matches!(outgoing.message, Message::TurnReady(_) | Message::ToolCallDispatched(_))
            };
            assert!(!rebuilt.outgoing.iter().any(asks), "{:?}", rebuilt.outgoing);
        }
    }
    assert!(unresolved > 3);
}

#[test]
fn a_released_effect_that_may_have_been_started_is_asked_for_after_the_failed_end() {
    let commits = whole_run().commits;
    // Admitted, planned and released; the claim is lost.
    let rebuilt = rebuilt(&commits[..2], &commits[..2], last(&commits[..3])).unwrap();
    let facts = names(rebuilt.commits.last().unwrap());
    assert_eq!(facts, ["call_claimed", "effect_unknown", "probe_requested", "ended"]);
    let asked = rebuilt.outgoing.iter().filter(|outgoing| matches!(outgoing.message, Message::EffectQueried(_)));
    assert_eq!(asked.count(), 1);
    let mut world = World { state: rebuilt.state, ..World::new() };
    world.out = rebuilt.outgoing.into_iter().map(|outgoing| outgoing.message).collect();
    let outcome = effect_committed("r-1");
    assert_eq!(world.say(&world.query(), Answer::Certain { outcome }), Ok(vec!["effect_settled_late"]));
}

/// The store lost all but two commits, and went on: the model was asked again.
fn forked(commits: &Commits) -> Commits {
    let mut world = World { state: after(&commits[..1]), ..World::new() };
    world.out = said(&commits[..1]).into_iter().map(|outgoing| outgoing.message).collect();
    world.fire(TimerName::Decide).unwrap();
    commits[..1].iter().cloned().chain(world.commits).collect()
}

#[test]
fn a_store_that_went_on_without_its_lost_commits_ends_the_run_with_their_effects_in_the_ledger() {
    let commits = whole_run().commits;
    let store = forked(&commits);
    // The refund is released, claimed, unknown, resolved.
    for logged in 2..commits.len() - 1 {
        let rebuilt = rebuilt(&store, &commits[..logged], last(&commits[..logged])).unwrap();
        assert!(!rebuilt.restored, "it never forks");
        assert_eq!(rebuilt.commits.len(), 1);
        let facts = names(&rebuilt.commits[0]);
        assert_eq!((facts[0], facts.last().unwrap()), ("turn_planned", &"ended"), "{facts:?}");
        let entry = rebuilt.state.ledger.entries().next().expect("the effect of the lost branch");
        let lost = after(&commits[..logged]);
        let lost = lost.ledger.entries().next().unwrap();
        assert_eq!((&entry.key, entry.request_fingerprint), (&lost.key, lost.request_fingerprint));
        assert_eq!(entry.status.is_settled(), lost.status.is_settled());
        assert!(entry.status.is_settled() || rebuilt.state.has_unresolved_effects());
        assert_eq!(rebuilt.outgoing.iter().filter(|outgoing| is_final(outgoing)).count(), 1);
    }
}

#[test]
fn a_final_end_in_the_log_is_never_overruled() {
    let commits = whole_run().commits;
    let rebuilt = rebuilt(&forked(&commits), &commits, last(&commits)).unwrap();
    let Fact::Ended { reason, answer, .. } = &rebuilt.commits[0].last().unwrap().fact else { panic!("no end") };
    assert_eq!((*reason, answer), (TerminalReason::Completed, &Some(json!("done"))));
    let announced = said(&commits).into_iter().find(is_final).unwrap().event_id;
    let again: Vec<_> = rebuilt.outgoing.iter().filter(|outgoing| is_final(outgoing)).collect();
    assert_eq!(again.iter().map(|outgoing| outgoing.event_id).collect::<Vec<_>>(), [announced]);
    // Nor is one that the store has.
    let ended =
        rebuild(&after(&commits), &commits, Basis { version: Version(99), hash: Digest::default() }, Timestamp(9));
    assert_eq!(ended.unwrap().unwrap().commits, Commits::new());
}

#[test]
fn nothing_is_built_on_an_event_that_was_tampered_with_or_without_any() {
    let mut commits = whole_run().commits;
    let basis = last(&commits);
    assert_eq!(rebuilt(&[], &commits[1..], basis), None, "the request itself is lost");
    assert_eq!(rebuilt(&[], &[], basis), None);
    commits[1][0].at = Timestamp(7);
    let rebuilt = rebuilt(&[], &commits, basis).unwrap();
    assert!(!rebuilt.restored);
    assert_eq!(rebuilt.commits[0], commits[0]);
    assert_eq!(names(&rebuilt.commits[1]), ["ended"]);
}

#[test]
fn an_effect_that_was_released_in_an_older_epoch_is_never_started() {
    for stop in [None, Some("timer"), Some("cancel")] {
        let mut world = World::admitted();
        world.plan(vec![call("b", REFUND, json!({"order": 7}))]).unwrap();
        let dispatch = world.last_dispatch();
        world.state.epoch = world.state.epoch.next();
        let unknown = ["call_claimed", "effect_unknown", "probe_requested"];
        let events = match stop {
            None => world.claim(&dispatch).unwrap(),
            Some("timer") => world.fire(TimerName::Call(dispatch.call_id)).unwrap(),
            Some(_) => {
                let mut events = world.cancel().unwrap();
                assert_eq!(events.pop(), Some("cancel_requested"));
                events
            }
        };
        assert_eq!(events, unknown, "{stop:?}");
        assert!(!grants_claim(&world.events));
        assert_eq!(world.entry().status, EffectStatus::Reconciling);
        assert_eq!(
            world.claim(&dispatch).unwrap_err(),
            match stop {
                Some("cancel") => Ignored::Claim(ClaimRefusal::Revoked),
                _ => Ignored::Claim(ClaimRefusal::Superseded),
            }
        );
    }
}

#[test]
fn a_read_of_an_older_epoch_waits_for_its_timer_and_what_is_released_then_may_run() {
    let mut world = World::admitted();
    world.plan(vec![call("a", LOOKUP, json!({"q": 1})), call("b", REFUND, json!({"order": 7}))]).unwrap();
    world.state.epoch = world.state.epoch.next();
    let read = world.dispatches().remove(0);
    assert_eq!(may_start_read(&world.state, &read, world.now), Err(ClaimRefusal::StaleEpoch));
    assert_eq!(world.claim(&read), Err(Ignored::Claim(ClaimRefusal::StaleEpoch)));
    world.fire(TimerName::Call(read.call_id)).unwrap();
    world.fire(TimerName::Call(read.call_id)).unwrap();
    let again = world.last_dispatch();
    assert_eq!((again.call_id, again.attempt, again.epoch), (read.call_id, AttemptNumber(2), world.state.epoch));
    assert_eq!(may_start_read(&world.state, &again, world.now), Ok(()));
}
