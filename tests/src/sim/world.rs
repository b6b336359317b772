//! Virtual time, the one source of chance, and the points at which faults may strike.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::ProcessId;

/// How often faults strike, in thousandths, while they are on.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub crash: u32,
    pub delay: u32,
    pub duplicate: u32,
    pub lost_reply: u32,
    /// Whether the store loses its newest commits once or twice in a seed: in thousandths of seeds.
    pub rollback: u32,
    /// Faults stop at this virtual time, so that everything can come to its end.
    pub until_ms: u64,
}

/// What every part of a simulated run shares.
#[derive(Clone)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    now_ms: u64,
    rng: SmallRng,
    sequence: u64,
    sleepers: BTreeMap<(u64, u64), Waker>,
    crashed: Vec<ProcessId>,
    faults: Faults,
    injected: BTreeMap<&'static str, u64>,
    points: u64,
    /// The point at which a process dies, whatever chance says.
    crash_at: Option<u64>,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let inner = Inner {
            now_ms: 1_000_000,
            rng: SmallRng::seed_from_u64(seed),
            sequence: 0,
            sleepers: BTreeMap::new(),
            crashed: Vec::new(),
            faults,
            injected: BTreeMap::new(),
            points: 0,
            crash_at: None,
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now_ms(&self) -> u64 {
        self.lock().now_ms
    }

    /// A number that grows with every observable step: what happened before what.
    pub fn next_sequence(&self) -> u64 {
        let mut inner = self.lock();
        inner.sequence += 1;
        inner.sequence
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.lock().rng.random_range(0..bound) }
    }

    /// Whether something with that many chances in a thousand happens.
    pub fn chance(&self, thousandths: u32) -> bool {
        self.below(1_000) < u64::from(thousandths)
    }

    pub fn random_u64(&self) -> u64 {
        self.lock().rng.next_u64()
    }

    pub fn faults(&self) -> Option<Faults> {
        let inner = self.lock();
        (inner.now_ms < 1_000_000 + inner.faults.until_ms).then_some(inner.faults)
    }

    /// Counts a fault, for the proof that faults bit.
    pub fn injected(&self, name: &'static str) {
        *self.lock().injected.entry(name).or_default() += 1;
    }

    pub fn injections(&self) -> BTreeMap<&'static str, u64> {
        self.lock().injected.clone()
    }

    pub(super) fn crashes(&self) -> Vec<ProcessId> {
        std::mem::take(&mut self.lock().crashed)
    }

    pub(super) fn crash(&self, process: ProcessId) {
        self.injected("crash");
        self.lock().crashed.push(process);
    }

    /// The process that comes to the `n`-th point of this world, from 1, dies there.
    pub(super) fn crash_at(&self, n: u64) {
        self.lock().crash_at = Some(n);
    }

    /// Moves time to the next sleeper and wakes everyone due; false when nobody sleeps.
    pub(super) fn advance(&self, limit_ms: u64) -> bool {
        let mut inner = self.lock();
        let Some((&(due, _), _)) = inner.sleepers.first_key_value() else {
            return false;
        };
        if due > limit_ms {
            return false;
        }
        inner.now_ms = inner.now_ms.max(due);
        let rest = inner.sleepers.split_off(&(due, u64::MAX));
        let woken = std::mem::replace(&mut inner.sleepers, rest);
        drop(inner);
        woken.into_values().for_each(Waker::wake);
        true
    }

    /// Returns after that much virtual time.
    pub fn sleep(&self, ms: u64) -> Sleep {
        let due = self.now_ms().saturating_add(ms);
        Sleep { world: self.clone(), due, key: None }
    }

    /// A place between two steps of a process: it may be delayed here, or it may die here.
    pub async fn point(&self, process: ProcessId) {
        let dies = {
            let mut inner = self.lock();
            inner.points += 1;
            inner.crash_at == Some(inner.points)
        };
        if dies {
            self.crash(process);
            std::future::pending::<()>().await;
        }
        let Some(faults) = self.faults() else {
            return;
        };
        if self.chance(faults.crash) {
            self.crash(process);
            std::future::pending::<()>().await;
        }
        if self.chance(faults.delay) {
            self.injected("delay");
            let ms = 1 + self.below(200);
            self.sleep(ms).await;
        }
    }
}

/// A sleeper of virtual time.
pub struct Sleep {
    world: World,
    due: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.world.lock();
        if let Some(key) = self.key {
            inner.sleepers.remove(&key);
        }
        if inner.now_ms >= self.due {
            drop(inner);
            self.key = None;
            return Poll::Ready(());
        }
        inner.sequence += 1;
        let key = (self.due, inner.sequence);
        inner.sleepers.insert(key, context.waker().clone());
        drop(inner);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.world.lock().sleepers.remove(&key);
        }
    }
}
