//! Outbox entries that the broker has acknowledged and the store still holds. Losing this list costs a publication that
//! is repeated, never one that is missed, so it is bounded and kept in memory only.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::stats::count;
use crate::{OutboxRef, Shard, Stats};

/// How many acknowledged entries are remembered for one shard.
const BOUND: usize = 4_096;

/// How many acknowledged entries one commit deletes along its way.
pub(crate) const PER_COMMIT: usize = 128;

#[derive(Debug)]
pub(crate) struct Acknowledged {
    shards: Vec<Mutex<VecDeque<String>>>,
}

impl Acknowledged {
    pub(crate) fn new(shards: u16) -> Self {
        Self { shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    /// Remembers entries. What is over the bound or no reference of this store is left to the sweeper and counted.
    pub(crate) fn note(&self, entries: Vec<OutboxRef>, stats: &Stats) {
        for entry in entries {
            match self.shard(entry.shard) {
                Some(mut queue) if read_id(&entry.id).is_some() => {
                    queue.push_back(entry.id);
                    shrink(&mut queue, stats);
                }
                _ => count(&stats.acknowledged_overflow, 1),
            }
        }
    }

    /// Takes at most `limit` of a shard's entries, oldest first.
    pub(crate) fn take(&self, shard: Shard, limit: usize) -> Vec<String> {
        let Some(mut queue) = self.shard(shard) else {
            return Vec::new();
        };
        let n = limit.min(queue.len());
        queue.drain(..n).collect()
    }

    /// Gives back what was taken and not deleted.
    pub(crate) fn put_back(&self, shard: Shard, ids: Vec<String>, stats: &Stats) {
        let Some(mut queue) = self.shard(shard) else { return };
        for id in ids.into_iter().rev() {
            queue.push_front(id);
        }
        shrink(&mut queue, stats);
    }

    /// Forgets everything, as a crash does.
    pub(crate) fn clear(&self) {
        (0..self.shards.len()).filter_map(|n| self.shard(Shard(u16::try_from(n).ok()?))).for_each(|mut q| q.clear());
    }

    fn shard(&self, shard: Shard) -> Option<MutexGuard<'_, VecDeque<String>>> {
        let queue = self.shards.get(usize::from(shard.0))?;
        Some(queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn shrink(queue: &mut VecDeque<String>, stats: &Stats) {
    let over = queue.len().saturating_sub(BOUND);
    queue.drain(..over);
    count(&stats.acknowledged_overflow, over as u64);
}

/// An outbox ID: milliseconds, then a sequence number, as in a Redis stream.
pub(crate) fn read_id(id: &str) -> Option<(u64, u64)> {
    let (ms, sequence) = id.split_once('-')?;
    Some((ms.parse().ok()?, sequence.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn over_the_bound_the_oldest_entries_are_left_to_the_sweeper_and_counted() {
        let (acknowledged, stats) = (Acknowledged::new(1), Stats::default());
        let refs = (0..BOUND + 3).map(|n| OutboxRef { shard: Shard(0), id: format!("{n}-0") }).collect();
        acknowledged.note(refs, &stats);
        assert_eq!(stats.acknowledged_overflow.load(Ordering::Relaxed), 3);
        assert_eq!(acknowledged.take(Shard(0), 1), ["3-0"]);
        acknowledged.put_back(Shard(0), vec!["3-0".into()], &stats);
        assert_eq!(acknowledged.take(Shard(0), 2), ["3-0", "4-0"]);
    }

    #[test]
    fn a_reference_of_another_store_is_counted_and_never_sent() {
        let (acknowledged, stats) = (Acknowledged::new(1), Stats::default());
        let foreign = [(Shard(1), "1-0"), (Shard(0), "x")].map(|(shard, id)| OutboxRef { shard, id: id.into() });
        acknowledged.note(foreign.into(), &stats);
        assert_eq!(stats.acknowledged_overflow.load(Ordering::Relaxed), 2);
        assert!(acknowledged.take(Shard(0), 9).is_empty());
    }
}
