//! A script is not rolled back, so a commit that is refused, or fails, must not have written anything.

use std::collections::BTreeMap;

use turnwright_store::{Address, Commit, Committed, Error, RedisConfig, RedisStore, Standing, Store, shard_of};

use crate::server::{DURABLE, Server, shared};
use crate::support::{
    AT_ONCE, address, basis, block_on, commit, config, done, dump, entry, index, is_retryable, now, open, outgoing,
    step, stub, timer,
};

/// A commit that writes to every key a commit can write to.
async fn full(store: &dyn Store, address: &Address, version: u64) -> Commit {
    Commit {
        entries: vec![entry("k", false, b"x")],
        timers: vec![timer("t", Some(1)), timer("gone", None)],
        outbox: vec![outgoing(1)],
        index: index(Standing::Ended),
        request_digest: Some(basis(3).hash),
        ..commit(address, version, now(store).await)
    }
}

async fn leaves_no_trace(server: &Server, config: &RedisConfig, store: &RedisStore, commit: &Commit) -> Outcome {
    let before = dump(server, &config.prefix);
    let answer = store.commit(commit).await;
    assert_eq!(dump(server, &config.prefix), before, "{answer:?} wrote something");
    answer
}

type Outcome = Result<Committed, Error>;

#[test]
fn a_refused_commit_leaves_no_trace() {
    let server = shared();
    let config = config(&server);
    block_on(async {
        let store = open(&config).await;
        let (live, frozen, buried) = (address(1), address(2), address(3));
        let settled = Commit { entries: vec![entry("k", true, b"x")], ..commit(&live, 0, now(&store).await) };
        let refs = done(&store, &Commit { outbox: vec![outgoing(7)], ..settled }).await;
        step(&store, &frozen, 0).await;
        store.freeze(&frozen, basis(9)).await.unwrap();
        done(&store, &full(&store, &buried, 0).await).await;
        store.expire(shard_of(&buried, 2), &AT_ONCE, 9).await.unwrap();
        store.acknowledge(refs);

        let check = async |commit: Commit| leaves_no_trace(&server, &config, &store, &commit).await;
        assert_eq!(check(full(&store, &live, 5).await).await.unwrap(), Committed::Conflict);
        assert_eq!(check(full(&store, &buried, 0).await).await.unwrap(), Committed::Conflict);
        assert_eq!(check(full(&store, &buried, 1).await).await.unwrap(), Committed::Conflict);
        assert_eq!(check(full(&store, &frozen, 1).await).await.unwrap(), Committed::Frozen);
        let mut old = full(&store, &live, 1).await;
        old.decided_at.0 -= 10_000;
        assert_eq!(check(old).await.unwrap(), Committed::Conflict);
        let over = stub(&address(4), now(&store).await, 0);
        assert_eq!(check(over).await.unwrap(), Committed::OverQuota);
        assert!(matches!(check(full(&store, &live, 1).await).await, Err(Error::Refused(_))));
    });
}

#[test]
fn a_key_of_the_wrong_type_is_found_before_anything_is_written() {
    let server = shared();
    let at = address(1);
    let shard = shard_of(&at, 2).0;
    let member = format!("{}/{}", at.id, at.tenant);
    let of_it = ["invocation", "events", "ledger"].map(|noun| format!("{noun}:{member}"));
    let of_shard = ["outbox", "timers", "members", "ended", "evidence", "meta"].map(str::to_owned);
    for noun in of_it.into_iter().chain(of_shard) {
        let config = config(&server);
        block_on(async {
            let store = open(&config).await;
            let key = format!("{{{}:{shard}}}:{noun}", config.prefix);
            server.ask::<()>(redis::cmd("SET").arg(&key).arg("not what it should be"));
            let answer = leaves_no_trace(&server, &config, &store, &full(&store, &at, 0).await).await;
            assert!(matches!(answer, Err(Error::Corrupt(_))), "{noun}: {answer:?}");
        });
    }
}

#[test]
fn events_that_went_missing_are_corrupt_and_nothing_is_added_to_them() {
    let server = shared();
    let config = config(&server);
    block_on(async {
        let store = open(&config).await;
        step(&store, &address(1), 0).await;
        step(&store, &address(1), 1).await;
        let shard = shard_of(&address(1), 2).0;
        let events = format!("{{{}:{shard}}}:events:{}/acme", config.prefix, address(1).id);
        server.ask::<()>(redis::cmd("LPOP").arg(events).arg(1));
        let answer = leaves_no_trace(&server, &config, &store, &full(&store, &address(1), 2).await).await;
        assert!(matches!(answer, Err(Error::Corrupt(_))), "{answer:?}");
    });
}

#[test]
fn a_full_store_refuses_a_commit_whole_and_still_lets_go() {
    let server = Server::start(&DURABLE);
    let config = config(&server);
    block_on(async {
        let store = open(&config).await;
        let refs = done(&store, &full(&store, &address(1), 0).await).await;
        server.ask::<()>(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1));
        let next = full(&store, &address(2), 0).await;
        let answer = leaves_no_trace(&server, &config, &store, &next).await;
        assert!(is_retryable(&answer), "{answer:?}");
        store.acknowledge(refs);
        store.flush_acknowledged().await.unwrap();
        let shard = shard_of(&address(1), 2);
        assert!(store.pending_outbox(shard, 0, 9).await.unwrap().is_empty());
        assert_eq!(store.expire(shard, &AT_ONCE, 9).await.unwrap(), 1);
        server.ask::<()>(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(0));
        done(&store, &full(&store, &address(2), 0).await).await;
    });
}

#[test]
fn a_server_that_became_a_replica_is_retryable() {
    let server = Server::start(&DURABLE);
    let config = config(&server);
    block_on(async {
        let store = open(&config).await;
        step(&store, &address(1), 0).await;
        server.ask::<()>(redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1));
        let next = full(&store, &address(1), 1).await;
        let before = store.stats().read();
        assert!(is_retryable(&leaves_no_trace(&server, &config, &store, &next).await));
        let unavailable = |stats: [(&str, u64); 7]| BTreeMap::from(stats)["unavailable"];
        assert_eq!(unavailable(store.stats().read()), unavailable(before) + 1);
    });
}
