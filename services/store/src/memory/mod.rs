//! The store in memory: deterministic, with an injected clock. For simulations, tests, and a `dev` without Redis; what
//! it acknowledged is gone when the process is.

mod commit;
mod read;
mod retention;
mod state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use protocol::{Basis, Timestamp, Version};

pub use self::read::Settled;
use self::state::State;
use crate::acknowledged::Acknowledged;
use crate::{
    Address, Commit, Committed, DueTimer, Durability, Entries, Error, EventRecord, IndexEntry, Loaded, OutboxEntry,
    OutboxRef, Retention, Shard, Stats, Store, shard_of,
};

/// Where the time comes from.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A handle; clones share one store.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

struct Inner {
    shards: u16,
    clock: Clock,
    state: Mutex<State>,
    acknowledged: Acknowledged,
    stats: Stats,
    /// Survives what the state does not.
    incarnation: AtomicU64,
}

/// Everything that a store held at one moment.
#[derive(Debug, Clone)]
pub struct Image(State);

impl MemoryStore {
    /// An empty store with so many shards (at least 1), which takes its time from `clock`.
    pub fn new(shards: u16, clock: Clock) -> Self {
        let shards = shards.max(1);
        let state = Mutex::new(State::new(shards));
        let (acknowledged, stats) = (Acknowledged::new(shards), Stats::default());
        let incarnation = AtomicU64::new(0);
        Self { inner: Arc::new(Inner { shards, clock, state, acknowledged, stats, incarnation }) }
    }

    /// Raises a shard's epoch, as a rebuild does.
    pub fn raise_epoch(&self, shard: Shard) {
        let now = self.time();
        if let Ok(shard) = self.state().shard_mut(shard) {
            shard.raise_epoch(now);
        }
    }

    /// All that is stored now, for [`MemoryStore::cut_back`].
    pub fn image(&self) -> Image {
        Image(self.state().clone())
    }

    /// Loses everything since `image`, as a failover or a power loss may: another server answers from now on.
    pub fn cut_back(&self, image: &Image) {
        *self.state() = image.0.clone();
        self.lose_acknowledged();
        self.inner.incarnation.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets which outbox entries were acknowledged, as a crash of the process that published them does.
    pub fn lose_acknowledged(&self) {
        self.inner.acknowledged.clear();
    }

    fn incarnation(&self) -> u64 {
        self.inner.incarnation.load(Ordering::Relaxed)
    }

    fn shard_of(&self, address: &Address) -> Shard {
        shard_of(address, self.inner.shards)
    }

    fn time(&self) -> Timestamp {
        (self.inner.clock)()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn shards(&self) -> u16 {
        self.inner.shards
    }

    fn stats(&self) -> &Stats {
        &self.inner.stats
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.time())
    }

    async fn load(&self, address: &Address, entries: &Entries, hash_at: Option<Version>) -> Result<Loaded, Error> {
        let (now, state) = (self.time(), self.state());
        let shard = state.shard(self.shard_of(address))?;
        let (epoch, fenced) = (shard.epoch, shard.is_fenced(self.incarnation()));
        Ok(match state.invocations.get(address) {
            Some(invocation) => invocation.load(now, (epoch, fenced), entries, hash_at),
            None => Loaded { now, epoch, fenced, ..state::nothing() },
        })
    }

    async fn commit(&self, commit: &Commit) -> Result<Committed, Error> {
        crate::well_formed::check(commit)?;
        self.commit_checked(commit)
    }

    async fn events(&self, address: &Address, from: Version, to: Version) -> Result<Vec<EventRecord>, Error> {
        let state = self.state();
        let Some(invocation) = state.invocations.get(address) else {
            return Ok(Vec::new());
        };
        let wanted = invocation.events.iter().filter(|event| (from..=to).contains(&event.version));
        Ok(wanted.cloned().collect())
    }

    async fn freeze(&self, address: &Address, basis: Basis) -> Result<(), Error> {
        let now = self.time();
        let mut state = self.state();
        let invocation = state.invocations.entry(address.clone()).or_default();
        if invocation.tombstone.is_none() {
            invocation.frozen.get_or_insert((basis, now));
        }
        Ok(())
    }

    async fn thaw(&self, address: &Address) -> Result<(), Error> {
        let now = self.time();
        let mut state = self.state();
        let Some(invocation) = state.invocations.get_mut(address).filter(|it| it.frozen.is_some()) else {
            return Ok(());
        };
        invocation.frozen = None;
        state.shard_mut(self.shard_of(address))?.raise_epoch(now);
        Ok(())
    }

    async fn frozen(&self, shard: Shard, older_than_ms: u64, limit: usize) -> Result<Vec<Address>, Error> {
        let (now, state) = (self.time(), self.state());
        state.shard(shard)?;
        let frozen = state.invocations.iter().filter_map(|(address, it)| Some((it.frozen?.1, address.clone())));
        let old = |(since, address): &(Timestamp, Address)| {
            self.shard_of(address) == shard && now >= since.plus_ms(older_than_ms)
        };
        let mut frozen: Vec<_> = frozen.filter(old).collect();
        frozen.sort();
        Ok(frozen.into_iter().take(limit).map(|(_, address)| address).collect())
    }

    async fn is_fenced(&self, shard: Shard) -> Result<bool, Error> {
        Ok(self.state().shard(shard)?.is_fenced(self.incarnation()))
    }

    async fn lift_fence(&self, shard: Shard) -> Result<bool, Error> {
        let (now, incarnation) = (self.time(), self.incarnation());
        let mut state = self.state();
        let shard = state.shard_mut(shard)?;
        let fenced = shard.is_fenced(incarnation);
        if fenced {
            shard.server = incarnation;
            shard.raise_epoch(now);
        }
        Ok(fenced)
    }

    async fn journal(&self, address: &Address, field: &str, value: &[u8]) -> Result<Vec<u8>, Error> {
        let mut state = self.state();
        let invocation = state.invocations.entry(address.clone()).or_default();
        if invocation.tombstone.is_some() {
            return Ok(value.to_vec());
        }
        Ok(invocation.journal.entry(field.to_owned()).or_insert_with(|| value.to_vec()).clone())
    }

    async fn journaled(&self, address: &Address, field: &str) -> Result<Option<Vec<u8>>, Error> {
        let state = self.state();
        Ok(state.invocations.get(address).and_then(|invocation| invocation.journal.get(field).cloned()))
    }

    async fn due_timers(&self, shard: Shard, limit: usize) -> Result<Vec<DueTimer>, Error> {
        let (now, state) = (self.time(), self.state());
        let timers = state.shard(shard)?.timers.iter().filter(|(_, due)| **due <= now);
        let mut due: Vec<_> = timers
            .map(|((address, name), due)| DueTimer { address: address.clone(), name: name.clone(), due: *due })
            .collect();
        due.sort_by_key(|timer| timer.due);
        due.truncate(limit);
        Ok(due)
    }

    async fn drop_timer(&self, timer: &DueTimer) -> Result<(), Error> {
        let mut state = self.state();
        let timers = &mut state.shard_mut(self.shard_of(&timer.address))?.timers;
        let key = (timer.address.clone(), timer.name.clone());
        if timers.get(&key) == Some(&timer.due) {
            timers.remove(&key);
        }
        Ok(())
    }

    fn acknowledge(&self, entries: Vec<OutboxRef>) {
        self.inner.acknowledged.note(entries, &self.inner.stats);
    }

    async fn flush_acknowledged(&self) -> Result<(), Error> {
        let mut state = self.state();
        for shard in (0..self.inner.shards).map(Shard) {
            let ids = self.inner.acknowledged.take(shard, usize::MAX);
            state.shard_mut(shard)?.delete_outbox(&ids);
        }
        Ok(())
    }

    async fn pending_outbox(
        &self,
        shard: Shard,
        older_than_ms: u64,
        limit: usize,
    ) -> Result<Vec<(OutboxRef, OutboxEntry)>, Error> {
        let (now, state) = (self.time(), self.state());
        let old = |stored_ms: u64| now.ms_since(Timestamp(i64::try_from(stored_ms).unwrap_or(i64::MAX)));
        let outbox = state.shard(shard)?.outbox.iter();
        let pending =
            outbox.filter(|((ms, _), _)| *ms <= u64::try_from(now.0).unwrap_or(0) && old(*ms) >= older_than_ms);
        Ok(pending.take(limit).map(|(id, entry)| (state::outbox_ref(shard, *id), entry.clone())).collect())
    }

    async fn lease(&self, shard: Shard, name: &str, owner: &str, ttl_ms: u64) -> Result<bool, Error> {
        let now = self.time();
        let mut state = self.state();
        let leases = &mut state.shard_mut(shard)?.leases;
        let free = leases.get(name).is_none_or(|(holder, until)| holder == owner || *until <= now);
        if free {
            leases.insert(name.to_owned(), (owner.to_owned(), now.plus_ms(ttl_ms.max(1))));
        }
        Ok(free)
    }

    async fn list(
        &self,
        shard: Shard,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<(Vec<(Address, IndexEntry)>, Option<String>), Error> {
        self.page(shard, cursor, limit)
    }

    async fn expire(&self, shard: Shard, retention: &Retention, limit: usize) -> Result<usize, Error> {
        self.expire_some(shard, retention, limit)
    }

    async fn cluster_id(&self, shard: Shard) -> Result<Option<String>, Error> {
        Ok(self.state().shard(shard)?.cluster_id.clone())
    }

    async fn set_cluster_id(&self, shard: Shard, cluster_id: &str) -> Result<(), Error> {
        self.state().shard_mut(shard)?.cluster_id = Some(cluster_id.to_owned());
        Ok(())
    }

    /// Passes when the store is declared [`Durability::Relaxed`]; memory is never durable.
    async fn check(&self, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Relaxed => Ok(()),
            Durability::Strict | Durability::Attested => Err(Error::Refused(
                "the in-memory store keeps nothing over a restart; use Redis, or set store.durability to relaxed"
                    .into(),
            )),
        }
    }
}
