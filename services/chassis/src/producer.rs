//! The production bus: idempotent producers with one bounded window. What timed out is unknown and is published again
//! with the same `event_id`.
//!
//! A broker's work is counted in requests, not in records. So there are two producers: one sends at once, and one gathers
//! for some milliseconds, which is used while many records wait for their acknowledgement anyhow. A lone run keeps its
//! short hops; under load a request carries many records. Order across commits is promised to nobody.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer as _};
use schemas::{DeadLetterCode, Outbound, Rejection, Topic};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{Bus, Error, Failure, KafkaConfig, Metrics, RetryPolicy, names};

/// How often one publish is repeated inside the bus; the caller repeats after that.
const ROUNDS: u32 = 3;

struct Context;

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        crate::client::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        crate::client::log_error(&error, reason);
    }
}

type Producer = FutureProducer<Context>;

/// Publishes to Kafka. Resolves when every record is acknowledged by all in-sync replicas.
pub struct KafkaBus {
    prompt: Line,
    gathering: Line,
    window: Semaphore,
    window_size: usize,
    /// With more records than this in the window, publishing gathers.
    gather_above: usize,
    topics: HashMap<Topic, String>,
    retry: RetryPolicy,
    metrics: Metrics,
}

/// A producer and its successors.
struct Line {
    settings: ClientConfig,
    /// Replaced, and its number raised, when librdkafka declares the producer dead.
    producer: Mutex<(u64, Producer)>,
}

impl Line {
    fn new(settings: ClientConfig) -> Result<Self, KafkaError> {
        let producer = Producer::from_config_and_context(&settings, Context)?;
        Ok(Self { settings, producer: Mutex::new((0, producer)) })
    }

    fn current(&self) -> (u64, Producer) {
        let guard = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        (guard.0, guard.1.clone())
    }

    /// Replaces a dead producer, unless somebody did already.
    fn replace(&self, dead: u64) -> Result<(), Failure> {
        let mut guard = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.0 == dead {
            tracing::error!("the producer is in a fatal state; building a new one");
            let fresh = Producer::from_config_and_context(&self.settings, Context);
            *guard = (dead + 1, fresh.map_err(|error| Failure::Unavailable(error.to_string()))?);
        }
        Ok(())
    }
}

impl KafkaBus {
    pub fn new(config: &KafkaConfig, service: &str, retry: RetryPolicy, metrics: Metrics) -> Result<Self, Error> {
        let prompt = Line::new(crate::client::producer(config, service, 0))?;
        let gathering = Line::new(crate::client::producer(config, service, config.gather_ms))?;
        let topics = Topic::ALL.into_iter().map(|topic| (topic, topic.name(&config.topic_prefix))).collect();
        let window_size = config.publish_window;
        let window = Semaphore::new(window_size);
        let gather_above = config.gather_above;
        Ok(Self { prompt, gathering, window, window_size, gather_above, topics, retry, metrics })
    }

    /// The cluster's ID; blocks up to `timeout`.
    pub fn cluster_id(&self, timeout: Duration) -> Option<String> {
        self.prompt.current().1.client().fetch_cluster_id(timeout)
    }

    /// Waits until nothing is in the producers' queues, up to `timeout` each. Blocks.
    pub fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.prompt.current().1.flush(timeout)?;
        Ok(self.gathering.current().1.flush(timeout)?)
    }

    /// What the load asks for; the caller's own records are in the window already.
    fn line(&self) -> &Line {
        let waiting = self.window_size.saturating_sub(self.window.available_permits());
        if waiting > self.gather_above { &self.gathering } else { &self.prompt }
    }

    /// Takes places in the window; a batch larger than the window takes all of it.
    async fn reserve(&self, records: usize) -> Result<SemaphorePermit<'_>, Failure> {
        let places = u32::try_from(records.min(self.window_size)).unwrap_or(u32::MAX);
        if let Ok(permit) = self.window.try_acquire_many(places) {
            return Ok(permit);
        }
        self.metrics.count(names::WINDOW_WAITS, &[]);
        let permit = self.window.acquire_many(places).await;
        permit.map_err(|_| Failure::Unavailable("the publish window is closed".to_owned()))
    }

    /// Enqueues all in order, then waits for all. Returns what must be published again.
    async fn round(&self, records: Vec<Outbound>) -> Result<Vec<(KafkaError, Outbound)>, Failure> {
        let line = self.line();
        let (number, producer) = line.current();
        let mut waiting = Vec::with_capacity(records.len());
        let mut failed = Vec::new();
        for record in records {
            match self.enqueue(&producer, &record) {
                Ok(delivery) => waiting.push((delivery, record)),
                Err(error) => failed.push((error, record)),
            }
        }
        for (delivery, record) in waiting {
            match delivery.await {
                Ok(Ok(_)) => self.metrics.count(names::PUBLISHED, &[("topic", record.topic.short_name())]),
                Ok(Err((error, _))) => failed.push((error, record)),
                Err(_) => failed.push((KafkaError::Canceled, record)),
            }
        }
        if let Some((error, record)) = failed.iter().find(|(error, _)| is_record_at_fault(error)) {
            let what = format!("a record for {} cannot be published: {error}", record.topic.short_name());
            return Err(Failure::Reject(Rejection::new(DeadLetterCode::Oversize, "", what)));
        }
        if !failed.is_empty() && producer.client().fatal_error().is_some() {
            line.replace(number)?;
        }
        Ok(failed)
    }

    fn enqueue(&self, producer: &Producer, record: &Outbound) -> Result<DeliveryFuture, KafkaError> {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: Some(value.as_slice()) });
        }
        let topic = self.topics.get(&record.topic).expect("every topic has a name");
        let message = FutureRecord::to(topic).key(&record.key).payload(&record.value).headers(headers);
        producer.send_result(message).map_err(|(error, _)| error)
    }
}

#[async_trait]
impl Bus for KafkaBus {
    async fn publish(&self, mut records: Vec<Outbound>) -> Result<(), Failure> {
        if records.is_empty() {
            return Ok(());
        }
        let _places = self.reserve(records.len()).await?;
        let mut backoff = self.retry.start();
        for round in 1.. {
            let failed = self.round(records).await?;
            let Some((error, first)) = failed.first() else {
                return Ok(());
            };
            let topic = first.topic.short_name();
            tracing::warn!(%error, topic, records = failed.len(), round, "not acknowledged; publishing again");
            self.metrics.add(names::REPUBLISHED, failed.len() as u64, &[("topic", topic)]);
            if round == ROUNDS {
                return Err(Failure::Unavailable(format!("{topic} was not acknowledged: {error}")));
            }
            records = failed.into_iter().map(|(_, record)| record).collect();
            tokio::time::sleep(backoff.next_delay()).await;
        }
        Ok(())
    }
}

/// Errors that no repetition mends, because of the record and not of the broker.
fn is_record_at_fault(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidMessageSize
                | RDKafkaErrorCode::InvalidMessage
                | RDKafkaErrorCode::InvalidRecord
        )
    )
}
