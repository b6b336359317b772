//! What the consumer holds: assigned partitions, records queued by key, batches in flight. It ties offsets, order keys,
//! back-pressure and assignment generations together, and knows nothing of librdkafka, threads or time beyond a number.

use std::collections::HashMap;
use std::time::Duration;

use schemas::Inbound;

use super::keys::KeyQueues;
use super::offsets::OffsetTracker;
use super::silence::Quiet;

/// A topic and a partition.
pub(crate) type Place = (String, i32);

/// The bounds of what is held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub in_flight: usize,
    pub batch: usize,
    pub partition_records: usize,
    pub partition_bytes: usize,
}

/// Names one accepted record. A result whose assignment is over counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    assignment: u64,
    offset: i64,
    bytes: usize,
}

/// All records that were queued for one order key, oldest first.
#[derive(Debug)]
pub(crate) struct Batch {
    pub key: Vec<u8>,
    pub records: Vec<Inbound>,
    pub tickets: Vec<Ticket>,
}

/// What became of a record that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Queued,
    /// Queued, and its partition is now over a bound: pause it.
    QueuedAndFull,
    /// Not assigned (any more), stopping, or delivered before.
    Dropped,
}

#[derive(Debug)]
struct Partition {
    place: Place,
    tracker: OffsetTracker,
    start: Option<i64>,
    /// Accepted and not finished.
    records: usize,
    bytes: usize,
    /// Of those, handed over.
    in_flight: usize,
    paused: bool,
    stopping: bool,
    last_arrival: Duration,
}

#[derive(Debug)]
pub(crate) struct Window {
    limits: Limits,
    keys: KeyQueues<(Ticket, Inbound)>,
    partitions: HashMap<u64, Partition>,
    current: HashMap<String, HashMap<i32, u64>>,
    last_assignment: u64,
}

impl Window {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            keys: KeyQueues::new(limits.in_flight, limits.batch),
            partitions: HashMap::new(),
            current: HashMap::new(),
            last_assignment: 0,
        }
    }

    /// A partition is ours from now on, starting at `start` (`None`: the beginning of the log).
    pub(crate) fn assign(&mut self, place: Place, start: Option<i64>, now: Duration) {
        self.remove(&place);
        self.last_assignment += 1;
        self.current.entry(place.0.clone()).or_default().insert(place.1, self.last_assignment);
        let partition = Partition {
            place,
            tracker: OffsetTracker::default(),
            start,
            records: 0,
            bytes: 0,
            in_flight: 0,
            paused: false,
            stopping: false,
            last_arrival: now,
        };
        self.partitions.insert(self.last_assignment, partition);
    }

    /// No new batch starts for these partitions; what is queued for them is dropped, to be delivered again.
    pub(crate) fn stop(&mut self, places: &[Place]) {
        for place in places {
            if let Some(partition) = self.partition_mut(place) {
                partition.stopping = true;
            }
        }
        let partitions = &self.partitions;
        self.keys.retain(|(ticket, _)| partitions.get(&ticket.assignment).is_some_and(|p| !p.stopping));
    }

    /// The partition is no longer ours: late results for it are discarded from now on.
    pub(crate) fn remove(&mut self, place: &Place) {
        let Some(id) = self.current.get_mut(&place.0).and_then(|by_number| by_number.remove(&place.1)) else {
            return;
        };
        self.partitions.remove(&id);
        self.keys.retain(|(ticket, _)| ticket.assignment != id);
    }

    pub(crate) fn arrive(&mut self, record: Inbound, key: Vec<u8>, now: Duration) -> Arrival {
        let id = self.current.get(&record.topic).and_then(|by_number| by_number.get(&record.partition)).copied();
        let Some((id, partition)) = id.and_then(|id| Some((id, self.partitions.get_mut(&id)?))) else {
            return Arrival::Dropped;
        };
        partition.last_arrival = now;
        if partition.stopping || !partition.tracker.accept(record.offset) {
            return Arrival::Dropped;
        }
        let bytes = weight(&record);
        partition.records += 1;
        partition.bytes += bytes;
        let ticket = Ticket { assignment: id, offset: record.offset, bytes };
        let full = partition.records >= self.limits.partition_records || partition.bytes >= self.limits.partition_bytes;
        let must_pause = full && !partition.paused;
        partition.paused |= full;
        self.keys.push(key, (ticket, record));
        if must_pause { Arrival::QueuedAndFull } else { Arrival::Queued }
    }

    /// The next batch that may start; its key is busy until [`release`](Self::release).
    pub(crate) fn next_batch(&mut self) -> Option<Batch> {
        let (key, items) = self.keys.take()?;
        let (tickets, records): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        for ticket in &tickets {
            if let Some(partition) = self.partitions.get_mut(&ticket.assignment) {
                partition.in_flight += 1;
            }
        }
        Some(Batch { key, records, tickets })
    }

    /// The record is handled and what it caused is acknowledged. `false`: its assignment is over, nothing counts.
    pub(crate) fn finish(&mut self, ticket: Ticket) -> bool {
        let Some(partition) = self.partitions.get_mut(&ticket.assignment) else {
            return false;
        };
        partition.in_flight -= 1;
        partition.records -= 1;
        partition.bytes -= ticket.bytes;
        partition.tracker.finish(ticket.offset);
        true
    }

    /// The record was given up while stopping: it stays unfinished, so it is delivered again.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        if let Some(partition) = self.partitions.get_mut(&ticket.assignment) {
            partition.in_flight -= 1;
        }
    }

    pub(crate) fn release(&mut self, key: Vec<u8>) {
        self.keys.release(key);
    }

    /// Whether somebody still waits for this record.
    pub(crate) fn is_wanted(&self, ticket: Ticket) -> bool {
        self.partitions.get(&ticket.assignment).is_some_and(|partition| !partition.stopping)
    }

    /// How many records of these partitions are handed over and not finished.
    pub(crate) fn in_flight_of(&self, places: &[Place]) -> usize {
        places.iter().filter_map(|place| self.partition(place)).map(|partition| partition.in_flight).sum()
    }

    /// Paused partitions that are down to half of their bounds; they count as resumed from now on.
    pub(crate) fn take_resumable(&mut self) -> Vec<Place> {
        let limits = self.limits;
        let low = |p: &Partition| p.records <= limits.partition_records / 2 && p.bytes <= limits.partition_bytes / 2;
        let resumable = self.partitions.values_mut().filter(|p| p.paused && !p.stopping && low(p));
        resumable
            .map(|partition| {
                partition.paused = false;
                partition.place.clone()
            })
            .collect()
    }

    /// Offsets that became committable since the last call.
    pub(crate) fn take_commits(&mut self) -> Vec<(Place, i64)> {
        let moved = |p: &mut Partition| p.tracker.take_commit().map(|offset| (p.place.clone(), offset));
        self.partitions.values_mut().filter_map(moved).collect()
    }

    /// A commit of these partitions failed: hand it out again.
    pub(crate) fn commit_failed(&mut self, places: &[Place]) {
        for place in places {
            if let Some(partition) = self.partition_mut(place) {
                partition.tracker.commit_failed();
            }
        }
    }

    /// The next offset the partition waits for; `None` when it is not ours, `Some(None)` for the beginning of the log.
    pub(crate) fn position(&self, place: &Place) -> Option<Option<i64>> {
        self.partition(place).map(|partition| partition.tracker.next().or(partition.start))
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        self.partitions.values().map(|partition| partition.place.clone()).collect()
    }

    /// Partitions that should be delivering, with the time since their last record.
    pub(crate) fn quiet(&self, now: Duration) -> Vec<Quiet> {
        let delivering = self.partitions.values().filter(|partition| !partition.paused && !partition.stopping);
        delivering
            .map(|partition| Quiet {
                topic: partition.place.0.clone(),
                partition: partition.place.1,
                position: partition.tracker.next().or(partition.start),
                since: now.saturating_sub(partition.last_arrival),
            })
            .collect()
    }

    /// Records accepted and not finished.
    pub(crate) fn depth(&self) -> usize {
        self.partitions.values().map(|partition| partition.records).sum()
    }

    pub(crate) fn in_flight_keys(&self) -> usize {
        self.keys.in_flight()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.keys.is_full()
    }

    fn id(&self, place: &Place) -> Option<u64> {
        self.current.get(&place.0)?.get(&place.1).copied()
    }

    fn partition(&self, place: &Place) -> Option<&Partition> {
        self.partitions.get(&self.id(place)?)
    }

    fn partition_mut(&mut self, place: &Place) -> Option<&mut Partition> {
        let id = self.id(place)?;
        self.partitions.get_mut(&id)
    }
}

/// What a record costs to hold, in bytes.
fn weight(record: &Inbound) -> usize {
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    record.key.as_ref().map_or(0, Vec::len) + record.value.as_ref().map_or(0, Vec::len) + headers + 128
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
