//! The sweeper publishes what a crash left in the outbox (I3); the flush deletes what the broker has acknowledged where
//! no later commit does.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::{Failure, Metrics, Periodic, Reply};
use store::Store;

use crate::handler::store_failure;
use crate::{CommitterConfig, Leases, relay};

/// Publishes the outbox entries that were left behind in the shards this process holds.
pub struct Sweeper {
    pub store: Arc<dyn Store>,
    pub leases: Arc<Leases>,
    pub config: CommitterConfig,
    pub metrics: Metrics,
}

#[async_trait]
impl Periodic for Sweeper {
    fn name(&self) -> &'static str {
        "sweeper"
    }

    fn interval(&self) -> Duration {
        self.config.sweep_interval
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        let older_than_ms = u64::try_from(self.config.sweep_after.as_millis()).unwrap_or(u64::MAX);
        let mut reply = Reply::default();
        let mut more = false;
        for shard in self.leases.held().await? {
            let pending = self.store.pending_outbox(shard, older_than_ms, self.config.sweep_batch);
            let pending = pending.await.map_err(store_failure)?;
            more |= pending.len() == self.config.sweep_batch;
            for (reference, entry) in pending {
                reply.publish.push(relay::outbound(&entry)?);
                relay::acknowledge_later(&mut reply, vec![reference]);
            }
        }
        self.metrics.add("turnwright.outbox_swept", reply.publish.len() as u64, &[]);
        Ok((reply, more))
    }

    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        self.store.acknowledge(relay::references(receipt));
    }
}

/// Deletes acknowledged outbox entries by the clock.
pub struct Flush {
    pub store: Arc<dyn Store>,
    pub config: CommitterConfig,
}

#[async_trait]
impl Periodic for Flush {
    fn name(&self) -> &'static str {
        "flush"
    }

    fn interval(&self) -> Duration {
        self.config.flush_interval
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        self.store.flush_acknowledged().await.map_err(store_failure)?;
        Ok((Reply::default(), false))
    }
}
