//! What the polling thread and the batches share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use schemas::Inbound;
use tokio::sync::watch;

use super::window::{Arrival, Batch, Limits, Place, Ticket, Window};
use super::{ConsumerParts, DeadLetters};
use crate::{Bus, Config, Handler, Health, Metrics, Shutdown, names};

pub(super) struct Shared {
    pub service: String,
    pub topics: Vec<String>,
    pub handler: Arc<dyn Handler>,
    pub bus: Arc<dyn Bus>,
    pub dead_letters: DeadLetters,
    pub config: Config,
    pub metrics: Metrics,
    pub health: Health,
    window: Mutex<Window>,
    /// Signalled whenever a record in flight is settled.
    settled: Condvar,
    /// Changes whenever partitions stop, to wake batches that rest between tries.
    nudge: watch::Sender<()>,
    shutdown: Shutdown,
    fatal: Mutex<Option<String>>,
    /// Set when only a new client can go on.
    rebuild: AtomicBool,
    /// Set once a session has drained: its revocations have nothing to wait for.
    drained: AtomicBool,
    runtime: tokio::runtime::Handle,
    start: Instant,
}

impl Shared {
    pub(super) fn new(parts: ConsumerParts, shutdown: Shutdown, runtime: tokio::runtime::Handle) -> Self {
        let limits = Limits {
            in_flight: parts.config.runtime.max_in_flight,
            batch: parts.config.runtime.max_batch,
            partition_records: parts.config.runtime.partition_max_records,
            partition_bytes: parts.config.runtime.partition_max_bytes,
        };
        Self {
            service: parts.service,
            topics: parts.topics,
            handler: parts.handler,
            bus: parts.bus,
            dead_letters: parts.dead_letters,
            config: parts.config,
            metrics: parts.metrics,
            health: parts.health,
            window: Mutex::new(Window::new(limits)),
            settled: Condvar::new(),
            nudge: watch::Sender::new(()),
            shutdown,
            fatal: Mutex::new(None),
            rebuild: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            runtime,
            start: Instant::now(),
        }
    }

    /// Every change under this lock is complete, so a poisoned one is as good as any.
    pub(super) fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Takes in a record and starts what may start. `true`: its partition must be paused.
    pub(super) fn arrive(self: &Arc<Self>, record: Inbound) -> bool {
        // A panic over one record's key must not end the polling thread: the record's own key orders it then.
        let key = catch_unwind(AssertUnwindSafe(|| self.handler.order_key(&record)))
            .unwrap_or_else(|_| record.key.clone().unwrap_or_default());
        self.metrics.count(names::CONSUMED, &[("topic", &record.topic)]);
        let mut window = self.window();
        let arrival = window.arrive(record, key, self.now());
        self.start_ready(&mut window);
        arrival == Arrival::QueuedAndFull
    }

    fn start_ready(self: &Arc<Self>, window: &mut Window) {
        while let Some(batch) = window.next_batch() {
            self.start_batch(batch);
        }
        if window.is_full() {
            self.metrics.count(names::IN_FLIGHT_WAITS, &[]);
        }
    }

    fn start_batch(self: &Arc<Self>, batch: Batch) {
        self.runtime.spawn(super::work::run(Arc::clone(self), batch));
    }

    /// The record is done: its offset may be committed with the prefix before it.
    pub(super) fn finish(&self, ticket: Ticket) {
        if !self.window().finish(ticket) {
            self.metrics.count(names::LATE_RESULTS, &[]);
        }
        self.settled.notify_all();
    }

    /// The record was given up while its partition stops.
    pub(super) fn abandon(&self, ticket: Ticket) {
        self.window().abandon(ticket);
        self.settled.notify_all();
    }

    /// The key's batch is over; starts what waited for it.
    pub(super) fn release(self: &Arc<Self>, key: Vec<u8>) {
        let mut window = self.window();
        window.release(key);
        self.start_ready(&mut window);
    }

    /// Whether anybody still waits for one of these records.
    pub(super) fn is_wanted(&self, tickets: &[Ticket]) -> bool {
        let window = self.window();
        tickets.iter().any(|ticket| window.is_wanted(*ticket))
    }

    /// Rests for `delay`. `false`: meanwhile nobody waits for these records any more.
    pub(super) async fn rest(&self, delay: Duration, tickets: &[Ticket]) -> bool {
        let mut nudge = self.nudge.subscribe();
        let over = tokio::time::sleep(delay);
        tokio::pin!(over);
        while self.is_wanted(tickets) {
            tokio::select! {
                () = &mut over => return self.is_wanted(tickets),
                // `self` holds the sender, so waiting cannot fail.
                _ = nudge.changed() => {}
            }
        }
        false
    }

    /// No new batch for these partitions, and batches that rest between tries give up.
    pub(super) fn stop(&self, places: &[Place]) {
        self.window().stop(places);
        self.nudge.send_replace(());
    }

    /// Waits until nothing of these partitions is in flight, up to `timeout`, with the heart beating.
    pub(super) fn wait_settled(&self, places: &[Place], timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut window = self.window();
        while window.in_flight_of(places) > 0 {
            self.health.beat();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.settled.wait_timeout(window, left.min(Duration::from_millis(100)));
            window = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The process cannot go on: the session drains and the consumer returns this as its error.
    pub(super) fn fail(&self, message: String) {
        tracing::error!(service = self.service, message, "fatal; draining");
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
    }

    pub(super) fn fatal(&self) -> Option<String> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.shutdown.is_triggered() || self.fatal().is_some()
    }

    pub(super) fn ask_rebuild(&self) {
        self.rebuild.store(true, Ordering::Release);
    }

    pub(super) fn needs_rebuild(&self) -> bool {
        self.rebuild.load(Ordering::Acquire)
    }

    pub(super) fn begin_session(&self) {
        let mut window = self.window();
        window.places().iter().for_each(|place| window.remove(place));
        drop(window);
        self.rebuild.store(false, Ordering::Release);
        self.drained.store(false, Ordering::Release);
    }

    pub(super) fn end_drain(&self) {
        self.drained.store(true, Ordering::Release);
    }

    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }
}
