//! The checker of the invariants I1–I10 (I9 as far as the books tell), over what the world outside saw:
//! committed events, the owner's books, the model's requests and the publish journal. It runs no code of `handle` or
//! `apply`: it reads facts.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    AttemptId, Basis, CallId, CallResult, EffectKey, EffectStatus, Event, EventId, Fact, InvocationId, LedgerEntry,
    TerminalReason, Version,
};
use serde_json::Value;

/// What was seen of one run of the system.
#[derive(Debug, Default)]
pub struct History {
    /// Per invocation, its committed events in order, each with the place of its commit in the order of the world.
    pub invocations: BTreeMap<InvocationId, Vec<(u64, Event)>>,
    pub ledger: Vec<(InvocationId, LedgerEntry)>,
    /// What owners applied, in their own books.
    pub applied: Vec<Applied>,
    /// What owners refused for good.
    pub refused: BTreeSet<EffectKey>,
    pub model_requests: Vec<ModelRequested>,
    pub dispatches: Vec<Dispatched>,
    pub published: BTreeSet<EventId>,
    /// Per invocation, the events that the `events` topic has had.
    pub logged: BTreeMap<InvocationId, BTreeSet<Basis>>,
    /// Everything that commits put into the outbox.
    pub outbox: BTreeSet<EventId>,
    /// Terminal events by distinct `event_id`: invocation, final or not, reason.
    pub terminals: BTreeMap<EventId, (InvocationId, bool, TerminalReason)>,
    /// Invocations whose request was accepted.
    pub accepted: BTreeSet<InvocationId>,
}

/// One line of an owner's books.
#[derive(Debug, Clone)]
pub struct Applied {
    pub sequence: u64,
    pub key: EffectKey,
    pub attempt_id: AttemptId,
    pub fingerprint: Option<String>,
}

/// One request to the model: what it was shown of the turns before.
#[derive(Debug, Clone)]
pub struct ModelRequested {
    pub sequence: u64,
    pub invocation_id: InvocationId,
    pub step: u32,
    /// Per finished turn, the results as they were shown: provider call ID and digest-free content.
    pub turns: Vec<Vec<(String, Value)>>,
}

/// One published dispatch.
#[derive(Debug, Clone)]
pub struct Dispatched {
    pub sequence: u64,
    pub invocation_id: InvocationId,
    pub call_id: CallId,
    pub basis: Basis,
}

/// One broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub what: String,
}

impl History {
    /// Every violation found.
    pub fn check(&self) -> Vec<Violation> {
        let mut found = Found(Vec::new());
        self.effects_once(&mut found);
        self.dispatches_after_commit(&mut found);
        self.outbox_is_published(&mut found);
        self.one_final_end(&mut found);
        self.log_never_forks(&mut found);
        for (id, events) in &self.invocations {
            chain(*id, events, &mut found);
            correlation(*id, events, &mut found);
            claims(*id, events, &mut found);
            approvals(*id, events, &mut found);
        }
        self.claims_cover_applications(&mut found);
        self.model_sees_committed_results(&mut found);
        self.ledger_agrees_with_books(&mut found);
        found.0
    }

    /// I1.
    fn effects_once(&self, found: &mut Found) {
        let mut seen: BTreeMap<&EffectKey, &Applied> = BTreeMap::new();
        for applied in &self.applied {
            match seen.insert(&applied.key, applied) {
                Some(before) if before.fingerprint != applied.fingerprint => {
                    found.add("I1", format!("{} was applied for two different requests", applied.key));
                }
                Some(_) => found.add("I1", format!("{} was applied more than once", applied.key)),
                None => {}
            }
        }
    }

    /// I2.
    fn dispatches_after_commit(&self, found: &mut Found) {
        for dispatch in &self.dispatches {
            let events = self.invocations.get(&dispatch.invocation_id);
            let basis = events.into_iter().flatten().find(|(_, event)| event.version == dispatch.basis.version);
            let released = |fact: &Fact| match fact {
                Fact::WaveReleased { calls, .. } => calls.contains(&dispatch.call_id),
                Fact::CallReleased { call_id, .. } => *call_id == dispatch.call_id,
                _ => false,
            };
            match basis {
                Some((committed, event)) => {
                    if event.hash != dispatch.basis.hash || !released(&event.fact) {
                        found.add(
                            "I2",
                            format!("{} was dispatched on a basis that does not release it", dispatch.call_id),
                        );
                    } else if *committed > dispatch.sequence {
                        found.add("I2", format!("{} was dispatched before its commit", dispatch.call_id));
                    }
                }
                None => found.add("I2", format!("{} was dispatched without a commit", dispatch.call_id)),
            }
        }
    }

    /// I3.
    fn outbox_is_published(&self, found: &mut Found) {
        for missing in self.outbox.difference(&self.published) {
            found.add("I3", format!("outbox entry {missing} was never published"));
        }
    }

    /// I4.
    fn one_final_end(&self, found: &mut Found) {
        let mut finals: BTreeMap<InvocationId, u32> = BTreeMap::new();
        for (id, is_final, _) in self.terminals.values() {
            *finals.entry(*id).or_default() += u32::from(*is_final);
        }
        for id in &self.accepted {
            match finals.get(id).copied().unwrap_or(0) {
                1 => {}
                n => found.add("I4", format!("{id} has {n} final terminal events")),
            }
        }
        for (id, events) in &self.invocations {
            let ended = events.iter().position(|(_, event)| matches!(event.fact, Fact::Ended { .. }));
            for (_, event) in ended.map(|at| &events[at + 1..]).unwrap_or_default() {
                if !is_ledger_fact(&event.fact) {
                    found.add("I4", format!("{id}: `{}` came after the end", event.fact.name()));
                }
            }
        }
    }

    /// I10: what was said of an invocation is what the store has, unless the run ended for that very reason.
    fn log_never_forks(&self, found: &mut Found) {
        for (id, logged) in &self.logged {
            let events = self.invocations.get(id).map(Vec::as_slice).unwrap_or_default();
            let kept: BTreeSet<_> = events.iter().map(|(_, event)| event.basis()).collect();
            let failed = events
                .iter()
                .any(|(_, event)| matches!(event.fact, Fact::Ended { reason: TerminalReason::CheckpointFailed, .. }));
            for basis in logged.difference(&kept).filter(|_| !failed) {
                found.add("I10", format!("{id}: version {} was published, and the store has another", basis.version));
            }
        }
    }

    /// I7, I9: whatever an owner applied was claimed first.
    fn claims_cover_applications(&self, found: &mut Found) {
        let mut claims: BTreeMap<(EffectKey, AttemptId), u64> = BTreeMap::new();
        for (sequence, event) in self.invocations.values().flatten() {
            if let Fact::CallClaimed { effect_key, attempt_id, .. } = &event.fact {
                claims.insert((effect_key.clone(), *attempt_id), *sequence);
            }
        }
        for applied in &self.applied {
            match claims.get(&(applied.key.clone(), applied.attempt_id)) {
                Some(claimed) if *claimed < applied.sequence => {}
                Some(_) => found.add("I7", format!("{} was applied before its claim was committed", applied.key)),
                None => found.add("I7", format!("{} was applied without a claim", applied.key)),
            }
        }
    }

    /// I6.
    fn model_sees_committed_results(&self, found: &mut Found) {
        for request in &self.model_requests {
            let id = request.invocation_id;
            let events = self.invocations.get(&id).map(Vec::as_slice).unwrap_or_default();
            let committed: Vec<_> = events
                .iter()
                .filter(|(sequence, _)| *sequence < request.sequence)
                .filter_map(|(_, event)| match &event.fact {
                    Fact::TurnCommitted(turn) => Some(&turn.results),
                    _ => None,
                })
                .collect();
            let turns = usize::try_from(request.step.saturating_sub(1)).unwrap_or(usize::MAX);
            if request.turns.len() != turns || committed.len() < turns {
                let shown = request.turns.len();
                found.add(
                    "I6",
                    format!(
                        "{id}: step {} was asked with {shown} turns shown, {} committed",
                        request.step,
                        committed.len()
                    ),
                );
                continue;
            }
            for (shown, results) in request.turns.iter().zip(&committed) {
                let expected: Vec<_> = results
                    .iter()
                    .map(|result| (result.provider_call_id.clone(), content(&result.outcome.result)))
                    .collect();
                if *shown != expected {
                    found
                        .add("I6", format!("{id}: step {} was not shown the committed results in order", request.step));
                }
            }
        }
    }

    /// I9.
    fn ledger_agrees_with_books(&self, found: &mut Found) {
        for (id, entry) in &self.ledger {
            let applied = self.applied.iter().filter(|applied| applied.key == entry.key).count();
            match entry.status {
                EffectStatus::Committed if applied != 1 => {
                    found.add(
                        "I9",
                        format!("{id}: {} is committed, and its owner applied it {applied} times", entry.key),
                    );
                }
                EffectStatus::Rejected if applied != 0 => {
                    found.add("I9", format!("{id}: {} is rejected, and its owner applied it", entry.key));
                }
                _ => {}
            }
        }
    }
}

/// What a call's result shows, whatever its bookkeeping.
pub fn content(result: &CallResult) -> Value {
    match result {
        CallResult::Output(output) => output.clone(),
        CallResult::Error(error) => serde_json::json!({ "error": error.class }),
    }
}

fn is_ledger_fact(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::EffectSettledLate { .. }
            | Fact::EffectConflict { .. }
            | Fact::EffectUnknown { .. }
            | Fact::ProbeRequested { .. }
            | Fact::EffectResolved { .. }
            | Fact::AttemptFailed { .. }
    )
}

/// I5.
fn chain(id: InvocationId, events: &[(u64, Event)], found: &mut Found) {
    let mut previous = protocol::Digest::default();
    for (position, (_, event)) in events.iter().enumerate() {
        let version = Version(position as u64 + 1);
        if event.version != version || event.previous != previous || !event.is_authentic() {
            found.add("I5", format!("{id}: the chain breaks at version {version}"));
        }
        previous = event.hash;
    }
}

/// Correlation by Call ID (M9): every turn's results stand in proposal order, one per call, and tools that echo their
/// arguments show that each result belongs to its call.
fn correlation(id: InvocationId, events: &[(u64, Event)], found: &mut Found) {
    let mut planned: Option<&protocol::Plan> = None;
    for (_, event) in events {
        match &event.fact {
            Fact::TurnPlanned(turn) => planned = Some(&turn.plan),
            Fact::ApprovalRequested(requested) => planned = Some(&requested.plan),
            Fact::TurnCommitted(turn) if !turn.results.is_empty() => {
                let Some(plan) = planned.take() else {
                    found.add("I6", format!("{id}: results without a plan"));
                    continue;
                };
                let calls: Vec<_> = plan.calls.iter().map(|call| call.call_id).collect();
                if calls != turn.results.iter().map(|result| result.call_id).collect::<Vec<_>>() {
                    found.add("I6", format!("{id}: results are not the plan's, in its order"));
                }
                for (call, result) in plan.calls.iter().zip(&turn.results) {
                    if let CallResult::Output(output) = &result.outcome.result
                        && output.get("echo").is_some_and(|echo| *echo != call.arguments)
                    {
                        found.add("I6", format!("{id}: a result was given to another call"));
                    }
                }
            }
            _ => {}
        }
    }
}

/// I7 and I8.
fn claims(id: InvocationId, events: &[(u64, Event)], found: &mut Found) {
    let mut stopped = false;
    let mut unknown: BTreeSet<&EffectKey> = BTreeSet::new();
    for (_, event) in events {
        match &event.fact {
            Fact::CancelRequested { .. } | Fact::Ended { .. } => stopped = true,
            Fact::EffectUnknown { effect_key, .. } => {
                unknown.insert(effect_key);
            }
            Fact::EffectResolved { effect_key, resolution: protocol::Resolution::NotApplied, .. }
            | Fact::EffectSettledLate { effect_key, .. } => {
                unknown.remove(effect_key);
            }
            Fact::CallClaimed { effect_key, .. } => {
                if stopped {
                    found.add("I7", format!("{id}: {effect_key} was claimed after the stop"));
                }
                if unknown.contains(effect_key) {
                    found.add("I8", format!("{id}: {effect_key} was claimed while its outcome was unknown"));
                }
            }
            _ => {}
        }
    }
}

/// I13: a gated batch is released by one approval with its digest, within its time; without one, nothing of it is.
fn approvals(id: InvocationId, events: &[(u64, Event)], found: &mut Found) {
    let mut waiting: Option<&protocol::ApprovalRequested> = None;
    let mut gated: BTreeSet<CallId> = BTreeSet::new();
    for (_, event) in events {
        match &event.fact {
            Fact::ApprovalRequested(requested) => {
                gated.extend(requested.plan.calls.iter().map(|call| call.call_id));
                waiting = Some(requested);
            }
            Fact::ApprovalGranted { proposal_digest, .. } => match waiting.take() {
                Some(requested) if requested.proposal_digest == *proposal_digest && event.at < requested.expires_at => {
                    for call in &requested.plan.calls {
                        gated.remove(&call.call_id);
                    }
                }
                Some(_) | None => found.add("I13", format!("{id}: {proposal_digest} was granted without waiting")),
            },
            Fact::ApprovalRefused { .. } => waiting = None,
            Fact::WaveReleased { calls, .. } if calls.iter().any(|call| gated.contains(call)) => {
                found.add("I13", format!("{id}: a gated call was released without its approval"));
            }
            _ => {}
        }
    }
}

struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, invariant: &'static str, what: String) {
        self.0.push(Violation { invariant, what });
    }
}
