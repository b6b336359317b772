//! What expires, what never does, and what an old request meets.

use protocol::Basis;
use turnwright_store::{Commit, Committed, Retention, Shard, Standing};

use crate::support::{
    AT_ONCE, address, basis, commit, done, entry, hash, index, load, now, on_both, shard, step, stub,
};

#[test]
fn an_old_request_meets_the_tombstone_until_the_horizon() {
    on_both(async |store| {
        let mut last = commit(&address(1), 0, now(store).await);
        last.index = index(Standing::Ended);
        last.request_digest = Some(hash(77));
        last.entries = vec![entry("k", true, b"receipt")];
        done(store, &last).await;
        let of = shard(store, &address(1));
        assert_eq!(store.expire(of, &Retention::default(), 9).await.unwrap(), 0);
        assert_eq!(store.expire(of, &AT_ONCE, 9).await.unwrap(), 1);
        let loaded = load(store, &address(1)).await;
        let tombstone = loaded.tombstone.unwrap();
        assert_eq!((tombstone.request_digest, tombstone.last), (hash(77), basis(1)));
        assert!(tombstone.reason.contains("completed"));
        assert_eq!((loaded.snapshot, loaded.entries.len()), (None, 1));
        for version in [0, 1] {
            let again = commit(&address(1), version, now(store).await);
            assert_eq!(store.commit(&again).await.unwrap(), Committed::Conflict);
        }
        store.freeze(&address(1), basis(5)).await.unwrap();
        assert_eq!(load(store, &address(1)).await.frozen, None);
        assert_eq!(store.journal(&address(1), "late", b"x").await.unwrap(), b"x");
        assert_eq!(store.journaled(&address(1), "late").await.unwrap(), None);
        let horizon = Retention { runs_ms: 0, evidence_ms: 0 };
        assert_eq!(store.expire(of, &horizon, 9).await.unwrap(), 1);
        let loaded = load(store, &address(1)).await;
        assert_eq!((loaded.tombstone, loaded.entries.len()), (None, 0));
        step(store, &address(1), 0).await;
    });
}

#[test]
fn an_invocation_with_an_unresolved_effect_never_expires() {
    on_both(async |store| {
        let all = Retention { runs_ms: 0, evidence_ms: 0 };
        let of = shard(store, &address(1));
        for (version, standing, expired) in [(0, Standing::EndedUnresolved, 0), (1, Standing::Ended, 2)] {
            let next = Commit { index: index(standing), ..commit(&address(1), version, now(store).await) };
            done(store, &next).await;
            assert_eq!(store.expire(of, &all, 9).await.unwrap(), expired);
        }
    });
}

#[test]
fn expiry_takes_no_more_steps_than_it_may() {
    on_both(async |store| {
        let here: Vec<_> = (1..).map(address).filter(|it| shard(store, it) == Shard(0)).take(3).collect();
        for address in &here {
            let ended = Commit { index: index(Standing::Ended), ..commit(address, 0, now(store).await) };
            done(store, &ended).await;
        }
        let all = Retention { runs_ms: 0, evidence_ms: 0 };
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.push(store.expire(Shard(0), &all, 2).await.unwrap());
        }
        assert_eq!(steps, [2, 2, 2, 0]);
    });
}

#[test]
fn a_tenant_may_have_only_so_many_stubs_and_admission_frees_one() {
    on_both(async |store| {
        let here: Vec<_> = (1..).map(address).filter(|it| shard(store, it) == Shard(0)).take(2).collect();
        done(store, &stub(&here[0], now(store).await, 1)).await;
        let second = stub(&here[1], now(store).await, 1);
        assert_eq!(store.commit(&second).await.unwrap(), Committed::OverQuota);
        assert_eq!(store.commit(&stub(&here[0], now(store).await, 9)).await.unwrap(), Committed::Conflict);
        let admission = Commit { expected: Some(Basis::default()), ..commit(&here[0], 0, now(store).await) };
        done(store, &admission).await;
        done(store, &stub(&here[1], now(store).await, 1)).await;
    });
}
