//! Which offsets of one partition are finished, and up to where they may be committed. Pure bookkeeping.

use std::collections::VecDeque;

/// Finished and unfinished offsets since an assignment. Only the contiguous finished prefix may be committed.
#[derive(Debug, Default)]
pub(crate) struct OffsetTracker {
    /// Accepted offsets, ascending, from the oldest unfinished one on.
    open: VecDeque<(i64, bool)>,
    /// One past the highest accepted offset.
    next: Option<i64>,
    /// What may be committed; `None` until the first offset is finished.
    committable: Option<i64>,
    /// What was last handed out for commit.
    requested: Option<i64>,
}

impl OffsetTracker {
    /// Whether `offset` is new. Gaps are normal (compaction, transaction markers); going back is a redelivery.
    pub(crate) fn accept(&mut self, offset: i64) -> bool {
        if self.next.is_some_and(|next| offset < next) {
            return false;
        }
        self.open.push_back((offset, false));
        self.next = Some(offset + 1);
        true
    }

    /// Marks `offset` finished. Unknown offsets are ignored.
    pub(crate) fn finish(&mut self, offset: i64) {
        if let Ok(at) = self.open.binary_search_by_key(&offset, |(o, _)| *o) {
            self.open[at].1 = true;
        }
        while let Some((offset, true)) = self.open.front() {
            self.committable = Some(offset + 1);
            self.open.pop_front();
        }
    }

    /// The offset to commit, if it has moved since the last time it was asked for.
    pub(crate) fn take_commit(&mut self) -> Option<i64> {
        if self.committable == self.requested {
            return None;
        }
        self.requested = self.committable;
        self.committable
    }

    /// The last commit failed: hand it out again.
    pub(crate) fn commit_failed(&mut self) {
        self.requested = None;
    }

    /// One past the highest offset that arrived; `None` before the first.
    pub(crate) fn next(&self) -> Option<i64> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(offsets: &[i64]) -> OffsetTracker {
        let mut tracker = OffsetTracker::default();
        for offset in offsets {
            assert!(tracker.accept(*offset));
        }
        tracker
    }

    #[test]
    fn only_the_contiguous_prefix_is_committable() {
        let mut tracker = accepted(&[5, 6, 7, 8]);
        tracker.finish(7);
        tracker.finish(5);
        assert_eq!(tracker.take_commit(), Some(6));
        assert_eq!(tracker.take_commit(), None);
        tracker.finish(6);
        assert_eq!(tracker.take_commit(), Some(8));
    }

    #[test]
    fn gaps_in_the_log_do_not_hold_the_prefix() {
        let mut tracker = accepted(&[1, 4, 9]);
        tracker.finish(4);
        tracker.finish(1);
        assert_eq!(tracker.take_commit(), Some(5));
        tracker.finish(9);
        assert_eq!(tracker.take_commit(), Some(10));
    }

    #[test]
    fn a_redelivered_offset_is_not_accepted_twice() {
        let mut tracker = accepted(&[3, 4]);
        assert!(!tracker.accept(3));
        assert!(!tracker.accept(4));
        assert!(tracker.accept(5));
    }

    #[test]
    fn a_failed_commit_is_handed_out_again() {
        let mut tracker = accepted(&[0]);
        tracker.finish(0);
        assert_eq!(tracker.take_commit(), Some(1));
        tracker.commit_failed();
        assert_eq!(tracker.take_commit(), Some(1));
    }

    #[test]
    fn every_order_of_finishing_ends_at_the_same_commit() {
        // All orders of four offsets; after each step the commit never passes an unfinished offset.
        for order in permutations(&[0, 1, 2, 3]) {
            let mut tracker = accepted(&[0, 1, 2, 3]);
            let mut done = Vec::new();
            for offset in &order {
                tracker.finish(*offset);
                done.push(*offset);
                let prefix = (0..4).take_while(|o| done.contains(o)).count() as i64;
                assert_eq!(tracker.committable.unwrap_or(0), prefix);
            }
        }
    }

    fn permutations(items: &[i64]) -> Vec<Vec<i64>> {
        if items.is_empty() {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let rest: Vec<_> = [&items[..at], &items[at + 1..]].concat();
            all.extend(permutations(&rest).into_iter().map(|mut p| {
                p.insert(0, *item);
                p
            }));
        }
        all
    }
}
