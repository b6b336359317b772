//! The committer's settings. Each default stands here and nowhere else.

use std::time::Duration;

use store::Retention;

/// Intervals, bounds and retention.
#[derive(Debug, Clone, Copy)]
pub struct CommitterConfig {
    pub retention: Retention,
    /// How often due timers are looked for.
    pub timer_interval: Duration,
    /// The most due timers taken from a shard at once.
    pub timer_batch: usize,
    /// How often outbox entries that were left behind are looked for.
    pub sweep_interval: Duration,
    /// An outbox entry is left behind when it is older than this.
    pub sweep_after: Duration,
    /// The most entries taken from a shard at once.
    pub sweep_batch: usize,
    /// How often acknowledged entries are deleted where no commit does it.
    pub flush_interval: Duration,
    /// How often expired invocations are looked for.
    pub expiry_interval: Duration,
    /// The most invocations expired in a shard at once.
    pub expiry_batch: usize,
    /// How long a shard's lease lasts; it is renewed after a third of that.
    pub lease_ttl: Duration,
}

impl Default for CommitterConfig {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            timer_interval: Duration::from_millis(100),
            timer_batch: 64,
            sweep_interval: Duration::from_millis(500),
            sweep_after: Duration::from_secs(2),
            sweep_batch: 256,
            flush_interval: Duration::from_millis(50),
            expiry_interval: Duration::from_secs(60),
            expiry_batch: 256,
            lease_ttl: Duration::from_secs(6),
        }
    }
}
