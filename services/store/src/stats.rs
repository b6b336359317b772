//! Counters of one store handle. The chassis reads them; the store knows no metrics library.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a store has done since it was opened. Every counter only grows.
#[derive(Debug, Default)]
pub struct Stats {
    /// Commits that were written.
    pub commits: AtomicU64,
    /// Commits answered [`crate::Committed::Conflict`].
    pub conflicts: AtomicU64,
    /// Calls sent a second time because the server did not know the script yet.
    pub retries: AtomicU64,
    /// Calls that ended [`crate::Error::Retryable`].
    pub unavailable: AtomicU64,
    /// Calls that waited because the in-flight window was full.
    pub window_waits: AtomicU64,
    /// Acknowledged outbox entries that were left to the sweeper.
    pub acknowledged_overflow: AtomicU64,
    /// States that were committed last and are not remembered any more, because the memory is bounded.
    pub remembered_evicted: AtomicU64,
}

impl Stats {
    /// Every counter by name, for an exporter.
    pub fn read(&self) -> [(&'static str, u64); 7] {
        [
            ("commits", &self.commits),
            ("conflicts", &self.conflicts),
            ("retries", &self.retries),
            ("unavailable", &self.unavailable),
            ("window_waits", &self.window_waits),
            ("acknowledged_overflow", &self.acknowledged_overflow),
            ("remembered_evicted", &self.remembered_evicted),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

/// Adds to a counter; no other memory depends on the order.
pub(crate) fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
