//! Cases that a random history cannot show: time, concurrency, bytes, and what a handle keeps for itself.

use std::sync::atomic::Ordering;
use std::time::Instant;

use futures::future::join_all;
use protocol::{Digest, Timestamp, Version};
use turnwright_store::{Commit, Committed, Entries, Error, Loaded, MAX_DECISION_AGE_MS, Shard, Store, shard_of};

use crate::server::DEADLINE;
use crate::support::{
    address, block_on, commit, done, entry, hash, load, memory, now, on_both, outgoing, shard, step, timer,
};

#[test]
fn a_lease_is_exclusive_and_its_owner_extends_it() {
    on_both(async |store| {
        let hour = 3_600_000;
        assert!(store.lease(Shard(0), "relay", "a", hour).await.unwrap());
        assert!(!store.lease(Shard(0), "relay", "b", hour).await.unwrap());
        assert!(store.lease(Shard(0), "relay", "a", hour).await.unwrap());
        assert!(store.lease(Shard(0), "other", "b", hour).await.unwrap());
        assert!(store.lease(Shard(1), "relay", "b", hour).await.unwrap());
    });
}

#[test]
fn a_lease_that_is_not_extended_goes_to_the_next_owner() {
    on_both(async |store| {
        assert!(store.lease(Shard(0), "relay", "a", 20).await.unwrap());
        let start = Instant::now();
        while !store.lease(Shard(0), "relay", "b", 3_600_000).await.unwrap() {
            assert!(start.elapsed() < DEADLINE, "the lease never expired");
        }
        assert!(!store.lease(Shard(0), "relay", "a", 20).await.unwrap());
    });
}

#[test]
fn a_decision_that_is_too_old_is_a_conflict() {
    on_both(async |store| {
        let old = Timestamp(now(store).await.0 - i64::try_from(MAX_DECISION_AGE_MS).unwrap() - 1);
        assert_eq!(store.commit(&commit(&address(1), 0, old)).await.unwrap(), Committed::Conflict);
        assert_eq!(load(store, &address(1)).await.snapshot, None);
    });
    let (store, clock) = memory();
    let decided_at = Timestamp(clock.load(Ordering::Relaxed));
    clock.fetch_add(i64::try_from(MAX_DECISION_AGE_MS).unwrap(), Ordering::Relaxed);
    block_on(done(&store, &commit(&address(1), 0, decided_at)));
}

#[test]
fn a_settled_ledger_entry_never_regresses() {
    on_both(async |store| {
        let settled =
            Commit { entries: vec![entry("k", true, b"receipt")], ..commit(&address(1), 0, now(store).await) };
        done(store, &settled).await;
        let back = Commit { entries: vec![entry("k", false, b"?")], ..commit(&address(1), 1, now(store).await) };
        assert!(matches!(store.commit(&back).await, Err(Error::Refused(_))));
        let loaded = load(store, &address(1)).await;
        assert_eq!(loaded.entries, [("k".into(), b"receipt".to_vec())]);
        assert_eq!(loaded.snapshot.unwrap().version, Version(1));
        let again = Commit { entries: vec![entry("k", true, b"conflict")], ..commit(&address(1), 1, now(store).await) };
        done(store, &again).await;
    });
}

#[test]
fn bytes_come_back_as_they_were_whatever_they_are() {
    on_both(async |store| {
        let all: Vec<u8> = (0..=255).collect();
        let mut first = commit(&address(1), 0, now(store).await);
        first.events[0].bytes.clone_from(&all);
        first.snapshot.bytes.clone_from(&all);
        first.entries = vec![entry("k\0\r\n", false, &all), entry("empty", true, b"")];
        first.outbox = vec![outgoing(1)];
        first.index.summary = "\0{\"ü\"}".into();
        first.timers = vec![timer("\0/", Some(1))];
        done(store, &first).await;
        let loaded = load(store, &address(1)).await;
        assert_eq!(loaded.snapshot, Some(first.snapshot));
        let mut entries = loaded.entries;
        entries.sort();
        assert_eq!(entries, [("empty".into(), Vec::new()), ("k\0\r\n".into(), all.clone())]);
        assert_eq!(store.events(&address(1), Version(1), Version(1)).await.unwrap(), first.events);
        assert_eq!(store.journal(&address(1), "f\0", &all).await.unwrap(), all);
        assert_eq!(store.journaled(&address(1), "f\0").await.unwrap(), Some(all));
        let of = shard(store, &address(1));
        assert_eq!(store.pending_outbox(of, 0, 9).await.unwrap()[0].1, outgoing(1));
        assert_eq!(store.due_timers(of, 9).await.unwrap()[0].name, "\0/");
        assert_eq!(store.list(of, None, 9).await.unwrap().0[0].1, first.index);
    });
}

#[test]
fn a_load_brings_only_the_entries_it_asks_for_and_the_hash_of_any_version() {
    on_both(async |store| {
        let entries = vec![entry("a", false, b"1"), entry("b", true, b"2")];
        done(store, &Commit { entries, ..commit(&address(1), 0, now(store).await) }).await;
        step(store, &address(1), 1).await;
        let keys = Entries::Keys(vec!["b".into(), "none".into()]);
        let loaded = store.load(&address(1), &keys, Some(Version(1))).await.unwrap();
        assert_eq!(loaded.entries, [("b".into(), b"2".to_vec())]);
        assert_eq!(loaded.hash_at, Some(hash(1)));
        for version in [0, 3, u64::MAX] {
            let loaded = store.load(&address(1), &keys, Some(Version(version))).await.unwrap();
            assert_eq!(loaded.hash_at, None, "version {version}");
        }
    });
}

#[test]
fn a_turn_is_loaded_with_its_journal_and_the_events_up_to_its_basis() {
    on_both(async |store| {
        for n in 0..4 {
            step(store, &address(1), n).await;
        }
        store.journal(&address(1), "1/0", b"answer").await.unwrap();
        let turn = store.load_turn(&address(1), "1/0", Version(2), Version(3)).await.unwrap();
        let loaded = store.load(&address(1), &Entries::Keys(vec![]), Some(Version(3))).await.unwrap();
        assert_eq!(turn.loaded, Loaded { now: turn.loaded.now, ..loaded });
        assert_eq!(turn.loaded.hash_at, Some(hash(3)));
        assert_eq!(turn.answered.as_deref(), Some(b"answer".as_slice()));
        assert_eq!(turn.events, store.events(&address(1), Version(2), Version(3)).await.unwrap());
        assert_eq!(turn.events.len(), 2);
        let other = store.load_turn(&address(1), "2/0", Version(4), Version(3)).await.unwrap();
        assert_eq!((other.answered, other.events), (None, vec![]));
        let none = store.load_turn(&address(2), "1/0", Version(1), Version(0)).await.unwrap();
        assert_eq!((none.loaded.snapshot, none.answered, none.events), (None, None, vec![]));
    });
}

#[test]
fn a_torn_read_cannot_happen() {
    on_both(async |store| {
        let at = address(1);
        let writer = async {
            for version in 0..200u64 {
                let next = commit(&at, version, now(store).await);
                let entries = vec![entry("k", false, &(version + 1).to_be_bytes())];
                done(store, &Commit { entries, ..next }).await;
            }
        };
        let reader = || async {
            loop {
                let loaded = store.load(&at, &Entries::All, None).await.unwrap();
                let Some(snapshot) = loaded.snapshot else { continue };
                assert_eq!(loaded.entries, [("k".into(), snapshot.bytes.clone())]);
                if snapshot.version == Version(200) {
                    return;
                }
            }
        };
        // The in-memory store answers at once, so its readers start when the writer is done.
        futures::join!(writer, join_all((0..4).map(|_| reader())));
    });
}

#[test]
fn only_one_of_many_commits_on_the_same_version_is_written() {
    on_both(async |store| {
        let all = join_all((0..16).map(|n| async move {
            let mut mine = commit(&address(1), 0, now(store).await);
            mine.events[0].hash = hash(100 + n);
            mine.snapshot.head = hash(100 + n);
            store.commit(&mine).await.unwrap()
        }))
        .await;
        assert_eq!(all.iter().filter(|it| **it == Committed::Done(Vec::new())).count(), 1);
        assert_eq!(all.iter().filter(|it| **it == Committed::Conflict).count(), 15);
    });
}

#[test]
fn acknowledged_entries_go_with_the_next_commit_of_their_shard_or_a_flush() {
    on_both(async |store| {
        let of = shard(store, &address(1));
        let outbox = vec![outgoing(1), outgoing(2), outgoing(3)];
        let refs = done(store, &Commit { outbox, ..commit(&address(1), 0, now(store).await) }).await;
        let pending =
            async || store.pending_outbox(of, 0, 9).await.unwrap().into_iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(pending().await, refs);
        store.acknowledge(vec![refs[1].clone()]);
        assert_eq!(pending().await.len(), 3);
        let lost = commit(&address(1), 5, now(store).await);
        assert_eq!(store.commit(&lost).await.unwrap(), Committed::Conflict);
        assert_eq!(pending().await.len(), 3);
        step(store, &address(1), 1).await;
        assert_eq!(pending().await, [refs[0].clone(), refs[2].clone()]);
        store.acknowledge(vec![refs[0].clone()]);
        store.flush_acknowledged().await.unwrap();
        assert_eq!(pending().await, [refs[2].clone()]);
    });
}

#[test]
fn a_commit_that_is_not_well_formed_is_refused() {
    on_both(async |store| {
        let good = commit(&address(1), 0, now(store).await);
        let mut gap = good.clone();
        gap.events[0].version = Version(2);
        let mut ahead = good.clone();
        ahead.snapshot.version = Version(2);
        let mut other = good.clone();
        other.snapshot.head = Digest::default();
        let empty = Commit { events: Vec::new(), ..good.clone() };
        let quota = Commit { stub_quota: Some(1), ..good.clone() };
        for bad in [gap, ahead, other, empty, quota] {
            assert!(matches!(store.commit(&bad).await, Err(Error::Refused(_))), "{bad:?}");
        }
        done(store, &good).await;
    });
}

#[test]
fn a_timer_stays_until_it_is_dropped_and_a_moved_one_is_not_dropped() {
    on_both(async |store| {
        let (at, of) = (address(1), shard(store, &address(1)));
        let timers = vec![timer("b", Some(2)), timer("a", Some(1)), timer("later", Some(i64::MAX))];
        done(store, &Commit { timers, ..commit(&at, 0, now(store).await) }).await;
        let due = store.due_timers(of, 9).await.unwrap();
        assert_eq!(due.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(store.due_timers(of, 1).await.unwrap(), due[..1]);
        let timers = vec![timer("a", Some(5))];
        done(store, &Commit { timers, ..commit(&at, 1, now(store).await) }).await;
        for timer in &due {
            store.drop_timer(timer).await.unwrap();
        }
        let left = store.due_timers(of, 9).await.unwrap();
        assert_eq!(left.iter().map(|it| (it.name.as_str(), it.due)).collect::<Vec<_>>(), [("a", Timestamp(5))]);
    });
}

#[test]
fn an_entry_is_pending_only_once_it_is_old_enough() {
    let (store, clock) = memory();
    let of = shard_of(&address(1), 2);
    block_on(async {
        let outbox = vec![outgoing(1)];
        done(&store, &Commit { outbox, ..commit(&address(1), 0, now(&store).await) }).await;
        assert!(store.pending_outbox(of, 1_000, 9).await.unwrap().is_empty());
        clock.fetch_add(1_000, Ordering::Relaxed);
        assert_eq!(store.pending_outbox(of, 1_000, 9).await.unwrap().len(), 1);
    });
}
