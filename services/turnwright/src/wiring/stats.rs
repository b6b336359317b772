//! The store's own counters as a metric, for every service that has a store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::{Failure, Metrics, Periodic, Reply};
use store::Store;

/// Shows commits, conflicts, full windows and what was left to the sweeper as `turnwright.store`, by `counter`.
pub struct StoreStats {
    pub store: Arc<dyn Store>,
    pub metrics: Metrics,
}

const INTERVAL: Duration = Duration::from_secs(5);

#[async_trait]
impl Periodic for StoreStats {
    fn name(&self) -> &'static str {
        "store-stats"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        for (counter, value) in self.store.stats().read() {
            self.metrics.set("turnwright.store", value, &[("counter", counter)]);
        }
        Ok((Reply::default(), false))
    }
}
