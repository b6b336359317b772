//! What a checker or a test may read of the in-memory store. Every answer is a copy taken in one moment.

use std::collections::BTreeMap;

use protocol::{EffectKey, Timestamp};

use super::MemoryStore;
use super::state::outbox_ref;
use crate::{Address, EventRecord, OutboxEntry, OutboxRef, Snapshot};

/// Whether a ledger entry is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Settled {
    Yes,
    No,
}

impl MemoryStore {
    /// Every kept event, by address, in version order.
    pub fn all_events(&self) -> BTreeMap<Address, Vec<EventRecord>> {
        let state = self.state();
        let known = state.invocations.iter().filter(|(_, it)| !it.events.is_empty());
        known.map(|(address, it)| (address.clone(), it.events.clone())).collect()
    }

    /// Every snapshot, by address.
    pub fn all_snapshots(&self) -> BTreeMap<Address, Snapshot> {
        let state = self.state();
        let known = state.invocations.iter().filter_map(|(address, it)| Some((address.clone(), it.snapshot.clone()?)));
        known.collect()
    }

    /// Every ledger entry.
    pub fn all_entries(&self) -> BTreeMap<(Address, EffectKey), (Settled, Vec<u8>)> {
        let state = self.state();
        let entries = state.invocations.iter().flat_map(|(address, it)| {
            it.entries.iter().map(|(key, entry)| ((address.clone(), key.clone()), entry.clone()))
        });
        entries.collect()
    }

    /// Every outbox entry that is not deleted, by shard, oldest first.
    pub fn all_pending(&self) -> Vec<(OutboxRef, OutboxEntry)> {
        let state = self.state();
        let entries = state.each_shard().flat_map(|(number, shard)| {
            shard.outbox.iter().map(move |(id, entry)| (outbox_ref(number, *id), entry.clone()))
        });
        entries.collect()
    }

    /// Every timer that is set, with its due time.
    pub fn all_timers(&self) -> BTreeMap<(Address, String), Timestamp> {
        let state = self.state();
        let timers = state.each_shard().flat_map(|(_, shard)| shard.timers.iter());
        timers.map(|(key, due)| (key.clone(), *due)).collect()
    }
}
