//! What a service is written against: a record enters, a handler answers with records, the chassis publishes them and
//! commits the offset. Handlers never spawn, sleep, select or open channels; time and publishing go through these seams,
//! so that the same futures run on a seeded executor.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use schemas::{Inbound, Outbound, Rejection};

/// Time that handlers may wait for. Monotonic; never compared between processes.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Time since some fixed start of this process.
    fn elapsed(&self) -> Duration;

    /// Returns after `duration`.
    async fn sleep(&self, duration: Duration);
}

/// Publishes records. Returns when every one is acknowledged by the broker; an error leaves each of them unknown, to be
/// published again with the same `event_id`. `Unavailable` means the broker, `Reject` a record that it will never take.
#[async_trait]
pub trait Bus: Send + Sync {
    async fn publish(&self, records: Vec<Outbound>) -> Result<(), Failure>;
}

/// A topic that is read back.
#[async_trait]
pub trait TopicLog: Send + Sync {
    /// Opens the topic from its beginning, or from the first records that are not older than `since_ms` by their own time,
    /// up to where it ends now.
    async fn open(&self, since_ms: Option<i64>) -> Result<Box<dyn LogReader>, Failure>;
}

/// A topic being read back.
#[async_trait]
pub trait LogReader: Send {
    /// The next records, in order per partition; none at the end.
    async fn next(&mut self) -> Result<Vec<Inbound>, Failure>;
}

/// What to do about a failure; only the chassis acts on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// This batch failed but may succeed later: it is handed over again after a backoff. It counts: a record that fails
    /// too often goes to `dead-letters`.
    #[error("{0}")]
    Retry(String),
    /// Something every record needs is down (store, broker). The batch is handed over again after a backoff, without end
    /// and without counting: an outage must never turn into dead letters.
    #[error("{0}")]
    Unavailable(String),
    /// The record can never be handled: to `dead-letters`. For a batch of several, the records are handed over again one
    /// by one, so that only the one at fault leaves.
    #[error("{0}")]
    Reject(Rejection),
    /// The process cannot go on; it drains, exits non-zero and is restarted.
    #[error("{0}")]
    Fatal(String),
}

/// What a handler answers for a batch.
#[derive(Debug, Default)]
pub struct Reply {
    /// Published in this order; the offsets of the batch wait until every one is acknowledged.
    pub publish: Vec<Outbound>,
    /// Records of the batch, by index, that go to `dead-letters` instead of being handled.
    pub rejected: Vec<(usize, Rejection)>,
    /// Handed to [`Handler::acknowledged`] once everything in `publish` is acknowledged.
    pub receipt: Option<Box<dyn std::any::Any + Send>>,
    /// Done while `publish` is on its way; the offsets wait for it as well.
    pub beside: Vec<Beside>,
}

/// Work that starts together with publishing. If it fails, the batch is handed over again, although its records may be
/// published: every consumer is idempotent.
pub struct Beside(pub BoxFuture<'static, Result<(), Failure>>);

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Beside")
    }
}

/// Does all of it; the first failure is the answer.
pub async fn done_beside(work: Vec<Beside>) -> Result<(), Failure> {
    futures::future::try_join_all(work.into_iter().map(|Beside(work)| work)).await.map(drop)
}

/// One service's logic over one or several topics.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Records with equal order keys are handled in order and one batch at a time; others side by side.
    fn order_key(&self, record: &Inbound) -> Vec<u8>;

    /// Handles every record that is queued for one order key (a bounded number), oldest first. A panic counts as `Retry`.
    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure>;

    /// Told, without waiting, that what [`Reply::publish`] held is acknowledged.
    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        drop(receipt);
    }
}

/// Work that a service does by the clock rather than by a record: due timers, the outbox sweep.
#[async_trait]
pub trait Periodic: Send + Sync + 'static {
    /// A short name for logs and metrics.
    fn name(&self) -> &'static str;

    /// How long to rest after a tick that found nothing to do.
    fn interval(&self) -> Duration;

    /// Does what is due now; bounded. Its reply is treated as a handler's, without offsets. `true` asks for the next
    /// tick at once.
    async fn tick(&self) -> Result<(Reply, bool), Failure>;

    /// See [`Handler::acknowledged`].
    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        drop(receipt);
    }
}
