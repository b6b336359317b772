//! Records queued by order key: one batch in flight per key, keys served in the order they became ready. Pure bookkeeping.

use std::collections::{HashMap, VecDeque};

/// Queues of `T` by key. Order within a key; a bound on the keys in flight; a bound on a batch.
#[derive(Debug)]
pub(crate) struct KeyQueues<T> {
    slots: HashMap<Vec<u8>, Slot<T>>,
    /// Keys with something queued and nothing in flight, each once.
    ready: VecDeque<Vec<u8>>,
    in_flight: usize,
    max_in_flight: usize,
    max_batch: usize,
}

#[derive(Debug)]
struct Slot<T> {
    queue: VecDeque<T>,
    busy: bool,
}

impl<T> KeyQueues<T> {
    pub(crate) fn new(max_in_flight: usize, max_batch: usize) -> Self {
        Self { slots: HashMap::new(), ready: VecDeque::new(), in_flight: 0, max_in_flight, max_batch }
    }

    pub(crate) fn push(&mut self, key: Vec<u8>, item: T) {
        if let Some(slot) = self.slots.get_mut(&key) {
            let was_idle = slot.queue.is_empty() && !slot.busy;
            slot.queue.push_back(item);
            if was_idle {
                self.ready.push_back(key);
            }
        } else {
            self.slots.insert(key.clone(), Slot { queue: VecDeque::from([item]), busy: false });
            self.ready.push_back(key);
        }
    }

    /// Everything queued for the next ready key, oldest first, up to the batch bound. The key stays in flight until
    /// [`release`](Self::release).
    pub(crate) fn take(&mut self) -> Option<(Vec<u8>, Vec<T>)> {
        if self.in_flight >= self.max_in_flight {
            return None;
        }
        let key = self.ready.pop_front()?;
        let slot = self.slots.get_mut(&key).expect("a ready key has a slot");
        slot.busy = true;
        self.in_flight += 1;
        let count = slot.queue.len().min(self.max_batch);
        let batch = slot.queue.drain(..count).collect();
        Some((key, batch))
    }

    /// The key's batch is over: the key may be taken again.
    pub(crate) fn release(&mut self, key: Vec<u8>) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        if !slot.busy {
            return;
        }
        slot.busy = false;
        self.in_flight -= 1;
        if slot.queue.is_empty() {
            self.slots.remove(&key);
        } else {
            self.ready.push_back(key);
        }
    }

    /// Drops queued items that `keep` refuses. Batches in flight are not touched.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for slot in self.slots.values_mut() {
            slot.queue.retain(&mut keep);
        }
        self.slots.retain(|_, slot| slot.busy || !slot.queue.is_empty());
        let slots = &self.slots;
        self.ready.retain(|key| slots.contains_key(key));
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether a ready key waits only because the bound on keys in flight is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.in_flight >= self.max_in_flight && !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Vec<u8> {
        name.as_bytes().to_vec()
    }

    #[test]
    fn a_busy_key_collects_and_is_handed_over_as_one_batch() {
        let mut queues = KeyQueues::new(10, 64);
        queues.push(key("a"), 1);
        assert_eq!(queues.take(), Some((key("a"), vec![1])));
        queues.push(key("a"), 2);
        queues.push(key("a"), 3);
        assert_eq!(queues.take(), None);
        queues.release(key("a"));
        assert_eq!(queues.take(), Some((key("a"), vec![2, 3])));
    }

    #[test]
    fn a_busy_key_does_not_hold_others() {
        let mut queues = KeyQueues::new(10, 64);
        queues.push(key("slow"), 1);
        queues.take();
        queues.push(key("fast"), 2);
        assert_eq!(queues.take(), Some((key("fast"), vec![2])));
    }

    #[test]
    fn keys_in_flight_are_bounded_and_served_in_turn() {
        let mut queues = KeyQueues::new(1, 64);
        queues.push(key("a"), 1);
        queues.push(key("b"), 2);
        queues.take();
        assert!(queues.is_full());
        assert_eq!(queues.take(), None);
        queues.push(key("a"), 3);
        queues.release(key("a"));
        assert_eq!(queues.take(), Some((key("b"), vec![2])));
        queues.release(key("b"));
        assert_eq!(queues.take(), Some((key("a"), vec![3])));
    }

    #[test]
    fn batches_are_bounded_and_keep_order() {
        let mut queues = KeyQueues::new(10, 2);
        for item in 0..5 {
            queues.push(key("a"), item);
        }
        let mut seen = Vec::new();
        while let Some((key, batch)) = queues.take() {
            assert!(batch.len() <= 2);
            seen.extend(batch);
            queues.release(key);
        }
        assert_eq!(seen, vec![0, 1, 2, 3, 4]);
        assert_eq!(queues.in_flight(), 0);
        assert!(queues.slots.is_empty());
    }

    #[test]
    fn dropped_items_leave_no_ready_key_behind() {
        let mut queues = KeyQueues::new(10, 64);
        queues.push(key("a"), 1);
        queues.push(key("b"), 2);
        queues.take();
        queues.push(key("a"), 3);
        queues.retain(|_| false);
        assert_eq!(queues.take(), None);
        queues.release(key("a"));
        assert_eq!(queues.take(), None);
        queues.push(key("a"), 4);
        assert_eq!(queues.take(), Some((key("a"), vec![4])));
    }
}
