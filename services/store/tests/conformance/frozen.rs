//! Frozen invocations, epochs, and a store that was cut back.

use protocol::{Basis, Epoch, Version};
use turnwright_store::{Commit, Committed, RedisConfig, Shard, Standing, Store, shard_of};

use crate::server::{DURABLE, Server};
use crate::support::{
    address, basis, block_on, commit, config, done, fresh_prefix, hash, index, load, memory, now, on_both, open, shard,
    step,
};

fn here(store: &dyn Store) -> Shard {
    shard_of(&address(1), store.shards())
}

/// What a rebuild writes on top of `version`.
async fn thawing(store: &dyn Store, version: u64) -> Commit {
    Commit { thaws: true, ..commit(&address(1), version, now(store).await) }
}

#[test]
fn only_the_commit_of_a_rebuild_thaws_and_it_raises_the_epoch() {
    on_both(async |store| {
        step(store, &address(1), 0).await;
        store.freeze(&address(1), basis(9)).await.unwrap();
        assert_eq!(store.frozen(here(store), 0, 9).await.unwrap(), [address(1)]);
        assert_eq!(store.frozen(here(store), 3_600_000, 9).await.unwrap(), [], "not for so long");
        assert_eq!(store.frozen(here(store), 0, 0).await.unwrap(), []);
        let before = load(store, &address(1)).await.epoch;
        assert_eq!(store.commit(&commit(&address(1), 1, now(store).await)).await.unwrap(), Committed::Frozen);
        assert_eq!(store.commit(&thawing(store, 2).await).await.unwrap(), Committed::Conflict);
        done(store, &thawing(store, 1).await).await;
        let loaded = load(store, &address(1)).await;
        assert!(loaded.frozen.is_none() && loaded.epoch > before, "{:?} after {before:?}", loaded.epoch);
        assert_eq!(store.frozen(here(store), 0, 9).await.unwrap(), []);
        // A second rebuild comes too late.
        assert_eq!(store.commit(&thawing(store, 2).await).await.unwrap(), Committed::Conflict);
        step(store, &address(1), 2).await;
    });
}

#[test]
fn an_invocation_of_which_nothing_is_stored_can_be_rebuilt() {
    on_both(async |store| {
        store.freeze(&address(1), basis(9)).await.unwrap();
        assert_eq!(store.frozen(here(store), 0, 9).await.unwrap(), [address(1)]);
        done(store, &thawing(store, 0).await).await;
        step(store, &address(1), 1).await;
    });
}

#[test]
fn a_thaw_without_a_commit_raises_the_epoch_and_does_nothing_where_nothing_is_frozen() {
    on_both(async |store| {
        let epoch = async || load(store, &address(1)).await.epoch;
        let ended = Commit { index: index(Standing::Ended), ..commit(&address(1), 0, now(store).await) };
        done(store, &ended).await;
        let before = epoch().await;
        store.thaw(&address(1)).await.unwrap();
        store.thaw(&address(2)).await.unwrap();
        assert_eq!(epoch().await, before);
        store.freeze(&address(1), basis(9)).await.unwrap();
        store.thaw(&address(1)).await.unwrap();
        assert!(epoch().await > before);
        assert_eq!(load(store, &address(1)).await.frozen, None);
        assert_eq!(store.frozen(here(store), 0, 9).await.unwrap(), []);
        // It is up for retention again.
        let all = turnwright_store::Retention { runs_ms: 0, evidence_ms: 0 };
        assert_eq!(store.expire(here(store), &all, 9).await.unwrap(), 2, "a tombstone, and then nothing");
    });
}

/// A store that was cut back may have come to the same version by another way.
#[test]
fn a_commit_on_another_head_of_the_same_version_is_a_conflict() {
    on_both(async |store| {
        step(store, &address(1), 0).await;
        let other = Basis { version: Version(1), hash: hash(77) };
        let commit = Commit { expected: Some(other), ..commit(&address(1), 1, now(store).await) };
        assert_eq!(store.commit(&commit).await.unwrap(), Committed::Conflict);
    });
}

/// Kills and restarts a server between two commits.
async fn fenced_by_a_restart(server: &Server, scheme: &str) {
    let url = format!("{scheme}://127.0.0.1:{}", server.port);
    let store = open(&RedisConfig { prefix: fresh_prefix(), shards: 2, ..RedisConfig::new(url) }).await;
    let epoch = async || load(&store, &address(1)).await.epoch;
    let at = here(&store);
    assert!(!store.is_fenced(at).await.unwrap(), "there is nothing to compare with");
    step(&store, &address(1), 0).await;
    assert!(!store.is_fenced(at).await.unwrap() && !store.lift_fence(at).await.unwrap());
    assert_eq!(epoch().await, Epoch::default());
    server.kill_and_restart();
    assert!(until_answered(async || store.is_fenced(at).await).await);
    assert!(load(&store, &address(1)).await.fenced);
    let next = commit(&address(1), 1, now(&store).await);
    assert_eq!(store.commit(&next).await.unwrap(), Committed::Fenced);
    store.freeze(&address(2), basis(1)).await.unwrap();
    assert!(store.lift_fence(at).await.unwrap());
    let raised = epoch().await;
    assert!(raised > Epoch::default());
    assert!(!store.lift_fence(at).await.unwrap());
    assert_eq!(epoch().await, raised);
    step(&store, &address(1), 1).await;
}

#[test]
fn nothing_is_committed_after_a_restart_before_the_fence_is_lifted_and_that_raises_the_epoch() {
    block_on(fenced_by_a_restart(&Server::start(&DURABLE), "redis"));
}

#[test]
fn a_cluster_s_node_is_fenced_as_well() {
    block_on(fenced_by_a_restart(&Server::start_cluster(), "redis+cluster"));
}

#[test]
fn the_memory_store_loses_what_came_after_its_image_and_knows_that_it_did() {
    let (store, _) = memory();
    block_on(async {
        let at = shard(&store, &address(1));
        step(&store, &address(1), 0).await;
        let image = store.image();
        step(&store, &address(1), 1).await;
        store.raise_epoch(at);
        let reached = load(&store, &address(1)).await.epoch;
        store.cut_back(&image);
        assert_eq!(load(&store, &address(1)).await.snapshot.map(|snapshot| snapshot.version), Some(Version(1)));
        let next = commit(&address(1), 1, now(&store).await);
        assert_eq!(store.commit(&next).await.unwrap(), Committed::Fenced);
        assert!(store.is_fenced(at).await.unwrap() && store.lift_fence(at).await.unwrap());
        assert!(load(&store, &address(1)).await.epoch >= reached, "never below what the lost part had reached");
        step(&store, &address(1), 1).await;
    });
}

/// A power loss takes the end of the log file: the commits in it are gone, the ones before are whole.
#[test]
fn a_store_whose_log_file_was_cut_back_is_whole_up_to_the_cut() {
    let server = Server::start(&DURABLE);
    block_on(async {
        let store = open(&config(&server)).await;
        step(&store, &address(1), 0).await;
        let kept = server.log_bytes();
        step(&store, &address(1), 1).await;
        let lost = server.log_bytes();
        server.cut_back_and_restart(kept + (lost - kept) / 2);
        let loaded =
            until_answered(async || store.load(&address(1), &turnwright_store::Entries::All, Some(Version(2))).await);
        let loaded = loaded.await;
        assert_eq!(loaded.snapshot.map(|snapshot| snapshot.version), Some(Version(1)));
        assert_eq!(loaded.hash_at, None);
        assert!(store.lift_fence(here(&store)).await.unwrap());
        // What was decided on the lost commit meets a conflict; what is decided anew does not.
        assert_eq!(store.commit(&commit(&address(1), 2, now(&store).await)).await.unwrap(), Committed::Conflict);
        step(&store, &address(1), 1).await;
    });
}

/// Asks until a restarted server answers.
async fn until_answered<T>(ask: impl AsyncFn() -> Result<T, turnwright_store::Error>) -> T {
    let start = std::time::Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(start.elapsed() < crate::server::DEADLINE, "{error}"),
        }
    }
}
