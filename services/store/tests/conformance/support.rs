//! Small commits for named tests, and a store on either side to try them on.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use protocol::{Basis, Digest, EffectKey, EventId, InvocationId, Timestamp, Version};
use turnwright_store::{
    Address, Commit, Committed, Entries, EntryWrite, Error, EventRecord, IndexEntry, Loaded, MemoryStore, OutboxEntry,
    OutboxRef, RedisConfig, RedisStore, Retention, Shard, Snapshot, Standing, Store, TimerChange, shard_of,
};
use uuid::Uuid;

use crate::server::{Server, shared};

pub const FOREVER: u64 = 1_000_000_000_000;

/// Runs a future on the runtime that all tests share, so that a connection outlives the call that made it.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Runtime::new().expect("a runtime")).block_on(future)
}

/// A prefix that no other test of this process uses.
pub fn fresh_prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn config(server: &Server) -> RedisConfig {
    RedisConfig { prefix: fresh_prefix(), shards: 2, ..RedisConfig::new(server.url()) }
}

pub async fn open(config: &RedisConfig) -> RedisStore {
    RedisStore::open(config).await.expect("the server takes connections")
}

/// A memory store whose clock moves one millisecond whenever it is read, and the clock.
pub fn memory() -> (MemoryStore, Arc<AtomicI64>) {
    let clock = Arc::new(AtomicI64::new(1_700_000_000_000));
    let reader = clock.clone();
    (MemoryStore::new(2, Arc::new(move || Timestamp(reader.fetch_add(1, Ordering::Relaxed)))), clock)
}

/// Runs a case on both stores.
pub fn on_both(case: impl AsyncFn(&dyn Store)) {
    block_on(case(&memory().0));
    let server = shared();
    block_on(async { case(&open(&config(&server)).await).await });
}

pub fn address(n: u128) -> Address {
    Address { tenant: "acme".into(), id: InvocationId(Uuid::from_u128(n)) }
}

pub fn hash(n: u64) -> Digest {
    Digest::of("test", &[&n.to_be_bytes()])
}

/// A commit of one event on top of `version` (0: the first one). Its bytes contain what text may not.
pub fn commit(address: &Address, version: u64, now: Timestamp) -> Commit {
    let next = Version(version + 1);
    Commit {
        address: address.clone(),
        expected: (version > 0).then_some(Basis { version: Version(version), hash: hash(version) }),
        decided_at: now,
        events: vec![EventRecord { version: next, hash: hash(next.0), bytes: b"\0event\r\n\xff".to_vec() }],
        snapshot: Snapshot { version: next, head: hash(next.0), bytes: next.0.to_be_bytes().to_vec() },
        entries: Vec::new(),
        timers: Vec::new(),
        outbox: Vec::new(),
        index: index(Standing::Open),
        request_digest: None,
        stub_quota: None,
        thaws: false,
    }
}

pub fn index(standing: Standing) -> IndexEntry {
    IndexEntry { standing, summary: "{\"reason\":\"completed\"}".into() }
}

pub fn stub(address: &Address, now: Timestamp, quota: u32) -> Commit {
    Commit {
        events: Vec::new(),
        snapshot: Snapshot { version: Version(0), head: Digest::default(), bytes: b"stub".to_vec() },
        stub_quota: Some(quota),
        ..commit(address, 0, now)
    }
}

pub fn entry(key: &str, settled: bool, bytes: &[u8]) -> EntryWrite {
    EntryWrite { key: EffectKey::from(key), settled, bytes: bytes.to_vec() }
}

pub fn outgoing(n: u128) -> OutboxEntry {
    OutboxEntry { event_id: EventId(Uuid::from_u128(n)), bytes: b"out\0\xfe".to_vec() }
}

pub fn timer(name: &str, due: Option<i64>) -> TimerChange {
    TimerChange { name: name.into(), due: due.map(Timestamp) }
}

pub fn basis(n: u64) -> Basis {
    Basis { version: Version(n), hash: hash(n) }
}

pub async fn load(store: &dyn Store, address: &Address) -> Loaded {
    store.load(address, &Entries::All, None).await.expect("loads")
}

pub async fn now(store: &dyn Store) -> Timestamp {
    store.now().await.expect("tells its time")
}

/// Commits what must be written.
pub async fn done(store: &dyn Store, commit: &Commit) -> Vec<OutboxRef> {
    match store.commit(commit).await {
        Ok(Committed::Done(refs)) => refs,
        other => panic!("expected a written commit, got {other:?}"),
    }
}

/// Commits a plain event on top of `version`.
pub async fn step(store: &dyn Store, address: &Address, version: u64) {
    done(store, &commit(address, version, now(store).await)).await;
}

pub const AT_ONCE: Retention = Retention { runs_ms: 0, evidence_ms: FOREVER };

/// Every key under a prefix, with its whole content.
pub fn dump(server: &Server, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let keys: Vec<String> = server.ask(redis::cmd("KEYS").arg(format!("{{{prefix}[:}}]*")));
    keys.into_iter().map(|key| (key.clone(), server.ask(redis::cmd("DUMP").arg(&key)))).collect()
}

pub fn is_retryable<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Retryable(_)))
}

/// The shard of an address in this store.
pub fn shard(store: &dyn Store, address: &Address) -> Shard {
    shard_of(address, store.shards())
}
