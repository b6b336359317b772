//! The one atomic change, in memory: every check first, then every write.

use protocol::{Basis, Timestamp, Version};

use std::sync::atomic::Ordering;

use super::MemoryStore;
use super::state::{self, Invocation};
use crate::acknowledged::PER_COMMIT;
use crate::stats::count;
use crate::{Commit, Committed, Error, EventRecord, MAX_DECISION_AGE_MS, Settled, Snapshot, Standing};

impl MemoryStore {
    pub(super) fn commit_checked(&self, commit: &Commit) -> Result<Committed, Error> {
        let now = self.time();
        let number = self.shard_of(&commit.address);
        let mut state = self.state();
        let incarnation = self.inner.incarnation.load(Ordering::Relaxed);
        if state.shard(number)?.is_fenced(incarnation) {
            return Ok(Committed::Fenced);
        }
        let stubs = state.shard(number)?.stubs.get(&commit.address.tenant).copied().unwrap_or(0);
        let invocation = state.invocations.get(&commit.address);
        if let Some(refusal) = refusal(invocation, commit, now, stubs)? {
            if refusal == Committed::Conflict {
                count(&self.inner.stats.conflicts, 1);
            }
            return Ok(refusal);
        }
        let invocation = state.invocations.entry(commit.address.clone()).or_default();
        let admits_stub = is_stub(invocation.snapshot.as_ref());
        write(invocation, commit, now);
        let shard = state.shard_mut(number)?;
        if commit.stub_quota.is_some() {
            *shard.stubs.entry(commit.address.tenant.clone()).or_default() += 1;
        }
        if admits_stub {
            shard.drop_stub(&commit.address.tenant);
        }
        for timer in &commit.timers {
            let key = (commit.address.clone(), timer.name.clone());
            match timer.due {
                Some(due) => shard.timers.insert(key, due),
                None => shard.timers.remove(&key),
            };
        }
        if commit.thaws {
            shard.raise_epoch(now);
        }
        shard.delete_outbox(&self.inner.acknowledged.take(number, PER_COMMIT));
        let ids = commit.outbox.iter().map(|entry| shard.add_outbox(now, entry.clone()));
        let refs = ids.map(|id| state::outbox_ref(number, id)).collect();
        count(&self.inner.stats.commits, 1);
        Ok(Committed::Done(refs))
    }
}

/// Why the commit is not written, if it is not.
fn refusal(
    invocation: Option<&Invocation>,
    commit: &Commit,
    now: Timestamp,
    stubs: u32,
) -> Result<Option<Committed>, Error> {
    let snapshot = invocation.and_then(|it| it.snapshot.as_ref());
    let stored = snapshot.map(|snapshot| Basis { version: snapshot.version, hash: snapshot.head });
    let frozen = invocation.is_some_and(|it| it.frozen.is_some());
    if invocation.is_some_and(|it| it.tombstone.is_some()) {
        return Ok(Some(Committed::Conflict));
    }
    if frozen && !commit.thaws {
        return Ok(Some(Committed::Frozen));
    }
    if stored != commit.expected || frozen != commit.thaws || now.ms_since(commit.decided_at) > MAX_DECISION_AGE_MS {
        return Ok(Some(Committed::Conflict));
    }
    if commit.stub_quota.is_some_and(|quota| stubs >= quota) {
        return Ok(Some(Committed::OverQuota));
    }
    for entry in commit.entries.iter().filter(|entry| !entry.settled) {
        let stored = invocation.and_then(|it| it.entries.get(&entry.key));
        if stored.is_some_and(|(settled, _)| *settled == Settled::Yes) {
            return Err(Error::Refused(format!("effect {} is settled and would become unsettled", entry.key)));
        }
    }
    Ok(None)
}

fn write(invocation: &mut Invocation, commit: &Commit, now: Timestamp) {
    invocation.frozen = None;
    invocation.snapshot = Some(commit.snapshot.clone());
    invocation.request_digest = commit.request_digest.or(invocation.request_digest);
    invocation.events.extend(commit.events.iter().map(EventRecord::clone));
    for entry in &commit.entries {
        let settled = if entry.settled { Settled::Yes } else { Settled::No };
        invocation.entries.insert(entry.key.clone(), (settled, entry.bytes.clone()));
    }
    invocation.index = Some(commit.index.clone());
    let stub = is_stub(invocation.snapshot.as_ref());
    invocation.ended_at = match commit.index.standing {
        Standing::Ended if !stub => invocation.ended_at.or(Some(now)),
        Standing::Ended | Standing::Open | Standing::Suspended | Standing::EndedUnresolved => None,
    };
    invocation.evidence_since = stub.then_some(now);
}

fn is_stub(snapshot: Option<&Snapshot>) -> bool {
    snapshot.is_some_and(|snapshot| snapshot.version == Version(0))
}
