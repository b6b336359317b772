//! What the in-memory store holds.

use std::collections::BTreeMap;

use protocol::{Basis, Digest, EffectKey, Epoch, Tenant, Timestamp, Version};

use crate::{
    Address, Entries, Error, EventRecord, IndexEntry, Loaded, OutboxEntry, OutboxRef, Settled, Shard, Snapshot,
    Tombstone,
};

#[derive(Debug, Clone)]
pub struct State {
    pub(super) invocations: BTreeMap<Address, Invocation>,
    shards: Vec<ShardState>,
}

/// All that is kept of one invocation. Without a snapshot and a tombstone it is unknown.
#[derive(Debug, Clone, Default)]
pub(super) struct Invocation {
    pub snapshot: Option<Snapshot>,
    pub request_digest: Option<Digest>,
    pub frozen: Option<(Basis, Timestamp)>,
    pub tombstone: Option<Tombstone>,
    pub index: Option<IndexEntry>,
    pub events: Vec<EventRecord>,
    pub entries: BTreeMap<EffectKey, (Settled, Vec<u8>)>,
    pub journal: BTreeMap<String, Vec<u8>>,
    /// When it became able to expire.
    pub ended_at: Option<Timestamp>,
    /// Since when only evidence is kept: the end, or the storing of a stub.
    pub evidence_since: Option<Timestamp>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ShardState {
    pub epoch: Epoch,
    /// Which incarnation of the store the shard was last compared with the log in; another one fences it.
    pub server: u64,
    pub cluster_id: Option<String>,
    pub outbox: BTreeMap<(u64, u64), OutboxEntry>,
    last_outbox_id: (u64, u64),
    pub timers: BTreeMap<(Address, String), Timestamp>,
    /// Owner and end of each lease.
    pub leases: BTreeMap<String, (String, Timestamp)>,
    pub stubs: BTreeMap<Tenant, u32>,
}

impl State {
    pub fn new(shards: u16) -> Self {
        Self { invocations: BTreeMap::new(), shards: (0..shards).map(|_| ShardState::default()).collect() }
    }

    pub fn shard(&self, shard: Shard) -> Result<&ShardState, Error> {
        self.shards.get(usize::from(shard.0)).ok_or_else(|| no_such(shard))
    }

    pub fn shard_mut(&mut self, shard: Shard) -> Result<&mut ShardState, Error> {
        self.shards.get_mut(usize::from(shard.0)).ok_or_else(|| no_such(shard))
    }

    /// Every shard with its number.
    pub fn each_shard(&self) -> impl Iterator<Item = (Shard, &ShardState)> {
        (0..).map(Shard).zip(&self.shards)
    }
}

impl Invocation {
    pub fn load(
        &self,
        now: Timestamp,
        (epoch, fenced): (Epoch, bool),
        entries: &Entries,
        hash_at: Option<Version>,
    ) -> Loaded {
        let asked = |key: &EffectKey| match entries {
            Entries::All => true,
            Entries::Keys(keys) => keys.contains(key),
        };
        let entries = self.entries.iter().filter(|(key, _)| asked(key));
        Loaded {
            now,
            epoch,
            fenced,
            snapshot: self.snapshot.clone().filter(|_| self.tombstone.is_none()),
            entries: entries.map(|(key, (_, bytes))| (key.clone(), bytes.clone())).collect(),
            hash_at: hash_at
                .and_then(|at| self.events.iter().find(|event| event.version == at))
                .map(|event| event.hash),
            frozen: self.frozen,
            tombstone: self.tombstone.clone(),
        }
    }
}

impl ShardState {
    /// Adds an entry under an ID that is later than every one before, even when the clock steps back.
    pub fn add_outbox(&mut self, now: Timestamp, entry: OutboxEntry) -> (u64, u64) {
        let (last_ms, last_sequence) = self.last_outbox_id;
        let now_ms = u64::try_from(now.0).unwrap_or(0);
        let id = if now_ms > last_ms { (now_ms, 0) } else { (last_ms, last_sequence + 1) };
        self.last_outbox_id = id;
        self.outbox.insert(id, entry);
        id
    }

    /// Whether another incarnation of the store answers than last time.
    pub fn is_fenced(&self, incarnation: u64) -> bool {
        self.server != incarnation
    }

    /// Past every epoch that a lost part of this shard may have reached.
    pub fn raise_epoch(&mut self, now: Timestamp) {
        let seconds = u64::try_from(now.0 / 1_000).unwrap_or(0);
        self.epoch = self.epoch.next().max(Epoch(seconds));
    }

    pub fn delete_outbox(&mut self, ids: &[String]) {
        for id in ids.iter().filter_map(|id| crate::acknowledged::read_id(id)) {
            self.outbox.remove(&id);
        }
    }

    pub fn drop_stub(&mut self, tenant: &Tenant) {
        if let Some(count) = self.stubs.get_mut(tenant) {
            *count = count.saturating_sub(1);
        }
    }
}

/// What is loaded where nothing is stored.
pub(super) fn nothing() -> Loaded {
    Loaded {
        now: Timestamp::default(),
        epoch: Epoch::default(),
        fenced: false,
        snapshot: None,
        entries: Vec::new(),
        hash_at: None,
        frozen: None,
        tombstone: None,
    }
}

pub(super) fn outbox_ref(shard: Shard, (ms, sequence): (u64, u64)) -> OutboxRef {
    OutboxRef { shard, id: format!("{ms}-{sequence}") }
}

fn no_such(shard: Shard) -> Error {
    Error::Refused(format!("shard {} does not exist", shard.0))
}
