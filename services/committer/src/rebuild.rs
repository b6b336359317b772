//! The log against the store: which commits of the log the store lacks, and what becomes of the invocations that are
//! frozen for it (I10). A committer does both by itself; `turnwright store rebuild` does them for a whole store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chassis::{Clock, Failure, Metrics, Periodic, Reply, TopicLog};
use futures::{StreamExt, TryStreamExt};
use protocol::{Event, EventsCommitted};
use schemas::{Codec, Inbound};
use store::{Address, Decided, Decider, Outbox, Rebuild, Shard};

use crate::handler::{failure, store_failure};
use crate::{ClusterWatch, CommitterConfig, Leases, relay};

/// Commits of the log that are looked up in the store side by side.
const CONCURRENCY: usize = 64;

/// Compares the `events` topic with the store, and rebuilds what is frozen.
#[derive(Clone)]
pub struct Rebuilder {
    pub decider: Decider,
    pub log: Arc<dyn TopicLog>,
    pub codec: Arc<Codec>,
    /// `retention.evidence`: an older event of an unknown invocation has expired and is not missed.
    pub evidence_ms: u64,
}

/// What a comparison has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compared {
    /// Commits of the log.
    pub commits: u64,
    /// Those that the store lacks; their invocations are frozen now.
    pub lacking: u64,
    /// Records that are no commits: skipped.
    pub unreadable: u64,
}

impl Rebuilder {
    /// Freezes every wanted invocation of which the log has a commit that the store lacks. `progress` is told after every
    /// batch.
    pub async fn compare(
        &self,
        since_ms: Option<i64>,
        wanted: impl Fn(&Address) -> bool,
        mut progress: impl FnMut(&Compared),
    ) -> Result<Compared, Failure> {
        let mut reader = self.log.open(since_ms).await?;
        let mut compared = Compared::default();
        loop {
            let batch = reader.next().await?;
            if batch.is_empty() {
                return Ok(compared);
            }
            let read = self.read(&batch).await?;
            compared.unreadable += (batch.len() - read.len()) as u64;
            let commits: Vec<_> = read.into_iter().filter(|(address, _)| wanted(address)).collect();
            compared.commits += commits.len() as u64;
            let looked_up = commits.into_iter().map(|(address, commit)| {
                let this = self.clone();
                async move { this.freeze_if_lacking(&address, &commit).await }
            });
            let lacking: Vec<bool> =
                futures::stream::iter(looked_up).buffer_unordered(CONCURRENCY).try_collect().await?;
            compared.lacking += lacking.into_iter().filter(|lacking| *lacking).count() as u64;
            progress(&compared);
        }
    }

    async fn freeze_if_lacking(&self, address: &Address, commit: &[Event]) -> Result<bool, Failure> {
        let Some(last) = commit.last().filter(|event| event.is_authentic()) else {
            return Ok(false);
        };
        let lacking = self.decider.lacks(address, last, self.evidence_ms).await.map_err(store_failure)?;
        if lacking {
            self.decider.store.freeze(address, last.basis()).await.map_err(store_failure)?;
        }
        Ok(lacking)
    }

    /// Rebuilds these invocations, as far as they are frozen. Holds everything that the log has of them.
    pub async fn rebuild(&self, addresses: &BTreeSet<Address>) -> Result<Vec<(Address, Rebuild, Outbox)>, Failure> {
        let mut commits: BTreeMap<&Address, Vec<Vec<Event>>> = BTreeMap::new();
        let mut reader = self.log.open(None).await?;
        loop {
            let batch = reader.next().await?;
            if batch.is_empty() {
                break;
            }
            for (address, commit) in self.read(&batch).await? {
                if let Some(address) = addresses.get(&address) {
                    commits.entry(address).or_default().push(commit);
                }
            }
        }
        let mut done = Vec::new();
        for address in addresses {
            let of_it = commits.remove(address).unwrap_or_default();
            let (came_to, outbox) = self.decider.rebuild(address, &of_it).await.map_err(failure)?;
            done.push((address.clone(), came_to, outbox));
        }
        Ok(done)
    }

    async fn read(&self, batch: &[Inbound]) -> Result<Vec<(Address, Vec<Event>)>, Failure> {
        self.codec.learn(batch).await.map_err(|error| Failure::Unavailable(error.to_string()))?;
        let read = batch.iter().filter_map(|record| {
            let committed: EventsCommitted = self.codec.decode(record).ok()?;
            let scope = committed.scope;
            Some((Address { tenant: scope.tenant, id: scope.invocation_id }, committed.events))
        });
        Ok(read.collect())
    }
}

/// The committer's own part: it notices that another server answers for the store, compares what that one may have lost,
/// and rebuilds what is frozen in the shards this process holds.
pub struct Rebuilds {
    rebuilder: Rebuilder,
    leases: Arc<Leases>,
    clock: Arc<dyn Clock>,
    config: CommitterConfig,
    metrics: Metrics,
    /// Until the log is published to this Kafka cluster, nothing can be read back.
    cluster: Option<Arc<ClusterWatch>>,
    /// Invocations of which nothing is known, and when they are tried again.
    resting: Mutex<BTreeMap<Address, Duration>>,
}

impl Rebuilds {
    pub fn new(
        rebuilder: Rebuilder,
        leases: Arc<Leases>,
        clock: Arc<dyn Clock>,
        config: CommitterConfig,
        metrics: Metrics,
        cluster: Option<Arc<ClusterWatch>>,
    ) -> Self {
        Self { rebuilder, leases, clock, config, metrics, cluster, resting: Mutex::default() }
    }

    fn resting(&self) -> std::sync::MutexGuard<'_, BTreeMap<Address, Duration>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the shards that are fenced with the log, and lifts their fence.
    async fn compare(&self, held: &[Shard]) -> Result<(), Failure> {
        let store = &self.rebuilder.decider.store;
        let mut suspected = BTreeSet::new();
        for shard in held {
            if store.is_fenced(*shard).await.map_err(store_failure)? {
                suspected.insert(*shard);
            }
        }
        if suspected.is_empty() {
            return Ok(());
        }
        tracing::warn!(shards = suspected.len(), "another server answers for the store: it is compared with the log");
        let now = store.now().await.map_err(store_failure)?;
        let window_ms = i64::try_from(self.config.rollback_window.as_millis()).unwrap_or(i64::MAX);
        let shards = store.shards();
        let wanted = |address: &Address| suspected.contains(&store::shard_of(address, shards));
        let compared = self.rebuilder.compare(Some(now.0.saturating_sub(window_ms)), wanted, |_| {}).await?;
        self.metrics.add("turnwright.commits_lacking", compared.lacking, &[]);
        if compared.lacking > 0 {
            tracing::error!(commits = compared.lacking, "the store lost commits that the log has");
        }
        for shard in suspected {
            if store.lift_fence(shard).await.map_err(store_failure)? {
                self.metrics.count("turnwright.epochs_raised", &[]);
            }
        }
        Ok(())
    }

    /// The frozen ones that are to be tried now, and whether there may be more.
    async fn due(&self, shards: &[Shard]) -> Result<(BTreeSet<Address>, bool), Failure> {
        let after_ms = u64::try_from(self.config.rebuild_after.as_millis()).unwrap_or(u64::MAX);
        let now = self.clock.elapsed();
        self.resting().retain(|_, until| now < *until);
        // What rests stands in front of the others.
        let (mut due, most) = (BTreeSet::new(), self.config.rebuild_batch);
        let limit = most + self.resting().len();
        for shard in shards {
            let frozen = self.rebuilder.decider.store.frozen(*shard, after_ms, limit).await.map_err(store_failure)?;
            let resting = self.resting();
            due.extend(frozen.into_iter().filter(|address| !resting.contains_key(address)));
        }
        let more = due.len() > most;
        Ok((due.into_iter().take(most).collect(), more))
    }

    fn note(&self, address: Address, came_to: &Rebuild) {
        let outcome = match came_to {
            Rebuild::NotFrozen => return,
            Rebuild::NothingKnown => "nothing_known",
            Rebuild::Restored { .. } => "restored",
            Rebuild::Ended => "ended",
            Rebuild::Thawed => "thawed",
        };
        self.metrics.count("turnwright.rebuilds", &[("outcome", outcome)]);
        let (tenant, id) = (&address.tenant, address.id);
        match came_to {
            Rebuild::NothingKnown => {
                tracing::error!(%tenant, invocation_id = %id, "frozen, and neither store nor log has its request");
                let until = self.clock.elapsed() + self.config.rebuild_rest;
                self.resting().insert(address, until);
            }
            Rebuild::Ended => tracing::error!(%tenant, invocation_id = %id, "a lost commit could not be had back"),
            Rebuild::Restored { commits } => {
                tracing::warn!(%tenant, invocation_id = %id, commits, "lost commits are back from the log");
            }
            Rebuild::NotFrozen | Rebuild::Thawed => {}
        }
    }
}

#[async_trait]
impl Periodic for Rebuilds {
    fn name(&self) -> &'static str {
        "rebuilds"
    }

    fn interval(&self) -> Duration {
        self.config.sweep_interval
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        let held = self.leases.held().await?;
        if self.cluster.as_ref().is_some_and(|cluster| !cluster.is_settled()) {
            return Ok((Reply::default(), false));
        }
        self.compare(&held).await?;
        let (due, more) = self.due(&held).await?;
        let mut reply = Reply::default();
        if due.is_empty() {
            return Ok((reply, false));
        }
        for (address, came_to, outbox) in self.rebuilder.rebuild(&due).await? {
            self.note(address, &came_to);
            relay::say(&mut reply, Decided { outcomes: Vec::new(), outbox, conflicts: 0 })?;
        }
        Ok((reply, more))
    }

    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        self.rebuilder.decider.store.acknowledge(relay::references(receipt));
    }
}
