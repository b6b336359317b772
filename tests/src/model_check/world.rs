//! One state of the model: the committed history, what the world outside holds of it, and what each process has in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::{EffectKey, EffectStatus, Message, TerminalReason};

use super::history::History;
use super::invariants::{Broken, Invariant};
use super::names::{AttemptAt, Cause, EffectAt, Entry, Letter};
use super::owners::{Account, Owners};
use super::scenario::{Faults, Scenario};

/// A state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub history: Arc<History>,
    /// The store's time, in ticks since the newest event.
    pub late: u64,
    /// Entries of the outbox that are lost: none, unless a planted bug loses them. All others are published sooner or
    /// later, by the process that committed them or by the sweeper, and may be delivered at any time from their commit on.
    pub lost: BTreeSet<Entry>,
    /// Whatever was said. Nothing is ever taken away: what was said once may come late, again, or never.
    pub letters: BTreeSet<Letter>,
    /// Decisions that replicas have loaded and not yet committed. Replicas are alike, so their order does not count.
    pub loaded: Vec<Loaded>,
    /// What executors have claimed and not yet reported.
    pub running: Vec<Running>,
    pub owners: Owners,
    pub left: Faults,
    pub broken: Broken,
}

/// A replica between load and commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Loaded {
    pub cause: Cause,
    /// What it has loaded, and when.
    pub history: Arc<History>,
    pub late: u64,
}

/// An executor at work on a claimed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Running {
    pub attempt: AttemptAt,
    /// Ticks until the lease is over, by its own clock.
    pub lease: u64,
    /// Whether the request has left.
    pub sent: bool,
}

impl World {
    pub fn new(scenario: &Scenario, effects: usize) -> Self {
        let cancel = scenario.cancel.then_some(Letter::Cancel);
        Self {
            history: Arc::new(History::absent()),
            late: 0,
            lost: BTreeSet::new(),
            letters: [Letter::Request].into_iter().chain(cancel).collect(),
            loaded: Vec::new(),
            running: Vec::new(),
            owners: Owners { accounts: vec![Account::default(); effects], wire: BTreeSet::new() },
            left: scenario.faults,
            broken: Broken::default(),
        }
    }

    /// Whether that decision was loaded from what is committed still, and is not too old.
    pub fn is_current(&self, loaded: &Loaded) -> bool {
        loaded.history == self.history && loaded.late == self.late
    }

    /// Takes what was committed.
    pub fn commit(&mut self, history: Arc<History>) {
        self.broken.add_all(history.broken);
        self.history = history;
        self.late = 0;
    }

    /// Whether a segment of the run has ended so.
    pub fn ends_with(&self, reason: TerminalReason) -> bool {
        self.history.messages.values().any(|outgoing| match &outgoing.message {
            Message::RunEnded(ended) => ended.reason == reason,
            _ => false,
        })
    }

    /// Puts replicas and executors into the order that makes equal states equal.
    pub fn settle(&mut self) {
        self.loaded.sort();
        self.running.sort();
    }

    /// Looks at what holds between the parts of a state.
    pub fn audit(&mut self, effect_at: impl Fn(&EffectKey) -> Option<EffectAt>) {
        for entry in self.history.state.ledger.entries() {
            let account = effect_at(&entry.key).and_then(|at| self.owners.accounts.get(usize::from(at)));
            let applied = account.map_or(0, |account| account.applied.len());
            let agrees = match entry.status {
                EffectStatus::Committed => applied == 1,
                EffectStatus::Rejected => applied == 0,
                EffectStatus::Prepared
                | EffectStatus::Dispatched
                | EffectStatus::OutcomeUnknown
                | EffectStatus::Reconciling => true,
            };
            if !agrees {
                self.broken.add(Invariant::I9);
            }
        }
        if self.owners.accounts.iter().any(|account| account.applied.len() > 1) {
            self.broken.add(Invariant::I1);
        }
    }
}
