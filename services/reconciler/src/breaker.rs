//! The circuit breaker of owners: one that gave no usable reply several times in a row is left alone for a while, then
//! asked one question. It keeps no clock and asks nobody; it is told the time and what came back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The breaker's settings. Each default stands here and nowhere else.
#[derive(Debug, Clone, Copy)]
pub struct BreakerConfig {
    /// How many unusable replies in a row open it.
    pub failures: u32,
    /// How long the owner is left alone then.
    ///
    /// A question that an open breaker answers as pending still counts against the effect's `max_probes`: the core bounds
    /// how often it asks, not whom it reached, and a person must be called in the end. The core then waits for its own
    /// backoff or for what is left of the pause (up to the effect's `cap_ms`), whichever is longer, so that an open
    /// breaker never uses up an effect's questions sooner than asking in vain would have. The default is well below
    /// the default `cap_ms`, so that what is left is waited for in full.
    pub pause: Duration,
    /// The most owners remembered; further ones are asked as if they had no breaker.
    pub max_owners: usize,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, pause: Duration::from_secs(10), max_owners: 1_024 }
    }
}

/// All owners that are in trouble. One that answers is forgotten.
#[derive(Debug)]
pub(crate) struct Breaker {
    config: BreakerConfig,
    owners: Mutex<HashMap<String, Trouble>>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Unusable replies in a row.
    failures: u32,
    /// Open until then.
    until: Option<Duration>,
}

impl Breaker {
    pub(crate) fn new(config: BreakerConfig) -> Self {
        Self { config, owners: Mutex::default() }
    }

    /// How long this owner is still to be left alone; `None`: it may be asked now.
    pub(crate) fn left(&self, owner: &str, now: Duration) -> Option<Duration> {
        let mut owners = self.owners();
        let until = owners.get_mut(owner)?.until.as_mut()?;
        if now < *until {
            return Some(*until - now);
        }
        // This question goes through. The others wait for its answer, and if none ever comes back (the record went to
        // another process), for one more pause.
        *until = now + self.config.pause;
        None
    }

    /// What became of a question: whether the owner was reached. `true` when this opened the breaker.
    pub(crate) fn heard(&self, owner: &str, reached: bool, now: Duration) -> bool {
        let mut owners = self.owners();
        if reached {
            owners.remove(owner);
            return false;
        }
        if !owners.contains_key(owner) && owners.len() >= self.config.max_owners {
            return false;
        }
        let trouble = owners.entry(owner.to_owned()).or_default();
        trouble.failures = trouble.failures.saturating_add(1);
        // Questions that were under way when it opened do not make the pause longer.
        let opens = trouble.until.is_none() && trouble.failures >= self.config.failures;
        if opens {
            trouble.until = Some(now + self.config.pause);
        }
        opens
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Trouble>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn breaker(max_owners: usize) -> Breaker {
        Breaker::new(BreakerConfig { failures: 2, pause: at(10), max_owners })
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_question_through_after_the_pause() {
        let breaker = breaker(8);
        assert!(!breaker.heard("payments", false, at(0)));
        assert_eq!(breaker.left("payments", at(0)), None);
        assert!(breaker.heard("payments", false, at(1)));
        assert_eq!((breaker.left("payments", at(1)), breaker.left("payments", at(4))), (Some(at(10)), Some(at(7))));
        assert_eq!(breaker.left("payments", at(11)), None, "one goes through");
        assert_eq!(breaker.left("payments", at(12)), Some(at(9)), "and the others wait for it");
        assert!(!breaker.heard("payments", false, at(13)), "it was open already");
        assert_eq!(breaker.left("payments", at(14)), Some(at(7)), "a late failure does not make the pause longer");
        assert_eq!(breaker.left("payments", at(21)), None, "the one that went through may be lost");
    }

    #[test]
    fn an_answer_closes_it_and_the_count_starts_anew() {
        let breaker = breaker(8);
        breaker.heard("payments", false, at(0));
        breaker.heard("payments", true, at(0));
        assert!(!breaker.heard("payments", false, at(0)), "not in a row");
        assert!(breaker.heard("payments", false, at(0)));
        breaker.heard("payments", true, at(1));
        assert_eq!(breaker.left("payments", at(1)), None);
        assert!(!breaker.heard("payments", false, at(1)));
    }

    #[test]
    fn owners_are_told_apart_and_only_so_many_are_remembered() {
        let breaker = breaker(1);
        breaker.heard("payments", false, at(0));
        breaker.heard("payments", false, at(0));
        for _ in 0..5 {
            assert!(!breaker.heard("bank", false, at(0)));
        }
        assert!(breaker.left("payments", at(1)).is_some() && breaker.left("bank", at(1)).is_none());
        breaker.heard("payments", true, at(1));
        assert!(!breaker.heard("bank", false, at(1)) && breaker.heard("bank", false, at(1)), "there is a place again");
    }
}
