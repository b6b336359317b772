//! What a store does, in its own words. It knows versions, bytes and due times; it knows nothing of the protocol.

use async_trait::async_trait;
use protocol::{Basis, Digest, EffectKey, Epoch, EventId, InvocationId, Tenant, Timestamp, Version};
use serde::{Deserialize, Serialize};

/// An invocation's address. Its shard is a stable hash of both parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    pub tenant: Tenant,
    pub id: InvocationId,
}

/// A shard's number, below the store's fixed shard count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard(pub u16);

/// Which ledger entries a load brings along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entries {
    Keys(Vec<EffectKey>),
    All,
}

/// One atomic read of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The store's time when it was read.
    pub now: Timestamp,
    /// The shard's epoch.
    pub epoch: Epoch,
    /// See [`Store::is_fenced`]: what is loaded may be older than what was committed.
    pub fenced: bool,
    /// Present once anything was committed (a version-0 stub included).
    pub snapshot: Option<Snapshot>,
    /// The entries that were asked for and exist.
    pub entries: Vec<(EffectKey, Vec<u8>)>,
    /// The hash of the event at the version that was asked about, if that event is still kept.
    pub hash_at: Option<Digest>,
    /// Set while the invocation is frozen: the basis that proved a lost commit, and since when.
    pub frozen: Option<(Basis, Timestamp)>,
    /// Set once an ended invocation has expired: what remains of it until the horizon.
    pub tombstone: Option<Tombstone>,
}

/// What answering a turn needs: [`Store::load`], [`Store::journaled`] and [`Store::events`] together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLoaded {
    pub loaded: Loaded,
    pub answered: Option<Vec<u8>>,
    pub events: Vec<EventRecord>,
}

/// The state after the newest event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub version: Version,
    /// The newest event's hash; all zero at version 0.
    pub head: Digest,
    pub bytes: Vec<u8>,
}

/// One event, as it is kept for ever after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    pub version: Version,
    pub hash: Digest,
    pub bytes: Vec<u8>,
}

/// A message that must be published because of a commit; opaque to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEntry {
    pub event_id: EventId,
    pub bytes: Vec<u8>,
}

/// Identifies one stored outbox entry: its shard and the store's own ID in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxRef {
    pub shard: Shard,
    pub id: String,
}

/// A timer to set (`due` present) or to drop (`due` absent). `name` is unique inside its invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerChange {
    pub name: String,
    pub due: Option<Timestamp>,
}

/// A timer that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimer {
    pub address: Address,
    pub name: String,
    pub due: Timestamp,
}

/// How the per-shard index lists an invocation; used by `list`, by retention and by nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Open,
    Suspended,
    /// Ended, and some effect is still dispatched, unknown or reconciling: must not expire.
    EndedUnresolved,
    Ended,
}

/// What the index keeps of an invocation: bounded, and opaque but for the standing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    pub standing: Standing,
    /// Phase, terminal reason, task type, agent and times, as JSON, for people.
    pub summary: String,
}

/// What a tombstone keeps: enough to recognise an old request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The digest the commits brought; all zero when none did.
    pub request_digest: Digest,
    pub last: Basis,
    /// The index summary of the last commit, which names the terminal reason.
    pub reason: String,
}

/// One atomic change: *if the version is still `expected`, append these events, replace the snapshot, merge these
/// entries and timers, add these outbox entries*.
///
/// Well formed means: the events are numbered from the version after `expected` without a gap, the snapshot is at the
/// last one's version and hash, and only a stub (`expected: None`, version 0, head all zero) has none. A commit that is
/// not well formed is [`Error::Refused`]: without a new version, nobody else could notice it.
#[derive(Debug, Clone)]
pub struct Commit {
    pub address: Address,
    /// The version and head the decision was made on; `None` expects that nothing is stored, not even a stub or a tombstone.
    /// The head tells a store that was cut back and has gone another way to the same version.
    pub expected: Option<Basis>,
    /// The decision's time. The store refuses when its own clock is more than [`MAX_DECISION_AGE_MS`] past it.
    pub decided_at: Timestamp,
    pub events: Vec<EventRecord>,
    pub snapshot: Snapshot,
    /// Ledger entries to merge. An entry that is settled in the store is never replaced by one that is not: such a
    /// commit is [`Error::Refused`] whole.
    pub entries: Vec<EntryWrite>,
    pub timers: Vec<TimerChange>,
    pub outbox: Vec<OutboxEntry>,
    pub index: IndexEntry,
    /// Kept beside the snapshot from admission on, for the tombstone.
    pub request_digest: Option<Digest>,
    /// Present for a version-0 stub (a Cancel that overtook its request), and only then: how many stubs the tenant may
    /// have in a shard.
    pub stub_quota: Option<u32>,
    /// The commit of a rebuild: it expects a frozen invocation, clears the marker and raises the shard's epoch.
    pub thaws: bool,
}

/// One ledger entry to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryWrite {
    pub key: EffectKey,
    /// Committed or rejected: final.
    pub settled: bool,
    pub bytes: Vec<u8>,
}

/// A decision older than this, by the store's clock, is made again.
pub const MAX_DECISION_AGE_MS: u64 = 2_000;

/// What a commit came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// Written. One reference per outbox entry, in order.
    Done(Vec<OutboxRef>),
    /// Someone else committed first, or the decision is too old: load and decide again.
    Conflict,
    /// Frozen: only a rebuild goes on.
    Frozen,
    /// The shard is fenced: see [`Store::is_fenced`].
    Fenced,
    /// The tenant has too many stubs in this shard.
    OverQuota,
}

/// Why a store call failed. `Retryable` leaves the outcome of a commit unknown: load again and compare the hash.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("store unavailable: {0}")]
    Retryable(String),
    #[error("store data unreadable: {0}")]
    Corrupt(String),
    #[error("store refused: {0}")]
    Refused(String),
}

/// The seam between the protocol and where it is kept.
#[async_trait]
pub trait Store: Send + Sync {
    /// The fixed number of shards.
    fn shards(&self) -> u16;

    /// What this handle has done so far, for an exporter.
    fn stats(&self) -> &crate::Stats;

    /// The store's time.
    async fn now(&self) -> Result<Timestamp, Error>;

    /// Snapshot, entries, the hash of the event at `hash_at`, and the store's time, in one atomic read.
    async fn load(&self, address: &Address, entries: &Entries, hash_at: Option<Version>) -> Result<Loaded, Error>;

    /// See [`Commit`]. Atomic; validates everything before its first write. What is checked first decides the answer:
    /// fence, tombstone, frozen, version, decision age, quota, ledger.
    async fn commit(&self, commit: &Commit) -> Result<Committed, Error>;

    /// The events with versions in `from..=to`, in order; stops early where events are missing.
    async fn events(&self, address: &Address, from: Version, to: Version) -> Result<Vec<EventRecord>, Error>;

    /// Marks an invocation frozen, without a version change; a frozen one never expires. Does nothing if it already is,
    /// or if only its tombstone is left: a final end is never overruled.
    async fn freeze(&self, address: &Address, basis: Basis) -> Result<(), Error>;

    /// Clears a frozen marker of which nothing had to be rebuilt, and raises the shard's epoch. Does nothing where there is
    /// none. A new epoch is never one that a lost part of the store may have reached.
    async fn thaw(&self, address: &Address) -> Result<(), Error>;

    /// At most `limit` invocations of this shard that have been frozen for at least so long, longest first.
    async fn frozen(&self, shard: Shard, older_than_ms: u64, limit: usize) -> Result<Vec<Address>, Error>;

    /// Whether another server answers for the shard than the one that answered last (a restart, a failover): it may have lost
    /// commits. While it is fenced nothing is committed in it, so that it never goes another way than the one it has lost.
    async fn is_fenced(&self, shard: Shard) -> Result<bool, Error>;

    /// Lifts the fence, once everything that may be lost is known or frozen, and raises the shard's epoch. Answers whether
    /// the shard was fenced.
    async fn lift_fence(&self, shard: Shard) -> Result<bool, Error>;

    /// Writes `value` under `field` of the invocation's decision journal unless it is there; answers what is there now.
    /// Once a tombstone stands nothing is written any more, and `value` is answered as it came.
    async fn journal(&self, address: &Address, field: &str, value: &[u8]) -> Result<Vec<u8>, Error>;

    /// Reads the journal.
    async fn journaled(&self, address: &Address, field: &str) -> Result<Option<Vec<u8>>, Error>;

    /// A load without entries and with the hash at `to`, the journal's `field`, and the events in `from..=to`. Journal
    /// entries and events never change once written, so nothing is torn if a store reads them one after the other.
    async fn load_turn(&self, address: &Address, field: &str, from: Version, to: Version) -> Result<TurnLoaded, Error> {
        let loaded = self.load(address, &Entries::Keys(Vec::new()), Some(to)).await?;
        let answered = self.journaled(address, field).await?;
        let events = self.events(address, from, to).await?;
        Ok(TurnLoaded { loaded, answered, events })
    }

    /// At most `limit` timers of this shard that are due by the store's clock, earliest first. They stay until a commit
    /// or [`Store::drop_timer`] removes them.
    async fn due_timers(&self, shard: Shard, limit: usize) -> Result<Vec<DueTimer>, Error>;

    /// Removes a timer if it still has that due time.
    async fn drop_timer(&self, timer: &DueTimer) -> Result<(), Error>;

    /// Notes that the broker has acknowledged these entries. They are deleted by the shard's next commit or by
    /// [`Store::flush_acknowledged`], whichever comes first. The note is bounded: the oldest entries over the bound are
    /// left to the sweeper and counted.
    fn acknowledge(&self, entries: Vec<OutboxRef>);

    /// Deletes acknowledged entries now.
    async fn flush_acknowledged(&self) -> Result<(), Error>;

    /// At most `limit` outbox entries of this shard that were stored at least `older_than_ms` ago, oldest first.
    async fn pending_outbox(
        &self,
        shard: Shard,
        older_than_ms: u64,
        limit: usize,
    ) -> Result<Vec<(OutboxRef, OutboxEntry)>, Error>;

    /// Takes or extends the shard's lease `name` for `owner`; false while another owner holds it. `ttl_ms` is at least 1.
    async fn lease(&self, shard: Shard, name: &str, owner: &str, ttl_ms: u64) -> Result<bool, Error>;

    /// A page of the shard's index, and a cursor for the next page.
    async fn list(
        &self,
        shard: Shard,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<(Vec<(Address, IndexEntry)>, Option<String>), Error>;

    /// Expires what retention lets go in this shard and answers how many steps it took, at most `limit`: an ended
    /// invocation becomes a tombstone, a tombstone goes, a stub goes. Zero means that nothing is left to expire now. See
    /// [`Retention`].
    async fn expire(&self, shard: Shard, retention: &Retention, limit: usize) -> Result<usize, Error>;

    /// The Kafka cluster this shard last knew, if any.
    async fn cluster_id(&self, shard: Shard) -> Result<Option<String>, Error>;

    /// Records the Kafka cluster this shard now knows.
    async fn set_cluster_id(&self, shard: Shard, cluster_id: &str) -> Result<(), Error>;

    /// Checks at start that the store keeps what it acknowledges, and that its shard count is ours. A store that fails
    /// is [`Error::Refused`], and the message says what to set.
    async fn check(&self, durability: Durability) -> Result<(), Error>;
}

/// What may be taken for granted of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The settings are read and must be right.
    Strict,
    /// The settings cannot be read; the operator vouches for them.
    Attested,
    /// Not checked: tests only.
    Relaxed,
}

/// How long what is kept after an invocation has ended, counted from the commit that let it expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Events, journal and context, after the end.
    pub runs_ms: u64,
    /// Ledger and tombstone, after the end, and a stub after it was stored; the dedupe horizon.
    pub evidence_ms: u64,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
        Self { runs_ms: 7 * DAY_MS, evidence_ms: 30 * DAY_MS }
    }
}
