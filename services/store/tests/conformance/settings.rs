//! What a Redis store checks at start, and the bounds of its connection.

use std::sync::atomic::Ordering;

use futures::future::join_all;
use turnwright_store::{Durability, Error, RedisConfig, RedisStore, Store};

use crate::server::{DURABLE, Server, free_port, shared};
use crate::support::{address, block_on, config, fresh_prefix, is_retryable, memory, open, step};

#[test]
fn a_full_window_makes_calls_wait_and_counts_them() {
    let server = shared();
    block_on(async {
        let store = open(&RedisConfig { window: 1, ..config(&server) }).await;
        join_all((0..8).map(|n| step_of(&store, n))).await;
        assert!(store.stats().window_waits.load(Ordering::Relaxed) > 0);
        assert_eq!(store.stats().commits.load(Ordering::Relaxed), 8);
    });
}

async fn step_of(store: &dyn Store, n: u128) {
    step(store, &address(n), 0).await;
}

#[test]
fn a_script_that_the_server_forgot_is_sent_again() {
    let server = Server::start(&DURABLE);
    block_on(async {
        let store = open(&config(&server)).await;
        step(&store, &address(1), 0).await;
        let before = store.stats().retries.load(Ordering::Relaxed);
        server.ask::<()>(redis::cmd("SCRIPT").arg("FLUSH"));
        step(&store, &address(1), 1).await;
        assert!(store.stats().retries.load(Ordering::Relaxed) > before);
        let after = store.stats().retries.load(Ordering::Relaxed);
        step(&store, &address(1), 2).await;
        assert_eq!(store.stats().retries.load(Ordering::Relaxed), after);
    });
}

#[test]
fn a_store_that_would_lose_commits_is_refused_with_what_to_set() {
    let server =
        Server::start(&["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "allkeys-lru"]);
    block_on(async {
        let store = open(&config(&server)).await;
        let error = store.check(Durability::Strict).await.unwrap_err().to_string();
        assert!(error.contains("set appendfsync to always (it is everysec)"), "{error}");
        assert!(error.contains("set maxmemory-policy to noeviction (it is allkeys-lru)"), "{error}");
        assert!(!error.contains("appendonly"), "{error}");
        store.check(Durability::Attested).await.unwrap();
        store.check(Durability::Relaxed).await.unwrap();
    });
    block_on(async { open(&config(&shared())).await.check(Durability::Strict).await.unwrap() });
    assert!(matches!(block_on(memory().0.check(Durability::Strict)), Err(Error::Refused(_))));
}

#[test]
fn a_store_that_hides_its_settings_must_be_attested() {
    let server = Server::start(&[&DURABLE[..], &["--rename-command", "CONFIG", ""]].concat());
    block_on(async {
        let store = open(&config(&server)).await;
        let error = store.check(Durability::Strict).await.unwrap_err();
        assert!(matches!(&error, Error::Refused(why) if why.contains("attested")), "{error}");
        store.check(Durability::Attested).await.unwrap();
    });
}

#[test]
fn every_node_of_a_cluster_is_checked() {
    let server = Server::start_cluster();
    let url = format!("redis+cluster://127.0.0.1:{}", server.port);
    block_on(async {
        let store = open(&RedisConfig { prefix: fresh_prefix(), ..RedisConfig::new(url) }).await;
        store.check(Durability::Strict).await.unwrap();
        server.ask::<()>(redis::cmd("CONFIG").arg("SET").arg("appendfsync").arg("everysec"));
        assert!(matches!(store.check(Durability::Strict).await, Err(Error::Refused(_))));
    });
}

#[test]
fn another_shard_count_is_refused() {
    let server = shared();
    let first = config(&server);
    block_on(async {
        open(&first).await.check(Durability::Strict).await.unwrap();
        open(&first).await.check(Durability::Strict).await.unwrap();
        let other = RedisConfig { shards: 3, ..first };
        let error = open(&other).await.check(Durability::Relaxed).await.unwrap_err();
        assert!(matches!(&error, Error::Refused(why) if why.contains("set store.shards to 2")), "{error}");
    });
}

#[test]
fn a_server_that_is_not_there_is_retryable() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    assert!(is_retryable(&block_on(RedisStore::open(&RedisConfig::new(url)))));
}
