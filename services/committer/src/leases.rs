//! Which shards this process sweeps: one owner per shard at a time, by a lease in the store. The lease only spares
//! work; correctness rests on the version check.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chassis::{Clock, Failure};
use store::{Shard, Store};

use crate::handler::store_failure;

/// The leases of one process.
pub struct Leases {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Unique among running processes.
    owner: String,
    ttl: Duration,
    known: Mutex<BTreeMap<Shard, Known>>,
}

#[derive(Clone, Copy)]
struct Known {
    held: bool,
    asked: Duration,
}

const NAME: &str = "sweeper";

impl Leases {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, owner: String, ttl: Duration) -> Self {
        Self { store, clock, owner, ttl, known: Mutex::default() }
    }

    /// The shards held now. Asks the store for a shard at most once per third of the lease's time.
    pub async fn held(&self) -> Result<Vec<Shard>, Failure> {
        let now = self.clock.elapsed();
        let shards = (0..self.store.shards()).map(Shard);
        let due: Vec<Shard> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = |shard: &Shard| known.get(shard).is_some_and(|k| now < k.asked + self.ttl / 3);
            shards.filter(|shard| !fresh(shard)).collect()
        };
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let asked =
            futures::future::join_all(due.iter().map(|shard| self.store.lease(*shard, NAME, &self.owner, ttl_ms)));
        let answers = asked.await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failed = None;
        for (shard, answer) in due.into_iter().zip(answers) {
            match answer {
                Ok(held) => drop(known.insert(shard, Known { held, asked: now })),
                Err(error) => {
                    known.remove(&shard);
                    failed = Some(error);
                }
            }
        }
        let held: Vec<Shard> = known.iter().filter(|(_, k)| k.held).map(|(shard, _)| *shard).collect();
        match failed {
            Some(error) if held.is_empty() => Err(store_failure(error)),
            Some(_) | None => Ok(held),
        }
    }
}
