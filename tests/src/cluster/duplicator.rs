//! Delivers every record of every internal topic once more, as a broker or a producer that lost an acknowledgement may.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use schemas::Topic;

use super::lag::INTERNAL;
use super::{Cluster, Error, Producer, Reader, Start};

/// Marks a copy, so that it is not copied again.
const MARK: &str = "x-test-copy";

/// Copies until dropped.
pub struct Duplicator {
    stop: Arc<AtomicBool>,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    copies: BTreeMap<Topic, i64>,
    failed: Option<Error>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Duplicator {
    pub fn start(cluster: &Cluster) -> Result<Self, Error> {
        let names: BTreeMap<String, Topic> = INTERNAL.map(|topic| (cluster.topic(topic), topic)).into();
        let topics: Vec<String> = names.keys().cloned().collect();
        let mut reader = Reader::open(cluster.brokers(), &topics, Start::Beginning)?;
        let producer = Producer::new(cluster.brokers())?;
        let stop = Arc::new(AtomicBool::new(false));
        let state = Arc::new(Mutex::new(State::default()));
        let (stopping, shared) = (stop.clone(), state.clone());
        let thread = std::thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                let copied = reader.next(Duration::from_millis(50)).and_then(|record| match record {
                    Some(record) if record.header(MARK).is_none() => {
                        producer.copy(&record, MARK)?;
                        Ok(names.get(&record.topic).copied())
                    }
                    Some(_) | None => Ok(None),
                });
                match copied {
                    Ok(Some(topic)) => *lock(&shared).copies.entry(topic).or_insert(0) += 1,
                    Ok(None) => {}
                    Err(error) => {
                        lock(&shared).failed = Some(error);
                        return;
                    }
                }
            }
        });
        Ok(Self { stop, state, thread: Some(thread) })
    }

    /// How many records of each topic were delivered once more so far.
    pub fn copies(&self) -> Result<BTreeMap<Topic, i64>, Error> {
        let state = lock(&self.state);
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state.copies.clone()),
        }
    }

    /// Whether these totals are two of everything.
    pub fn has_doubled(&self, totals: &BTreeMap<Topic, i64>) -> Result<bool, Error> {
        let copies = self.copies()?;
        let of = |counts: &BTreeMap<Topic, i64>, topic| counts.get(topic).copied().unwrap_or(0);
        Ok(INTERNAL.iter().all(|topic| of(totals, topic) == 2 * of(&copies, topic)))
    }
}

impl Drop for Duplicator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
