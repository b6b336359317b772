//! A committed history: what the store has of the run, and what the real core makes of every further input. Histories of
//! one identity are one; what was decided once on one of them is remembered beside it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::{
    Control, Event, Fact, Ignored, Input, Invocation, Judgement, Ledger, Outgoing, Timer, Timestamp, apply, emit,
    handle, needs, timers,
};

use super::facts::Facts;
use super::identity::Identity;
use super::invariants::{Broken, Invariant};
use super::mutants::Mutant;
use super::names::{Cause, Entry};
use super::scenario::{HORIZON, START, invocation, tenant};

/// What is committed, and what it brought about.
pub struct History {
    pub state: Invocation,
    pub log: Vec<Arc<Event>>,
    /// Everything the outbox was ever given.
    pub messages: BTreeMap<Entry, Arc<Outgoing>>,
    pub facts: Facts,
    pub identity: Identity,
    /// What commits up to here have broken.
    pub broken: Broken,
    decided: Mutex<HashMap<(Cause, u64), Decided>>,
    /// By ticks after the newest event: what is broken by what is over.
    looked_over: Mutex<HashMap<u64, Broken>>,
}

/// What came of one input.
#[derive(Debug, Clone)]
pub enum Decided {
    Ignored(Ignored),
    /// To be committed.
    Events(Arc<History>),
}

/// Every history met, by its identity.
#[derive(Debug)]
pub struct Histories {
    mutant: Option<Mutant>,
    known: Mutex<HashMap<Identity, Arc<History>>>,
}

impl History {
    /// Nothing is known of the run.
    pub fn absent() -> Self {
        let mut state = Invocation::absent(tenant(), invocation());
        state.at = START;
        Self::new(state, Vec::new(), BTreeMap::new(), Facts::default(), Broken::default())
    }

    fn new(
        state: Invocation,
        log: Vec<Arc<Event>>,
        messages: BTreeMap<Entry, Arc<Outgoing>>,
        facts: Facts,
        broken: Broken,
    ) -> Self {
        let identity = Identity::of(&state, &messages, &facts);
        Self { state, log, messages, facts, identity, broken, decided: Mutex::default(), looked_over: Mutex::default() }
    }

    /// The store's time, so many ticks after the newest event.
    pub fn time(&self, late: u64) -> Timestamp {
        self.state.at.plus_ms(late)
    }

    /// The timers that will ever be due, with the ticks from the newest event.
    pub fn timers(&self) -> impl Iterator<Item = (Timer, u64)> {
        let at = self.state.at;
        let all = timers(&self.state).into_iter().map(move |timer| (timer, timer.due.ms_since(at)));
        all.filter(|(_, due)| *due <= HORIZON)
    }

    /// What the core says to this input, so many ticks after the newest event; remembered in `histories`.
    /// `None` when there is no such input.
    pub fn decide(
        &self,
        histories: &Histories,
        cause: Cause,
        late: u64,
        input: impl FnOnce() -> Option<Input>,
    ) -> Option<Decided> {
        if let Some(known) = lock(&self.decided).get(&(cause, late)) {
            return Some(known.clone());
        }
        let decided = match self.decided_afresh(input()?, late, histories.mutant) {
            Ok(next) => Decided::Events(histories.one(next)),
            Err(ignored) => Decided::Ignored(ignored),
        };
        lock(&self.decided).insert((cause, late), decided.clone());
        Some(decided)
    }

    /// Looks once, so many ticks after the newest event, and remembers what it has seen.
    pub fn once(&self, late: u64, look: impl FnOnce() -> Broken) -> Broken {
        if let Some(seen) = lock(&self.looked_over).get(&late) {
            return *seen;
        }
        let seen = look();
        lock(&self.looked_over).insert(late, seen);
        seen
    }

    /// The history that the store would have after this input's commit.
    pub fn decided_afresh(&self, mut input: Input, late: u64, mutant: Option<Mutant>) -> Result<History, Ignored> {
        let mut broken = self.broken;
        let mut state = self.state.clone();
        let said = input.clone();
        if let Some(mutant) = mutant {
            mutant.doctor(&mut state, &mut input);
        }
        match handle(&self.loaded(&state, &input), &input, self.time(late)) {
            Ok(events) => {
                if !is_approved_by(&events, &said) {
                    broken.add(Invariant::I13);
                }
                Ok(self.with(state, &events, broken))
            }
            Err(Ignored::OvertakesRequest) => Ok(self.with_stub(&input)),
            Err(Ignored::Refused(_) | Ignored::NotLoaded(_)) => {
                broken.add(Invariant::Core);
                Ok(self.marked(broken))
            }
            Err(Ignored::LostCommit(_) | Ignored::Frozen) => {
                broken.add(Invariant::I10);
                Ok(self.marked(broken))
            }
            Err(ignored) => Err(ignored),
        }
    }

    /// What a load brings: of the ledger only what `needs` names, and the hash at the input's basis.
    fn loaded(&self, whole: &Invocation, input: &Input) -> Invocation {
        let needs = needs(whole, input);
        let mut state = whole.clone();
        if state.run.is_some() {
            let asked: BTreeSet<_> = needs.effects.into_iter().collect();
            let named: Vec<_> = whole.ledger.entries().filter(|entry| asked.contains(&entry.key)).cloned().collect();
            state.ledger = Ledger::loaded(named, Some(asked));
        }
        state.hash_at = needs.hash_at.and_then(|version| {
            let place = usize::try_from(version.0).ok()?.checked_sub(1)?;
            Some((version, self.log.get(place)?.hash))
        });
        state
    }

    /// The history with these events: a fold of `apply`, and what `emit` says of it.
    fn with(&self, mut state: Invocation, events: &[Event], mut broken: Broken) -> History {
        for event in events {
            state = match apply(state, event) {
                Ok(state) => state,
                Err(_) => {
                    broken.add(Invariant::Core);
                    return self.marked(broken);
                }
            };
        }
        let outgoing = emit(&state, events);
        let mut facts = self.facts.clone();
        facts.take(&self.log, events, &outgoing, &mut broken);
        let mut messages = self.messages.clone();
        for outgoing in outgoing {
            let Some(mut entry) = Entry::of(&outgoing.message) else {
                continue;
            };
            while messages.contains_key(&entry) {
                match &mut entry {
                    Entry::Turn { count, .. } => *count += 1,
                    // The same name twice: an attempt, a question or a segment came up again.
                    Entry::Dispatch(_) | Entry::Query { .. } => {
                        broken.add(Invariant::I2);
                        break;
                    }
                    Entry::Ended { .. } => {
                        broken.add(Invariant::I4);
                        break;
                    }
                }
            }
            messages.insert(entry, Arc::new(outgoing));
        }
        let log = self.log.iter().cloned().chain(events.iter().cloned().map(Arc::new)).collect();
        Self::new(state, log, messages, facts, broken)
    }

    fn with_stub(&self, input: &Input) -> History {
        let Input::Control(Control::Cancel { actor, reason }) = input else {
            unreachable!("only a Cancel overtakes its request");
        };
        let state = self.state.clone().with_stub(actor.clone(), reason.clone());
        Self::new(state, self.log.clone(), self.messages.clone(), self.facts.clone(), self.broken)
    }

    /// The same history, marked: what was found is told by the path that leads here.
    fn marked(&self, broken: Broken) -> History {
        Self::new(self.state.clone(), self.log.clone(), self.messages.clone(), self.facts.clone(), broken)
    }
}

impl Histories {
    /// None yet. `mutant` is the bug planted around the core, if any.
    pub fn new(mutant: Option<Mutant>) -> Self {
        Self { mutant, known: Mutex::default() }
    }

    /// The one history of that identity.
    pub fn one(&self, history: History) -> Arc<History> {
        let mut known = lock(&self.known);
        // What is broken stays apart, so that it is seen.
        if history.broken != Broken::default() {
            return Arc::new(history);
        }
        Arc::clone(known.entry(history.identity).or_insert_with(|| Arc::new(history)))
    }
}

/// Whether these events grant only what a person has approved, and run nothing that has to be approved first (I13).
fn is_approved_by(events: &[Event], said: &Input) -> bool {
    events.iter().all(|event| match (&event.fact, said) {
        (
            Fact::ApprovalGranted { proposal_digest, .. },
            Input::Control(Control::Approve { proposal_digest: named, .. }),
        ) => proposal_digest == named,
        (Fact::ApprovalGranted { .. }, _) => false,
        (Fact::TurnPlanned(_), Input::Verdict(verdict)) => {
            !matches!(verdict.judgement, Judgement::ApprovalRequired { .. })
        }
        _ => true,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        (self.identity, self.broken) == (other.identity, other.broken)
    }
}

impl Eq for History {}

impl Hash for History {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.identity, self.broken).hash(state);
    }
}

impl PartialOrd for History {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for History {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.identity, self.broken).cmp(&(other.identity, other.broken))
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.log.iter().map(|event| event.fact.name());
        f.debug_list().entries(names).finish()
    }
}
