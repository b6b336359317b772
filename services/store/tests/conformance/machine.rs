//! Drives a store and the model with the same random history, and compares all that can be read after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use protocol::{Basis, EventId, Timestamp, Version};
use turnwright_store::{
    Address, Committed, DueTimer, Entries, Error, IndexEntry, MemoryStore, OutboxRef, RedisConfig, Retention, Shard,
    Store, shard_of,
};

use crate::model::{Call, Life, Model, Outcome, Run, SHARDS, addresses};
use crate::server::{Server, shared};
use crate::support::{block_on, config, fresh_prefix, memory, open};

const ALL: usize = 1_000;

/// Makes an empty store.
trait Backend {
    type Server;
    fn fresh(server: &Self::Server) -> Arc<dyn Store>;
    fn server() -> Self::Server;
}

struct Memory;
struct Single;
struct Cluster;

impl Backend for Memory {
    type Server = ();
    fn fresh((): &()) -> Arc<dyn Store> {
        let store: MemoryStore = memory().0;
        Arc::new(store)
    }
    fn server() {}
}

impl Backend for Single {
    type Server = Arc<Server>;
    fn fresh(server: &Arc<Server>) -> Arc<dyn Store> {
        Arc::new(block_on(open(&config(server))))
    }
    fn server() -> Arc<Server> {
        shared()
    }
}

impl Backend for Cluster {
    type Server = Server;
    fn fresh(server: &Server) -> Arc<dyn Store> {
        let url = format!("redis+cluster://127.0.0.1:{}", server.port);
        Arc::new(block_on(open(&RedisConfig { prefix: fresh_prefix(), shards: SHARDS, ..RedisConfig::new(url) })))
    }
    fn server() -> Server {
        Server::start_cluster()
    }
}

struct Suite<B>(PhantomData<B>);

struct System {
    store: Arc<dyn Store>,
    refs: BTreeMap<EventId, OutboxRef>,
}

impl<B: Backend> Suite<B> {
    fn run(cases: u32) {
        let server = B::server();
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let histories = Model::sequential_strategy(1..40);
        let mut runner = TestRunner::new(config);
        let result = runner.run(&histories, |(mut model, steps, seen)| {
            let mut system = System { store: B::fresh(&server), refs: BTreeMap::new() };
            for step in steps {
                if let Some(seen) = &seen {
                    seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
                model = Model::apply(model, &step);
                system = Self::apply(system, &model, step);
                Self::check_invariants(&system, &model);
            }
            Ok(())
        });
        if let Err(error) = result {
            panic!("{error}");
        }
    }
}

impl<B: Backend> StateMachineTest for Suite<B> {
    type SystemUnderTest = System;
    type Reference = Model;

    fn init_test(_: &Model) -> System {
        System { store: B::fresh(&B::server()), refs: BTreeMap::new() }
    }

    fn apply(mut system: System, model: &Model, _: <Model as ReferenceStateMachine>::Transition) -> System {
        let call = model.call.clone().expect("the model made the step concrete");
        block_on(make(&mut system, call));
        system
    }

    fn check_invariants(system: &System, model: &Model) {
        block_on(async {
            for address in addresses() {
                compare_run(&*system.store, &address, &model.runs.get(&address).cloned().unwrap_or_default()).await;
            }
            for shard in (0..SHARDS).map(Shard) {
                compare_shard(&*system.store, shard, model).await;
            }
        });
    }
}

async fn make(system: &mut System, call: Call) {
    let store = &*system.store;
    match call {
        Call::Commit { mut commit, stale, outcome } => {
            let now = store.now().await.unwrap();
            commit.decided_at = Timestamp(if stale { now.0 - 10_000 } else { now.0 });
            let answer = store.commit(&commit).await;
            match (outcome, answer) {
                (Outcome::Done, Ok(Committed::Done(refs))) => {
                    assert_eq!(refs.len(), commit.outbox.len());
                    let ids = commit.outbox.iter().map(|entry| entry.event_id);
                    system.refs.extend(ids.zip(refs));
                }
                (Outcome::Conflict, Ok(Committed::Conflict))
                | (Outcome::Frozen, Ok(Committed::Frozen))
                | (Outcome::OverQuota, Ok(Committed::OverQuota))
                | (Outcome::Refused, Err(Error::Refused(_))) => {}
                (outcome, answer) => panic!("expected {outcome:?}, got {answer:?}"),
            }
        }
        Call::Freeze(address, basis) => store.freeze(&address, basis).await.unwrap(),
        Call::Thaw(address) => store.thaw(&address).await.unwrap(),
        Call::Journal { address, value, answer } => {
            assert_eq!(store.journal(&address, "decision", &value).await.unwrap(), answer);
        }
        Call::DropTimer { address, name, due } => {
            store.drop_timer(&DueTimer { address, name, due: Timestamp(due) }).await.unwrap();
        }
        Call::Acknowledge(ids) => store.acknowledge(ids.iter().map(|id| system.refs[id].clone()).collect()),
        Call::Flush => store.flush_acknowledged().await.unwrap(),
        Call::Expire { shard, runs_ms, evidence_ms, answer } => {
            let retention = Retention { runs_ms, evidence_ms };
            assert_eq!(store.expire(shard, &retention, ALL).await.unwrap(), answer);
        }
        Call::Lease { shard, owner, answer } => {
            assert_eq!(store.lease(shard, "relay", &owner, 3_600_000).await.unwrap(), answer);
        }
        Call::SetCluster(shard, id) => store.set_cluster_id(shard, &id).await.unwrap(),
    }
}

async fn compare_run(store: &dyn Store, address: &Address, run: &Run) {
    let loaded = store.load(address, &Entries::All, Some(run.snapshot.version)).await.unwrap();
    let stored = matches!(run.life, Life::Stub | Life::Live).then(|| run.snapshot.clone());
    assert_eq!(loaded.snapshot, stored);
    assert_eq!(loaded.hash_at, run.events.last().map(|event| event.hash));
    assert_eq!(loaded.frozen.map(|(basis, _)| basis), run.frozen);
    let tombstone = loaded.tombstone.map(|it| (it.request_digest, it.last, it.reason));
    let last = Basis { version: run.snapshot.version, hash: run.snapshot.head };
    let expected = (run.life == Life::Tombstone).then(|| (run.request, last, run.index.summary.clone()));
    assert_eq!(tombstone, expected);
    let entries: BTreeMap<_, _> = loaded.entries.into_iter().map(|(key, bytes)| (key.to_string(), bytes)).collect();
    let expected: BTreeMap<_, _> = run.entries.iter().map(|(key, (_, bytes))| (key.clone(), bytes.clone())).collect();
    assert_eq!(entries, expected);
    assert_eq!(store.events(address, Version(0), Version(u64::MAX)).await.unwrap(), run.events);
    let middle = store.events(address, Version(2), Version(3)).await.unwrap();
    assert_eq!(middle, run.events.iter().skip(1).take(2).cloned().collect::<Vec<_>>());
    assert_eq!(store.journaled(address, "decision").await.unwrap(), run.journal);
}

async fn compare_shard(store: &dyn Store, shard: Shard, model: &Model) {
    let frozen: BTreeSet<_> = store.frozen(shard, 0, ALL).await.unwrap().into_iter().collect();
    let runs = model.runs.iter().filter(|(address, run)| shard_of(address, SHARDS) == shard && run.frozen.is_some());
    assert_eq!(frozen, runs.map(|(address, _)| address.clone()).collect());
    let due = store.due_timers(shard, ALL).await.unwrap();
    assert_eq!(due.into_iter().map(|timer| (timer.address, timer.name)).collect::<BTreeSet<_>>(), model.due(shard));
    let pending = store.pending_outbox(shard, 0, ALL).await.unwrap();
    let expected: Vec<_> = model.outbox.iter().filter(|(of, _)| *of == shard).map(|(_, entry)| entry.clone()).collect();
    assert_eq!(pending.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>(), expected);
    assert!(store.pending_outbox(shard, 3_600_000, ALL).await.unwrap().is_empty());
    let listed = |run: &Run| matches!(run.life, Life::Stub | Life::Live);
    let here = model.runs.iter().filter(|(address, run)| shard_of(address, SHARDS) == shard && listed(run));
    let expected: BTreeMap<_, _> = here.map(|(address, run)| (address.clone(), run.index.clone())).collect();
    assert_eq!(list_all(store, shard).await, expected);
    assert_eq!(store.cluster_id(shard).await.unwrap(), model.clusters.get(&shard).cloned());
}

/// Every page of the index; no address may come twice.
async fn list_all(store: &dyn Store, shard: Shard) -> BTreeMap<Address, IndexEntry> {
    let (mut all, mut cursor) = (BTreeMap::new(), None);
    loop {
        let (page, next) = store.list(shard, cursor, 2).await.unwrap();
        for (address, entry) in page {
            assert!(all.insert(address, entry).is_none(), "listed twice");
        }
        match next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

#[test]
fn memory_answers_as_the_model_does() {
    Suite::<Memory>::run(256);
}

#[test]
fn redis_answers_as_the_model_does() {
    Suite::<Single>::run(32);
}

/// A cluster refuses a script whose keys are in different slots, so this also proves that no call mixes shards.
#[test]
fn a_redis_cluster_answers_as_the_model_does() {
    Suite::<Cluster>::run(16);
}
