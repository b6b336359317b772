//! What becomes of a frozen invocation, given all that is known of its events: the store's own, and the log's. Where the
//! log has what the store lost, the invocation goes on from there; where it has not, the run ends `checkpoint_failed`, and
//! whatever may have been started is asked for (I10).

use std::collections::{BTreeMap, BTreeSet};

use super::claims::strand_released;
use super::draft::Draft;
use super::{Ignored, Invocation, Phase, Stage, apply, emit};
use crate::{Basis, Digest, Event, EventId, Fact, Message, Outgoing, TerminalReason, Timestamp, Version};

/// What a rebuild appends, and what must be said because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// Commit by commit: first those of the log, as they were, then the one that ends the run, if it must end. Empty where
    /// the store had everything, or where a final end stands already.
    pub commits: Vec<Vec<Event>>,
    pub state: Invocation,
    /// With the `event_id`s that the same messages had before.
    pub outgoing: Vec<Outgoing>,
    /// Whether the commit that the basis names is part of the invocation now.
    pub restored: bool,
}

/// Rebuilds an invocation that `basis` proves to lack a commit. `invocation` is what the store has, with its whole
/// ledger; `commits` is every commit that is known of it, in any order and any number of times: the log's and the
/// store's own. `None`: nothing is known that could end, because the request itself is lost.
pub fn rebuild(
    invocation: &Invocation,
    commits: &[Vec<Event>],
    basis: Basis,
    now: Timestamp,
) -> Result<Option<Rebuilt>, Ignored> {
    let known = Known::new(commits);
    let lineage = known.lineage(basis.hash);
    let mut rebuilt = restore(invocation, &known, &lineage);
    let head = known.lineage(rebuilt.state.head);
    rebuilt.restored = head.iter().any(|event| event.basis() == basis);
    if !rebuilt.restored && !rebuilt.state.is_ended() {
        if rebuilt.state.run.is_none() {
            return Ok(None);
        }
        let kept: BTreeSet<Digest> = head.iter().map(|event| event.hash).collect();
        let lost: Vec<&Event> = lineage.into_iter().filter(|event| !kept.contains(&event.hash)).collect();
        give_up(&mut rebuilt, &lost, now)?;
    }
    Ok(Some(rebuilt))
}

/// Whether the state still waits for the answer to this message.
pub fn is_awaited(state: &Invocation, message: &Message) -> bool {
    let stage = |call_id| state.execution().and_then(|execution| execution.call(call_id)).map(|(_, call)| call);
    match message {
        Message::TurnReady(turn) => {
            matches!(state.phase(), Some(Phase::Deciding(deciding)) if deciding.basis == turn.scope.basis)
        }
        Message::ToolCallDispatched(dispatch) => stage(dispatch.call_id).is_some_and(|call| {
            call.attempt == dispatch.attempt && matches!(call.stage, Stage::Released { .. } | Stage::Claimed(_))
        }),
        Message::EffectQueried(query) => stage(query.call_id)
            .is_some_and(|call| matches!(&call.stage, Stage::Unknown(unknown) if unknown.probe == query.probe)),
        Message::RunEnded(_) | Message::EventsCommitted(_) => true,
    }
}

/// Every event that is known, and where commits end.
struct Known<'a> {
    events: BTreeMap<Digest, &'a Event>,
    last: BTreeSet<Digest>,
}

impl<'a> Known<'a> {
    /// Events whose hash is not their own are left out: nothing can be built on them.
    fn new(commits: &'a [Vec<Event>]) -> Self {
        let events = commits.iter().flatten().filter(|event| event.is_authentic());
        let last = commits.iter().filter_map(|commit| Some(commit.last()?.hash));
        Self { events: events.map(|event| (event.hash, event)).collect(), last: last.collect() }
    }

    /// The event with that hash and all before it, as far as they are known, oldest first.
    fn lineage(&self, hash: Digest) -> Vec<&'a Event> {
        let mut found = Vec::new();
        let mut next = self.events.get(&hash);
        while let Some(event) = next {
            found.push(*event);
            next = self.events.get(&event.previous).filter(|before| before.version < event.version);
        }
        found.reverse();
        found
    }

    /// What follows a head: the lineage's event where there are several.
    fn next(&self, version: Version, head: Digest, lineage: &[&Event]) -> Option<&'a Event> {
        let follows = |event: &&&Event| event.version == version.next() && event.previous == head;
        let wanted = |event: &&Event| lineage.iter().any(|wanted| wanted.hash == event.hash);
        let mut all: Vec<&'a Event> = self.events.values().filter(follows).copied().collect();
        all.sort_by_key(|event| !wanted(event));
        all.first().copied()
    }
}

/// Appends the commits that follow what the store has.
fn restore(invocation: &Invocation, known: &Known<'_>, lineage: &[&Event]) -> Rebuilt {
    let mut state = invocation.clone();
    let mut rebuilt = Rebuilt { commits: Vec::new(), state: state.clone(), outgoing: Vec::new(), restored: false };
    let (mut commit, mut open) = (Vec::new(), Vec::new());
    while let Some(event) = known.next(state.version, state.head, lineage) {
        let Ok(next) = apply(state, event) else { break };
        state = next;
        commit.push(event.clone());
        if !known.last.contains(&event.hash) {
            continue;
        }
        for outgoing in emit(&state, &commit) {
            match &outgoing.message {
                // What it says is how the log came to have it.
                Message::EventsCommitted(_) => {}
                Message::RunEnded(_) => rebuilt.outgoing.push(outgoing),
                Message::TurnReady(_) | Message::ToolCallDispatched(_) | Message::EffectQueried(_) => {
                    open.push(outgoing);
                }
            }
        }
        rebuilt.commits.push(std::mem::take(&mut commit));
        rebuilt.state = state.clone();
    }
    rebuilt.outgoing.extend(open.into_iter().filter(|outgoing| is_awaited(&rebuilt.state, &outgoing.message)));
    rebuilt
}

/// Ends a run whose lost commits cannot be had back. What is known of them (`lost`, from a branch of the log that the
/// store went past) is taken over as far as it still applies, so that their effects are in the ledger; a final end among
/// them stands.
fn give_up(rebuilt: &mut Rebuilt, lost: &[&Event], now: Timestamp) -> Result<(), Ignored> {
    let mut draft = Draft::new(&rebuilt.state, now.max(rebuilt.state.at));
    let mut end = None;
    for event in lost {
        match &event.fact {
            Fact::Ended { reason, answer, detail, .. } => {
                end = Some((event.basis(), *reason, answer.clone(), detail.clone()));
                break;
            }
            fact if draft.take_over(fact) => {}
            _ => break,
        }
    }
    strand_released(&mut draft)?;
    let ended_before = end.as_ref().map(|(basis, ..)| *basis);
    let (reason, answer, detail) = match end {
        Some((_, reason, answer, detail)) => (reason, answer, detail),
        None => {
            let detail = "the store lost a commit of this run, and the log does not have it either";
            (TerminalReason::CheckpointFailed, None, detail.to_owned())
        }
    };
    draft.end(reason, answer, detail)?;
    let (events, state) = draft.finish();
    for mut outgoing in emit(&state, &events) {
        match &mut outgoing.message {
            // Suspensions among what was taken over have been announced before.
            Message::RunEnded(ended) if ended.resumable => continue,
            Message::RunEnded(ended) => {
                if let Some(basis) = ended_before {
                    ended.scope.basis = basis;
                    outgoing.event_id = EventId::derive(state.id, basis, 1);
                }
            }
            Message::EventsCommitted(_)
            | Message::EffectQueried(_)
            | Message::TurnReady(_)
            | Message::ToolCallDispatched(_) => {}
        }
        rebuilt.outgoing.push(outgoing);
    }
    // An ended run asks for no turn and no call, only for what became of its effects.
    rebuilt.outgoing.retain(|outgoing| match &outgoing.message {
        Message::TurnReady(_) | Message::ToolCallDispatched(_) => false,
        message @ (Message::EffectQueried(_) | Message::RunEnded(_) | Message::EventsCommitted(_)) => {
            is_awaited(&state, message)
        }
    });
    rebuilt.commits.push(events);
    rebuilt.state = state;
    Ok(())
}
