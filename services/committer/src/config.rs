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
    /// A frozen invocation is rebuilt when it has been frozen for so long: what is on its way to the log has arrived by then.
    pub rebuild_after: Duration,
    /// The most invocations rebuilt at once.
    pub rebuild_batch: usize,
    /// How long an invocation rests of which neither store nor log knows anything.
    pub rebuild_rest: Duration,
    /// How far back the log is compared with a store that another server answers for: longer than a failover or a power loss
    /// can reach back.
    pub rollback_window: Duration,
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
            rebuild_after: Duration::from_secs(2),
            rebuild_batch: 64,
            rebuild_rest: Duration::from_secs(60),
            rollback_window: Duration::from_secs(60 * 60),
            lease_ttl: Duration::from_secs(6),
        }
    }
}
