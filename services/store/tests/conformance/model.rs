//! The reference: what a store must answer, said as simply as it can be. It shares no code with a store.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use protocol::{Basis, Digest, EventId, InvocationId, Timestamp, Version};
use turnwright_store::{Address, Commit, EventRecord, IndexEntry, OutboxEntry, Shard, Snapshot, Standing, shard_of};
use uuid::Uuid;

use crate::step::{Step, Wish, step};
use crate::support::{FOREVER, basis, entry, hash, timer};

pub const SHARDS: u16 = 2;
const PAST: i64 = 1_000;
const FUTURE: i64 = 4_000_000_000_000;

/// What a commit must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Conflict,
    Frozen,
    OverQuota,
    Refused,
}

/// A call with concrete arguments, and the answer it must give.
#[derive(Debug, Clone)]
pub enum Call {
    Commit { commit: Box<Commit>, stale: bool, outcome: Outcome },
    Freeze(Address, Basis),
    Thaw(Address),
    Journal { address: Address, value: Vec<u8>, answer: Vec<u8> },
    DropTimer { address: Address, name: String, due: i64 },
    Acknowledge(Vec<EventId>),
    Flush,
    Expire { shard: Shard, runs_ms: u64, evidence_ms: u64, answer: usize },
    Lease { shard: Shard, owner: String, answer: bool },
    SetCluster(Shard, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Unknown,
    Stub,
    Live,
    Tombstone,
}

#[derive(Debug, Clone)]
pub struct Run {
    pub life: Life,
    pub snapshot: Snapshot,
    pub index: IndexEntry,
    pub request: Digest,
    pub frozen: Option<Basis>,
    pub entries: BTreeMap<String, (bool, Vec<u8>)>,
    pub events: Vec<EventRecord>,
    pub journal: Option<Vec<u8>>,
}

impl Run {
    /// What a commit on it must expect.
    fn stored(&self) -> Option<Basis> {
        let snapshot = &self.snapshot;
        let basis = Basis { version: snapshot.version, hash: snapshot.head };
        matches!(self.life, Life::Stub | Life::Live).then_some(basis)
    }
}

impl Default for Run {
    fn default() -> Self {
        Self {
            life: Life::Unknown,
            snapshot: Snapshot { version: Version(0), head: Digest::default(), bytes: Vec::new() },
            index: IndexEntry { standing: Standing::Open, summary: String::new() },
            request: Digest::default(),
            frozen: None,
            entries: BTreeMap::new(),
            events: Vec::new(),
            journal: None,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub runs: BTreeMap<Address, Run>,
    pub timers: BTreeMap<(Address, String), i64>,
    pub outbox: Vec<(Shard, OutboxEntry)>,
    pub acknowledged: BTreeSet<EventId>,
    pub leases: BTreeMap<Shard, String>,
    pub clusters: BTreeMap<Shard, String>,
    pub call: Option<Call>,
    serial: u64,
}

pub fn addresses() -> Vec<Address> {
    let tenants = ["acme", "glo/bex {1}"];
    let ids = (1..=3).map(|n| InvocationId(Uuid::from_u128(n)));
    ids.flat_map(|id| tenants.map(|tenant| Address { tenant: tenant.into(), id })).collect()
}

impl ReferenceStateMachine for Model {
    type State = Model;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model::default()).boxed()
    }

    fn transitions(_: &Model) -> BoxedStrategy<Step> {
        step()
    }

    fn apply(mut model: Model, step: &Step) -> Model {
        let call = model.take(step);
        model.call = Some(call);
        model
    }
}

impl Model {
    fn take(&mut self, step: &Step) -> Call {
        let address = |who: &usize| addresses()[*who].clone();
        match step {
            Step::Commit(wish) => self.commit(wish),
            Step::Freeze(who) => {
                let run = self.runs.entry(address(who)).or_default();
                if run.life != Life::Tombstone {
                    run.frozen.get_or_insert(basis(9));
                }
                Call::Freeze(address(who), basis(9))
            }
            Step::Thaw(who) => {
                if let Some(run) = self.runs.get_mut(&address(who)) {
                    run.frozen = None;
                }
                Call::Thaw(address(who))
            }
            Step::Journal(who, value) => {
                let run = self.runs.entry(address(who)).or_default();
                let value = vec![0, *value];
                let answer = match run.life {
                    Life::Tombstone => value.clone(),
                    _ => run.journal.get_or_insert_with(|| value.clone()).clone(),
                };
                Call::Journal { address: address(who), value, answer }
            }
            Step::DropTimer(who, name, past) => {
                let (address, name, due) = (address(who), format!("t/{name}"), if *past { PAST } else { FUTURE });
                let key = (address.clone(), name.clone());
                if self.timers.get(&key) == Some(&due) {
                    self.timers.remove(&key);
                }
                Call::DropTimer { address, name, due }
            }
            Step::Acknowledge(n) => {
                let ids: Vec<_> = self.outbox.iter().take(*n).map(|(_, entry)| entry.event_id).collect();
                self.acknowledged.extend(&ids);
                Call::Acknowledge(ids)
            }
            Step::Flush => {
                (0..SHARDS).for_each(|shard| self.delete_acknowledged(Shard(shard)));
                Call::Flush
            }
            Step::Expire { shard, runs, evidence } => self.expire(Shard(*shard), *runs, *evidence),
            Step::Lease(shard, owner) => {
                let (shard, owner) = (Shard(*shard), owner.to_string());
                let holder = self.leases.entry(shard).or_insert_with(|| owner.clone());
                Call::Lease { shard, answer: *holder == owner, owner }
            }
            Step::SetCluster(shard, id) => {
                self.clusters.insert(Shard(*shard), id.to_string());
                Call::SetCluster(Shard(*shard), id.to_string())
            }
        }
    }

    fn commit(&mut self, wish: &Wish) -> Call {
        let commit = self.concrete(wish);
        let outcome = self.outcome(&commit, wish.stale);
        if outcome == Outcome::Done {
            self.write(&commit);
        }
        Call::Commit { commit: Box::new(commit), stale: wish.stale, outcome }
    }

    fn concrete(&mut self, wish: &Wish) -> Commit {
        let address = addresses()[wish.who].clone();
        let run = self.runs.get(&address).cloned().unwrap_or_default();
        let stored = run.stored();
        let expected = match (wish.expect, stored) {
            (0..7, stored) => stored,
            (7, stored) => stored.map(|basis| Basis { hash: hash(0), ..basis }),
            (8, _) => None,
            (9, stored) => stored.map(|it| Basis { version: Version(it.version.0.saturating_sub(1)), ..it }),
            (_, stored) => Some(stored.unwrap_or_default()).map(|it| Basis { version: it.version.next(), ..it }),
        };
        let is_stub = expected.is_none() && wish.events == 0;
        let first = expected.unwrap_or_default().version.0 + 1;
        let count = if is_stub { 0 } else { wish.events.max(1) };
        let mut unique = || {
            self.serial += 1;
            self.serial
        };
        let events: Vec<_> = (first..first + count)
            .map(|n| EventRecord { version: Version(n), hash: hash(unique()), bytes: vec![0, 13, 10, 255] })
            .collect();
        let head = events.last().map_or_else(Digest::default, |event| event.hash);
        let mut keys = BTreeSet::new();
        let (entries, timers) = (wish.entries.iter(), wish.timers.iter());
        let entries = entries
            .filter(|(key, _)| keys.insert(*key))
            .map(|(key, settled)| entry(&format!("key{key}"), *settled, &[0, *key]));
        let timers =
            timers.map(|(name, due)| timer(&format!("t/{name}"), due.map(|past| if past { PAST } else { FUTURE })));
        Commit {
            address,
            expected,
            decided_at: Timestamp(0),
            snapshot: Snapshot { version: Version(first + count - 1), head, bytes: unique().to_be_bytes().to_vec() },
            events,
            entries: entries.collect(),
            timers: timers.collect(),
            outbox: (0..wish.outbox)
                .map(|_| OutboxEntry { event_id: EventId(Uuid::from_u128(unique().into())), bytes: vec![0] })
                .collect(),
            index: IndexEntry { standing: wish.standing, summary: format!("run {}", unique()) },
            request_digest: wish.request.then(|| hash(unique())),
            stub_quota: is_stub.then_some(wish.quota),
            thaws: if run.frozen.is_some() { wish.expect.is_multiple_of(2) } else { wish.expect == 7 },
        }
    }

    fn outcome(&self, commit: &Commit, stale: bool) -> Outcome {
        let run = self.runs.get(&commit.address).cloned().unwrap_or_default();
        let stored = run.stored();
        let regresses = commit
            .entries
            .iter()
            .any(|new| !new.settled && run.entries.get(new.key.as_str()).is_some_and(|(settled, _)| *settled));
        let stubs = self.runs.iter().filter(|(address, run)| {
            let same_shard = shard_of(address, SHARDS) == shard_of(&commit.address, SHARDS);
            run.life == Life::Stub && same_shard && address.tenant == commit.address.tenant
        });
        match () {
            () if run.life == Life::Tombstone => Outcome::Conflict,
            () if run.frozen.is_some() && !commit.thaws => Outcome::Frozen,
            () if stored != commit.expected || stale || run.frozen.is_some() != commit.thaws => Outcome::Conflict,
            () if commit.stub_quota.is_some_and(|quota| stubs.count() >= quota as usize) => Outcome::OverQuota,
            () if regresses => Outcome::Refused,
            () => Outcome::Done,
        }
    }

    fn write(&mut self, commit: &Commit) {
        let shard = shard_of(&commit.address, SHARDS);
        let run = self.runs.entry(commit.address.clone()).or_default();
        run.frozen = None;
        run.life = if commit.events.is_empty() { Life::Stub } else { Life::Live };
        run.snapshot = commit.snapshot.clone();
        run.index = commit.index.clone();
        run.request = commit.request_digest.unwrap_or(run.request);
        run.events.extend(commit.events.iter().cloned());
        for new in &commit.entries {
            run.entries.insert(new.key.to_string(), (new.settled, new.bytes.clone()));
        }
        for change in &commit.timers {
            let key = (commit.address.clone(), change.name.clone());
            match change.due {
                Some(due) => self.timers.insert(key, due.0),
                None => self.timers.remove(&key),
            };
        }
        self.delete_acknowledged(shard);
        self.outbox.extend(commit.outbox.iter().map(|entry| (shard, entry.clone())));
    }

    fn delete_acknowledged(&mut self, of: Shard) {
        self.outbox.retain(|(shard, entry)| *shard != of || !self.acknowledged.contains(&entry.event_id));
    }

    fn expire(&mut self, shard: Shard, runs: bool, evidence: bool) -> Call {
        let mut answer = 0;
        let here = |address: &Address| shard_of(address, SHARDS) == shard;
        for (_, run) in self.runs.iter_mut().filter(|(address, run)| here(address) && run.frozen.is_none()) {
            if runs && run.life == Life::Live && run.index.standing == Standing::Ended {
                run.life = Life::Tombstone;
                run.events.clear();
                run.journal = None;
                answer += 1;
            }
        }
        self.runs.retain(|address, run| {
            let old = matches!(run.life, Life::Tombstone | Life::Stub) && run.frozen.is_none();
            let gone = evidence && old && here(address);
            answer += usize::from(gone);
            !gone
        });
        let keep = |at_once: bool| if at_once { 0 } else { FOREVER };
        Call::Expire { shard, runs_ms: keep(runs), evidence_ms: keep(evidence), answer }
    }

    /// The timers of a shard that are due.
    pub fn due(&self, shard: Shard) -> BTreeSet<(Address, String)> {
        let due = self.timers.iter().filter(|((address, _), due)| shard_of(address, SHARDS) == shard && **due == PAST);
        due.map(|(key, _)| key.clone()).collect()
    }
}
