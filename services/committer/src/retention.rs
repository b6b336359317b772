//! Expiry: ended invocations leave a tombstone, and later nothing. None whose effects are unresolved.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::{Failure, Metrics, Periodic, Reply};
use store::Store;

use crate::handler::store_failure;
use crate::{CommitterConfig, Leases};

/// Expires what retention lets go in the shards this process holds.
pub struct Expiry {
    pub store: Arc<dyn Store>,
    pub leases: Arc<Leases>,
    pub config: CommitterConfig,
    pub metrics: Metrics,
}

#[async_trait]
impl Periodic for Expiry {
    fn name(&self) -> &'static str {
        "expiry"
    }

    fn interval(&self) -> Duration {
        self.config.expiry_interval
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        let mut expired = 0;
        let mut more = false;
        for shard in self.leases.held().await? {
            let gone = self.store.expire(shard, &self.config.retention, self.config.expiry_batch);
            let gone = gone.await.map_err(store_failure)?;
            more |= gone == self.config.expiry_batch;
            expired += gone;
        }
        self.metrics.add("turnwright.expired", expired as u64, &[]);
        Ok((Reply::default(), more))
    }
}
