//! What must be true when a reply is lost, a future is dropped, or the server is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures::FutureExt;
use protocol::Version;
use turnwright_store::{Commit, Committed, Entries, RedisConfig, Store, shard_of};

use crate::proxy::Proxy;
use crate::server::{DEADLINE, DURABLE, Server, shared};
use crate::support::{
    address, block_on, commit, config, done, fresh_prefix, is_retryable, load, now, open, outgoing, step,
};

/// The outcome of a commit whose reply is lost is unknown; the hash at its own version tells, and sending it again is a
/// conflict, never a second event.
async fn lost_reply(server: &Server, scheme: &str) {
    let proxy = Proxy::start(server.port).await;
    server.ask::<()>(redis::cmd("CONFIG").arg("SET").arg("cluster-announce-port").arg(proxy.port));
    let url = format!("{scheme}://127.0.0.1:{}", proxy.port);
    let store = open(&RedisConfig { prefix: fresh_prefix(), shards: 2, ..RedisConfig::new(url) }).await;
    let at = address(1);
    let refs = done(&store, &Commit { outbox: vec![outgoing(1)], ..commit(&at, 0, now(&store).await) }).await;
    store.acknowledge(refs);
    let next = commit(&at, 1, now(&store).await);
    proxy.lose_next_reply();
    let answer = store.commit(&next).await;
    assert!(proxy.has_bitten(), "no reply was lost");
    assert!(is_retryable(&answer), "{answer:?}");

    let start = Instant::now();
    let loaded = loop {
        match store.load(&at, &Entries::All, Some(next.snapshot.version)).await {
            Ok(loaded) => break loaded,
            Err(error) => assert!(start.elapsed() < DEADLINE, "{error}"),
        }
    };
    assert_eq!(loaded.hash_at, Some(next.snapshot.head));
    assert_eq!(store.commit(&next).await.unwrap(), Committed::Conflict);
    assert_eq!(store.events(&at, Version(1), Version(9)).await.unwrap().len(), 2);
    // What was acknowledged before is still known, and deleting it twice does no harm.
    store.flush_acknowledged().await.unwrap();
    assert!(store.pending_outbox(shard_of(&at, 2), 0, 9).await.unwrap().is_empty());
    step(&store, &at, 2).await;
}

#[test]
fn a_commit_whose_reply_was_lost_is_retryable_and_recognised_by_its_hash() {
    let server = shared();
    block_on(lost_reply(&server, "redis"));
}

/// The node announces the proxy's port, so that the cluster's client stays on the proxy.
#[test]
fn a_commit_whose_reply_was_lost_by_a_cluster_is_not_sent_again_behind_our_back() {
    let server = Server::start_cluster();
    block_on(lost_reply(&server, "redis+cluster"));
}

#[test]
fn a_server_that_never_answers_is_retryable_after_the_response_timeout() {
    let server = Server::start(&DURABLE);
    block_on(async {
        let store = open(&RedisConfig { response_timeout_ms: 200, ..config(&server) }).await;
        step(&store, &address(1), 0).await;
        server.ask::<()>(redis::cmd("CLIENT").arg("PAUSE").arg(2_000).arg("WRITE"));
        let next = commit(&address(1), 1, now(&store).await);
        assert!(is_retryable(&store.commit(&next).await));
        server.ask::<()>(redis::cmd("CLIENT").arg("UNPAUSE"));
        let start = Instant::now();
        while load(&store, &address(1)).await.snapshot.unwrap().version != Version(2) {
            assert!(start.elapsed() < DEADLINE, "a commit that was sent is written in the end");
        }
    });
}

#[test]
fn an_abandoned_commit_gives_back_what_it_had_taken() {
    let server = shared();
    block_on(async {
        let store = open(&config(&server)).await;
        let at = address(1);
        let outbox = vec![outgoing(1)];
        let refs = done(&store, &Commit { outbox, ..commit(&at, 0, now(&store).await) }).await;
        store.acknowledge(refs);
        let next = commit(&at, 1, now(&store).await);
        assert!(store.commit(&next).now_or_never().is_none(), "a commit takes a round trip");
        store.flush_acknowledged().await.unwrap();
        assert!(store.pending_outbox(shard_of(&at, 2), 0, 9).await.unwrap().is_empty());
    });
}

#[test]
fn a_killed_server_keeps_every_acknowledged_commit_and_the_handle_finds_it_again() {
    let server = Server::start(&DURABLE);
    block_on(async {
        let store = Arc::new(open(&config(&server)).await);
        let acknowledged: Arc<[AtomicU64]> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let writers: Vec<_> = (0..8)
            .map(|n| {
                let (store, acknowledged) = (store.clone(), acknowledged.clone());
                tokio::spawn(async move {
                    let at = address(n as u128);
                    for version in 0.. {
                        let Ok(now) = store.now().await else { return };
                        match store.commit(&commit(&at, version, now)).await {
                            Ok(Committed::Done(_)) => acknowledged[n].store(version + 1, Ordering::SeqCst),
                            answer => {
                                assert!(is_retryable(&answer), "{answer:?}");
                                return;
                            }
                        }
                    }
                })
            })
            .collect();
        let start = Instant::now();
        while acknowledged.iter().any(|it| it.load(Ordering::SeqCst) < 20) {
            assert!(start.elapsed() < DEADLINE, "the writers are stuck");
            tokio::task::yield_now().await;
        }
        server.kill_and_restart();
        for writer in writers {
            writer.await.unwrap();
        }
        for (n, version) in acknowledged.iter().enumerate() {
            let at = address(n as u128);
            let start = Instant::now();
            let loaded = loop {
                match store.load(&at, &Entries::All, None).await {
                    Ok(loaded) => break loaded,
                    Err(error) => assert!(start.elapsed() < DEADLINE, "{error}"),
                }
            };
            let kept = loaded.snapshot.expect("a commit was acknowledged").version.0;
            assert!(kept >= version.load(Ordering::SeqCst), "lost an acknowledged commit");
            assert_eq!(store.events(&at, Version(1), Version(u64::MAX)).await.unwrap().len() as u64, kept);
        }
    });
}
