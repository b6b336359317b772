//! The index of the in-memory store, and what it lets go.

use protocol::{Basis, Timestamp, Version};

use super::MemoryStore;
use super::state::{Invocation, State};
use crate::{Address, Error, IndexEntry, Retention, Shard, Tombstone, address, shard_of};

type Page = (Vec<(Address, IndexEntry)>, Option<String>);

impl MemoryStore {
    pub(super) fn page(&self, shard: Shard, cursor: Option<String>, limit: usize) -> Result<Page, Error> {
        let state = self.state();
        state.shard(shard)?;
        let after = match cursor {
            Some(text) => Some(address::read(&text).ok_or_else(|| Error::Refused(format!("not a cursor: {text}")))?),
            None => None,
        };
        let listed = state.invocations.iter().filter_map(|(address, it)| Some((address.clone(), it.index.clone()?)));
        let here = listed.filter(|(address, _)| shard_of(address, self.inner.shards) == shard);
        let page: Vec<_> = here.filter(|(address, _)| Some(address) > after.as_ref()).take(limit).collect();
        let next = page.last().filter(|_| page.len() == limit).map(|(address, _)| address::write(address));
        Ok((page, next))
    }

    pub(super) fn expire_some(&self, shard: Shard, retention: &Retention, limit: usize) -> Result<usize, Error> {
        let now = self.time();
        let mut state = self.state();
        state.shard(shard)?;
        let runs = self.oldest(&state, shard, limit, now, retention.runs_ms, |it| it.ended_at);
        for address in &runs {
            state.invocations.get_mut(address).into_iter().for_each(bury);
        }
        let left = limit - runs.len();
        let evidence = self.oldest(&state, shard, left, now, retention.evidence_ms, |it| it.evidence_since);
        for address in &evidence {
            let gone = state.invocations.remove(address);
            if gone.is_some_and(|it| it.snapshot.is_some_and(|snapshot| snapshot.version == Version(0))) {
                state.shard_mut(shard)?.drop_stub(&address.tenant);
            }
        }
        Ok(runs.len() + evidence.len())
    }

    /// The oldest invocations of a shard that have outlived `keep_ms` since the time that `since` reads.
    fn oldest(
        &self,
        state: &State,
        shard: Shard,
        limit: usize,
        now: Timestamp,
        keep_ms: u64,
        since: impl Fn(&Invocation) -> Option<Timestamp>,
    ) -> Vec<Address> {
        let here = state.invocations.iter().filter(|(address, _)| shard_of(address, self.inner.shards) == shard);
        let thawed = here.filter(|(_, it)| it.frozen.is_none());
        let timed = thawed.filter_map(|(address, it)| Some((since(it)?, address)));
        let mut over: Vec<_> = timed.filter(|(at, _)| now >= at.plus_ms(keep_ms)).collect();
        over.sort();
        over.into_iter().take(limit).map(|(_, address)| address.clone()).collect()
    }
}

/// Leaves a tombstone of an ended invocation, and its ledger.
fn bury(invocation: &mut Invocation) {
    let Some(snapshot) = invocation.snapshot.take() else {
        return;
    };
    invocation.tombstone = Some(Tombstone {
        request_digest: invocation.request_digest.unwrap_or_default(),
        last: Basis { version: snapshot.version, hash: snapshot.head },
        reason: invocation.index.take().map(|index| index.summary).unwrap_or_default(),
    });
    invocation.events.clear();
    invocation.journal.clear();
    invocation.evidence_since = invocation.ended_at.take();
}
