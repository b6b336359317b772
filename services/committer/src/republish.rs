//! Another Kafka cluster than the store last knew: what the old one held is said again, with the same basis and
//! `event_id`s. The volatile broker of `dev` and the loss of a cluster are the same case.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chassis::{Failure, Metrics, Periodic, Reply};
use protocol::{Event, Invocation, Message, Outgoing, Version, apply, emit, is_awaited};
use schemas::{Codec, Outbound};
use store::{Address, Shard, Store};

use crate::handler::store_failure;
use crate::{CommitterConfig, Leases};

/// Compares the cluster's ID with the one each shard knows, and republishes a shard whose cluster has changed.
pub struct ClusterWatch {
    store: Arc<dyn Store>,
    codec: Arc<Codec>,
    leases: Arc<Leases>,
    config: CommitterConfig,
    metrics: Metrics,
    cluster_id: String,
    settled: AtomicBool,
    progress: std::sync::Mutex<Option<Progress>>,
}

/// The page that was acknowledged last: where the next one starts, or that there is none.
struct Progress {
    shard: Shard,
    next: Option<String>,
}

/// Invocations republished between two acknowledgements.
const PAGE: usize = 64;

impl ClusterWatch {
    pub fn new(
        store: Arc<dyn Store>,
        codec: Arc<Codec>,
        leases: Arc<Leases>,
        config: CommitterConfig,
        metrics: Metrics,
        cluster_id: String,
    ) -> Self {
        let settled = AtomicBool::new(false);
        Self { store, codec, leases, config, metrics, cluster_id, settled, progress: std::sync::Mutex::default() }
    }

    /// Whether every shard knows this cluster: until then the service is not ready.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// What must be said again of one invocation: its whole log by commits, every terminal event, and what it waits for.
    async fn say_again(&self, address: &Address) -> Result<Vec<Outbound>, Failure> {
        let records = self.store.events(address, Version(1), Version(u64::MAX)).await.map_err(store_failure)?;
        let mut state = Invocation::absent(address.tenant.clone(), address.id);
        let mut open: Vec<Outgoing> = Vec::new();
        let mut said = Vec::new();
        let mut commit: Vec<Event> = Vec::new();
        for record in &records {
            let event = store::read_event(record).map_err(store_failure)?;
            if event.version != state.version.next() {
                break;
            }
            state = apply(state, &event).map_err(|error| Failure::Retry(error.to_string()))?;
            commit.push(event);
            if !store::ends_commit(record) {
                continue;
            }
            for outgoing in emit(&state, &commit) {
                match outgoing.message {
                    Message::EventsCommitted(_) | Message::RunEnded(_) => said.push(outgoing),
                    Message::TurnReady(_) | Message::ToolCallDispatched(_) | Message::EffectQueried(_) => {
                        open.push(outgoing);
                    }
                }
            }
            commit.clear();
        }
        // Only what the newest state still waits for; the others were answered.
        said.extend(open.into_iter().filter(|outgoing| is_awaited(&state, &outgoing.message)));
        let encoded = said.iter().map(|outgoing| self.codec.encode_message(outgoing));
        encoded.collect::<Result<_, _>>().map_err(|error| Failure::Retry(error.to_string()))
    }

    async fn page(&self, shard: Shard, cursor: Option<String>) -> Result<(Vec<Outbound>, Option<String>), Failure> {
        let (entries, next) = self.store.list(shard, cursor, PAGE).await.map_err(store_failure)?;
        let mut records = Vec::new();
        for (address, _) in entries {
            records.extend(self.say_again(&address).await?);
        }
        Ok((records, next))
    }
}

#[async_trait]
impl Periodic for ClusterWatch {
    fn name(&self) -> &'static str {
        "cluster"
    }

    fn interval(&self) -> Duration {
        if self.is_settled() { self.config.expiry_interval } else { self.config.sweep_interval }
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        let held = self.leases.held().await?;
        let progress = self.progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let mut all_known = true;
        for shard in (0..self.store.shards()).map(Shard) {
            let known = self.store.cluster_id(shard).await.map_err(store_failure)?;
            if known.as_ref() == Some(&self.cluster_id) {
                continue;
            }
            all_known = false;
            if !held.contains(&shard) {
                continue;
            }
            if known.is_none() {
                self.store.set_cluster_id(shard, &self.cluster_id).await.map_err(store_failure)?;
                continue;
            }
            let cursor = match progress {
                Some(Progress { shard: at, next: None }) if at == shard => {
                    self.store.set_cluster_id(shard, &self.cluster_id).await.map_err(store_failure)?;
                    return Ok((Reply::default(), true));
                }
                Some(Progress { shard: at, next }) if at == shard => next,
                Some(_) | None => {
                    tracing::warn!(shard = shard.0, "another Kafka cluster: what this shard knows is published again");
                    None
                }
            };
            let (records, next) = self.page(shard, cursor).await?;
            self.metrics.add("turnwright.republished_for_cluster", records.len() as u64, &[]);
            // The page's records are acknowledged before the next tick; only then does the cursor move on, or the
            // shard count as done.
            let receipt = Progress { shard, next };
            let reply = Reply { publish: records, receipt: Some(Box::new(receipt)), ..Reply::default() };
            return Ok((reply, true));
        }
        self.settled.store(all_known, Ordering::Release);
        Ok((Reply::default(), false))
    }

    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        if let Ok(progress) = receipt.downcast::<Progress>() {
            let mut slot = self.progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *slot = Some(*progress);
        }
    }
}
