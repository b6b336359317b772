//! The only file that knows the `backoff` crate (unmaintained, RUSTSEC-2025-0012), so that it can be replaced in an hour.

use std::time::Duration;

use backoff::backoff::Backoff as _;
use backoff::{ExponentialBackoff, ExponentialBackoffBuilder};

/// How delays between tries grow: doubling from `initial` to `max`, each spread by a quarter to either side.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    pub initial: Duration,
    pub max: Duration,
}

impl RetryPolicy {
    /// A fresh sequence of delays.
    pub fn start(&self) -> Backoff {
        let inner = ExponentialBackoffBuilder::new()
            .with_initial_interval(self.initial)
            .with_max_interval(self.max)
            .with_multiplier(2.0)
            .with_randomization_factor(0.25)
            .with_max_elapsed_time(None)
            .build();
        Backoff { inner, max: self.max }
    }
}

/// One sequence of growing delays; it never ends by itself.
#[derive(Debug)]
pub struct Backoff {
    inner: ExponentialBackoff,
    max: Duration,
}

impl Backoff {
    /// How long to wait before the next try.
    pub fn next_delay(&mut self) -> Duration {
        self.inner.next_backoff().unwrap_or(self.max)
    }
}

/// `interval`, spread by a tenth to either side, so that replicas do not tick in step.
pub(crate) fn jittered(interval: Duration) -> Duration {
    ExponentialBackoffBuilder::new()
        .with_initial_interval(interval)
        .with_randomization_factor(0.1)
        .build()
        .next_backoff()
        .unwrap_or(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_maximum_and_never_end() {
        let policy = RetryPolicy { initial: Duration::from_millis(10), max: Duration::from_millis(100) };
        let mut backoff = policy.start();
        let delays: Vec<_> = (0..50).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] < Duration::from_millis(13));
        assert!(delays[20..].iter().all(|d| *d > Duration::from_millis(70) && *d < Duration::from_millis(130)));
    }

    #[test]
    fn jitter_stays_near_the_interval() {
        for _ in 0..100 {
            let delay = jittered(Duration::from_secs(1));
            assert!(delay > Duration::from_millis(890) && delay < Duration::from_millis(1110), "{delay:?}");
        }
    }
}
