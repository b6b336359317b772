//! The store of one process: the shared in-memory store behind points, lost replies and the commit log that the checker
//! reads.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use protocol::{Basis, EventId, Timestamp, Version};
use store::{
    Address, Commit, Committed, DueTimer, Durability, Entries, Error, EventRecord, IndexEntry, Loaded, MemoryStore,
    OutboxEntry, OutboxRef, Retention, Shard, Store,
};

use super::{ProcessId, SimBus, World};

/// One commit, as the world saw it.
#[derive(Debug, Clone)]
pub struct CommitLog {
    pub sequence: u64,
    pub address: Address,
    /// The events it added.
    pub events: Vec<Basis>,
    pub outbox: Vec<EventId>,
}

/// The store as one process sees it.
#[derive(Clone)]
pub struct SimStore {
    world: World,
    inner: MemoryStore,
    commits: Arc<Mutex<Vec<CommitLog>>>,
    process: Option<ProcessId>,
    /// A planted bug: what a commit must say is published before it is committed.
    publishes_first: Option<SimBus>,
}

impl SimStore {
    pub fn new(world: World, inner: MemoryStore) -> Self {
        Self { world, inner, commits: Arc::default(), process: None, publishes_first: None }
    }

    pub fn of(&self, process: ProcessId, publishes_first: Option<SimBus>) -> Self {
        Self { process: Some(process), publishes_first, ..self.clone() }
    }

    pub fn commits(&self) -> Vec<CommitLog> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn point(&self) {
        if let Some(process) = self.process {
            self.world.point(process).await;
        }
    }

    /// Whether this reply is lost on its way back.
    fn loses_reply(&self) -> bool {
        let lost = self.world.faults().is_some_and(|faults| self.world.chance(faults.lost_reply));
        if lost {
            self.world.injected("lost_reply");
        }
        lost
    }
}

#[async_trait]
impl Store for SimStore {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    fn stats(&self) -> &store::Stats {
        self.inner.stats()
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.inner.now().await
    }

    async fn load(&self, address: &Address, entries: &Entries, hash_at: Option<Version>) -> Result<Loaded, Error> {
        self.point().await;
        self.inner.load(address, entries, hash_at).await
    }

    async fn commit(&self, commit: &Commit) -> Result<Committed, Error> {
        if let Some(bus) = &self.publishes_first {
            for entry in &commit.outbox {
                bus.produce(&committer::outbound(entry).map_err(|error| Error::Corrupt(error.to_string()))?);
            }
        }
        self.point().await;
        let committed = self.inner.commit(commit).await?;
        if matches!(committed, Committed::Done(_)) {
            self.commits.lock().unwrap_or_else(PoisonError::into_inner).push(CommitLog {
                sequence: self.world.next_sequence(),
                address: commit.address.clone(),
                events: commit.events.iter().map(|it| Basis { version: it.version, hash: it.hash }).collect(),
                outbox: commit.outbox.iter().map(|entry| entry.event_id).collect(),
            });
        }
        self.point().await;
        if self.loses_reply() { Err(Error::Retryable("the reply was lost".to_owned())) } else { Ok(committed) }
    }

    async fn events(&self, address: &Address, from: Version, to: Version) -> Result<Vec<EventRecord>, Error> {
        self.inner.events(address, from, to).await
    }

    async fn freeze(&self, address: &Address, basis: Basis) -> Result<(), Error> {
        self.inner.freeze(address, basis).await
    }

    async fn thaw(&self, address: &Address) -> Result<(), Error> {
        self.point().await;
        self.inner.thaw(address).await
    }

    async fn frozen(&self, shard: Shard, older_than_ms: u64, limit: usize) -> Result<Vec<Address>, Error> {
        self.inner.frozen(shard, older_than_ms, limit).await
    }

    async fn is_fenced(&self, shard: Shard) -> Result<bool, Error> {
        self.inner.is_fenced(shard).await
    }

    async fn lift_fence(&self, shard: Shard) -> Result<bool, Error> {
        self.point().await;
        self.inner.lift_fence(shard).await
    }

    async fn journal(&self, address: &Address, field: &str, value: &[u8]) -> Result<Vec<u8>, Error> {
        self.point().await;
        let stored = self.inner.journal(address, field, value).await?;
        self.point().await;
        if self.loses_reply() { Err(Error::Retryable("the reply was lost".to_owned())) } else { Ok(stored) }
    }

    async fn journaled(&self, address: &Address, field: &str) -> Result<Option<Vec<u8>>, Error> {
        self.inner.journaled(address, field).await
    }

    async fn due_timers(&self, shard: Shard, limit: usize) -> Result<Vec<DueTimer>, Error> {
        self.inner.due_timers(shard, limit).await
    }

    async fn drop_timer(&self, timer: &DueTimer) -> Result<(), Error> {
        self.inner.drop_timer(timer).await
    }

    fn acknowledge(&self, entries: Vec<OutboxRef>) {
        self.inner.acknowledge(entries);
    }

    async fn flush_acknowledged(&self) -> Result<(), Error> {
        self.inner.flush_acknowledged().await
    }

    async fn pending_outbox(
        &self,
        shard: Shard,
        older_than_ms: u64,
        limit: usize,
    ) -> Result<Vec<(OutboxRef, OutboxEntry)>, Error> {
        self.inner.pending_outbox(shard, older_than_ms, limit).await
    }

    async fn lease(&self, shard: Shard, name: &str, owner: &str, ttl_ms: u64) -> Result<bool, Error> {
        self.inner.lease(shard, name, owner, ttl_ms).await
    }

    async fn list(
        &self,
        shard: Shard,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<(Vec<(Address, IndexEntry)>, Option<String>), Error> {
        self.inner.list(shard, cursor, limit).await
    }

    async fn expire(&self, shard: Shard, retention: &Retention, limit: usize) -> Result<usize, Error> {
        self.inner.expire(shard, retention, limit).await
    }

    async fn cluster_id(&self, shard: Shard) -> Result<Option<String>, Error> {
        self.inner.cluster_id(shard).await
    }

    async fn set_cluster_id(&self, shard: Shard, cluster_id: &str) -> Result<(), Error> {
        self.inner.set_cluster_id(shard, cluster_id).await
    }

    async fn check(&self, durability: Durability) -> Result<(), Error> {
        self.inner.check(durability).await
    }
}
