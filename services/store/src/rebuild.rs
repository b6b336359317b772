//! Rebuilds a frozen invocation from the log: load everything, let the core decide, commit, and thaw. The same decision
//! may be made by several processes at once; the version check lets one through.

use protocol::{Event, Version, rebuild};

use crate::convert::{index_entry, json, read_event, record, timer_changes, write};
use crate::decide::{DecideError, Decider, MAX_CONFLICTS};
use crate::loading::decode;
use crate::{Address, Commit, Committed, Entries, Error, OutboxEntry, OutboxRef, Snapshot};

/// What a rebuild came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebuild {
    /// It is not frozen (any more).
    NotFrozen,
    /// Neither the store nor the log knows of a request that could be ended; it stays frozen.
    NothingKnown,
    /// It goes on, or had ended already; the lost commit is back.
    Restored { commits: usize },
    /// It ended `checkpoint_failed`, or with the end that the log had for it.
    Ended,
    /// Nothing had to be written: a final end stands, or the basis was there after all.
    Thawed,
}

/// What must be published because of a rebuild.
pub type Outbox = Vec<(Option<OutboxRef>, OutboxEntry)>;

impl Decider {
    /// Rebuilds an invocation, if it is frozen. `log` is every commit that the log has of it.
    pub async fn rebuild(&self, address: &Address, log: &[Vec<Event>]) -> Result<(Rebuild, Outbox), DecideError> {
        for _ in 0..MAX_CONFLICTS {
            if let Some(done) = self.rebuild_once(address, log).await? {
                return Ok(done);
            }
        }
        Err(DecideError::Contended(MAX_CONFLICTS))
    }

    /// `None` after a conflict, or a reply that was lost: what stands now must be looked at again.
    async fn rebuild_once(
        &self,
        address: &Address,
        log: &[Vec<Event>],
    ) -> Result<Option<(Rebuild, Outbox)>, DecideError> {
        let loaded = self.store.load(address, &Entries::All, None).await?;
        let Some((basis, _)) = loaded.frozen else {
            return Ok(Some((Rebuild::NotFrozen, Vec::new())));
        };
        let loading = decode(address, loaded, None, None)?;
        let commits: Vec<Vec<Event>> = log.iter().cloned().chain(self.kept(address).await?).collect();
        let decided = rebuild(&loading.state, &commits, basis, loading.now);
        let Some(rebuilt) = decided.map_err(|error| DecideError::Bug(error.to_string()))? else {
            return Ok(Some((Rebuild::NothingKnown, Vec::new())));
        };
        if rebuilt.commits.is_empty() {
            self.store.thaw(address).await?;
            return Ok(Some((Rebuild::Thawed, Vec::new())));
        }
        let state = &rebuilt.state;
        let records = rebuilt.commits.iter().map(|commit| record(commit));
        let commit = Commit {
            address: address.clone(),
            expected: loading.expected,
            decided_at: loading.now,
            events: records.collect::<Result<Vec<_>, _>>()?.concat(),
            snapshot: Snapshot { version: state.version, head: state.head, bytes: json(state)? },
            entries: state.ledger.changed().map(write).collect::<Result<_, _>>()?,
            timers: timer_changes(&loading.state, state),
            outbox: self.outbox(&rebuilt.outgoing, state.at)?,
            index: index_entry(state)?,
            request_digest: state.run.as_ref().map(|run| run.request_digest),
            stub_quota: None,
            thaws: true,
        };
        let refs = match self.store.commit(&commit).await {
            Ok(Committed::Done(refs)) => refs,
            Ok(Committed::Conflict | Committed::Fenced | Committed::Frozen | Committed::OverQuota)
            | Err(Error::Retryable(_)) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let came_to = match rebuilt.restored {
            true => Rebuild::Restored { commits: rebuilt.commits.len() },
            false => Rebuild::Ended,
        };
        Ok(Some((came_to, refs.into_iter().map(Some).zip(commit.outbox).collect())))
    }

    /// The store's own events, by commits.
    async fn kept(&self, address: &Address) -> Result<Vec<Vec<Event>>, Error> {
        let records = self.store.events(address, Version(1), Version(u64::MAX)).await?;
        let mut commits = vec![Vec::new()];
        for record in &records {
            let event = read_event(record)?;
            commits.last_mut().into_iter().for_each(|commit| commit.push(event.clone()));
            if crate::ends_commit(record) {
                commits.push(Vec::new());
            }
        }
        commits.retain(|commit| !commit.is_empty());
        Ok(commits)
    }

    /// Whether the store lacks this event: it is newer than what is there, or something else stands in its place. What has
    /// expired is not missed: evidence stays for `horizon_ms`, so an older event of an unknown invocation proves nothing.
    pub async fn lacks(&self, address: &Address, event: &Event, horizon_ms: u64) -> Result<bool, Error> {
        let basis = event.basis();
        let loaded = self.store.load(address, &Entries::Keys(Vec::new()), Some(basis.version)).await?;
        if loaded.tombstone.is_some() {
            return Ok(false);
        }
        match loaded.snapshot {
            Some(_) => Ok(loaded.hash_at != Some(basis.hash)),
            // It was lost, or it has expired with its evidence.
            None => Ok(loaded.now.ms_since(event.at) < horizon_ms),
        }
    }
}
