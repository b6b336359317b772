//! One batch from handing over to acknowledgement: retries, dead letters, publishing.

use std::panic::AssertUnwindSafe;
use std::slice;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use schemas::{DeadLetterCode, Inbound, Outbound, Rejection};
use tracing::{Instrument, Span};

use super::shared::Shared;
use super::window::{Batch, Ticket};
use crate::seams::done_beside;
use crate::{Backoff, Failure, Reply, names, trace};

/// A batch of several is tried this often as a whole before its records are handed over one by one, each with the full
/// number of tries: a record at fault must not take its neighbours along.
const BATCH_TRIES: u32 = 3;

enum Outcome {
    /// Handled or dead-lettered, and everything is acknowledged.
    Done,
    /// A batch of several that must go one by one.
    Split,
    /// Nobody waits for it any more; nothing may be committed.
    GivenUp,
}

/// Why the records of a reply were not published.
enum Unpublished {
    Rejected(Rejection),
    GivenUp,
}

/// Why a reply is not through.
enum Undelivered {
    Unpublished(Unpublished),
    /// What was to be done beside it failed.
    Beside(Failure),
}

impl From<Unpublished> for Undelivered {
    fn from(unpublished: Unpublished) -> Self {
        Self::Unpublished(unpublished)
    }
}

pub(super) async fn run(shared: Arc<Shared>, batch: Batch) {
    let Batch { key, records, tickets } = batch;
    let started = Instant::now();
    shared.metrics.record(names::BATCH_RECORDS, records.len() as f64, &[]);
    match attempt(&shared, &records, &tickets).await {
        Outcome::Done => tickets.iter().for_each(|ticket| shared.finish(*ticket)),
        Outcome::GivenUp => tickets.iter().for_each(|ticket| shared.abandon(*ticket)),
        Outcome::Split => one_by_one(&shared, &records, &tickets).await,
    }
    if let Some(first) = records.first() {
        shared.metrics.record(names::HANDLE_SECONDS, started.elapsed().as_secs_f64(), &[("topic", &first.topic)]);
    }
    shared.release(key);
}

async fn one_by_one(shared: &Shared, records: &[Inbound], tickets: &[Ticket]) {
    for (at, (record, ticket)) in records.iter().zip(tickets).enumerate() {
        match attempt(shared, slice::from_ref(record), slice::from_ref(ticket)).await {
            Outcome::Done => shared.finish(*ticket),
            // A single record is never split. Those after a given-up one wait for it: order within the key.
            Outcome::GivenUp | Outcome::Split => {
                tickets[at..].iter().for_each(|ticket| shared.abandon(*ticket));
                return;
            }
        }
    }
}

/// Hands the records over until they are handled, dead-lettered, split or given up.
async fn attempt(shared: &Shared, records: &[Inbound], tickets: &[Ticket]) -> Outcome {
    let span = trace::batch_span(&shared.service, records);
    let mut backoff = shared.config.runtime.retry_policy().start();
    let mut tries = 0;
    loop {
        let failure = match handle(shared, records, &span).await {
            Ok(reply) => match deliver(shared, records, tickets, &span, reply, tries + 1).await {
                Ok(()) => return Outcome::Done,
                Err(Undelivered::Unpublished(Unpublished::GivenUp)) => return Outcome::GivenUp,
                Err(Undelivered::Unpublished(Unpublished::Rejected(rejection))) => Failure::Reject(rejection),
                Err(Undelivered::Beside(failure)) => failure,
            },
            Err(failure) => failure,
        };
        let cause = match failure {
            Failure::Fatal(message) => {
                shared.fail(message);
                return Outcome::GivenUp;
            }
            Failure::Reject(rejection) => {
                return match records {
                    [record] => dead_letter(shared, record, tickets, &span, &rejection, tries + 1).await,
                    _ => Outcome::Split,
                };
            }
            Failure::Retry(message) => {
                tries += 1;
                tracing::warn!(parent: &span, service = shared.service, tries, message, "handling failed");
                match records {
                    [record] if tries >= shared.config.runtime.max_tries => {
                        let rejection = Rejection::new(DeadLetterCode::RetriesExhausted, "", message);
                        return dead_letter(shared, record, tickets, &span, &rejection, tries).await;
                    }
                    [_] => {}
                    _ if tries >= BATCH_TRIES.min(shared.config.runtime.max_tries) => return Outcome::Split,
                    _ => {}
                }
                "retry"
            }
            Failure::Unavailable(message) => {
                tracing::warn!(parent: &span, service = shared.service, message, "a dependency is unavailable");
                "unavailable"
            }
        };
        shared.metrics.count(names::RETRIES, &[("cause", cause)]);
        if !shared.rest(backoff.next_delay(), tickets).await {
            return Outcome::GivenUp;
        }
    }
}

/// A handler that panics has failed like one that says so; its key must not stay busy for ever.
async fn handle(shared: &Shared, records: &[Inbound], span: &Span) -> Result<Reply, Failure> {
    // The call itself may panic as well as the future it returns.
    guarded(async { shared.handler.handle(records).await }, span).await
}

async fn guarded<T>(work: impl Future<Output = Result<T, Failure>>, span: &Span) -> Result<T, Failure> {
    let work = AssertUnwindSafe(work).catch_unwind().instrument(span.clone());
    work.await.unwrap_or_else(|_| Err(Failure::Retry("the handler panicked".to_owned())))
}

/// Publishes a reply and its dead letters, does what is to be done beside, then tells the handler.
async fn deliver(
    shared: &Shared,
    records: &[Inbound],
    tickets: &[Ticket],
    span: &Span,
    reply: Reply,
    tries: u32,
) -> Result<(), Undelivered> {
    let Reply { mut publish, rejected, receipt, beside } = reply;
    trace::inject(span, records, &mut publish);
    let beside = guarded(done_beside(beside), span);
    let (published, done) = futures::join!(publish_all(shared, tickets, publish), beside);
    published?;
    done.map_err(Undelivered::Beside)?;
    for (at, rejection) in rejected {
        let Some(record) = records.get(at) else {
            shared.fail(format!("the handler rejected record {at} of a batch of {}", records.len()));
            return Err(Unpublished::GivenUp.into());
        };
        match dead_letter(shared, record, tickets, span, &rejection, tries).await {
            Outcome::Done => {}
            Outcome::Split | Outcome::GivenUp => return Err(Unpublished::GivenUp.into()),
        }
    }
    if let Some(receipt) = receipt {
        shared.handler.acknowledged(receipt);
    }
    Ok(())
}

/// Publishes until everything is acknowledged; a broker that is away is waited for.
async fn publish_all(shared: &Shared, tickets: &[Ticket], records: Vec<Outbound>) -> Result<(), Unpublished> {
    if records.is_empty() {
        return Ok(());
    }
    let mut backoff: Option<Backoff> = None;
    loop {
        match shared.bus.publish(records.clone()).await {
            Ok(()) => return Ok(()),
            Err(Failure::Reject(rejection)) => return Err(Unpublished::Rejected(rejection)),
            Err(Failure::Fatal(message)) => {
                shared.fail(message);
                return Err(Unpublished::GivenUp);
            }
            Err(Failure::Retry(message) | Failure::Unavailable(message)) => {
                tracing::warn!(service = shared.service, message, "publishing failed; the offsets wait");
                shared.metrics.count(names::RETRIES, &[("cause", "publish")]);
            }
        }
        let backoff = backoff.get_or_insert_with(|| shared.config.runtime.retry_policy().start());
        if !shared.rest(backoff.next_delay(), tickets).await {
            return Err(Unpublished::GivenUp);
        }
    }
}

async fn dead_letter(
    shared: &Shared,
    record: &Inbound,
    tickets: &[Ticket],
    span: &Span,
    rejection: &Rejection,
    tries: u32,
) -> Outcome {
    let code = rejection.code.as_str();
    let Inbound { topic, partition, offset, .. } = record;
    tracing::warn!(parent: span, service = shared.service, topic, partition, offset, %rejection, "to dead-letters");
    let mut letter = vec![(shared.dead_letters)(record, rejection, tries, &shared.service)];
    trace::inject(span, slice::from_ref(record), &mut letter);
    let published = match publish_all(shared, tickets, letter).await {
        Err(Unpublished::Rejected(_)) => {
            // The envelope makes it larger than the broker takes. Where it lies is said without its value.
            tracing::error!(
                service = shared.service,
                topic,
                partition,
                offset,
                "too large for dead-letters; sending its coordinates"
            );
            let stripped = Inbound { value: None, ..record.clone() };
            let letter = (shared.dead_letters)(&stripped, rejection, tries, &shared.service);
            publish_all(shared, tickets, vec![letter]).await
        }
        published => published,
    };
    match published {
        Ok(()) => {}
        Err(Unpublished::GivenUp) => return Outcome::GivenUp,
        Err(Unpublished::Rejected(why)) => {
            shared.fail(format!("the broker takes no dead letter for {topic}[{partition}]@{offset}: {why}"));
            return Outcome::GivenUp;
        }
    }
    shared.metrics.count(names::DEAD_LETTERED, &[("code", code), ("topic", topic)]);
    Outcome::Done
}
