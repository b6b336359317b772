//! How a caller's request reaches a topic: by kcat, as a person would, or by a producer that says when it has failed.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::InvocationId;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use schemas::Inbound;
use serde_json::{Value, json};

use super::{Error, new_id};

/// An invocation request as a caller writes it: JSON, with whatever a test wants wrong about it.
#[derive(Debug, Clone)]
pub struct Request {
    pub id: InvocationId,
    pub body: Value,
}

impl Request {
    pub fn new(tenant: &str, agent: &str, goal: impl Into<Value>) -> Self {
        let goal: Value = goal.into();
        let body = json!({"tenant": tenant, "actor": "tests", "task_type": "test", "agent": agent, "goal": goal});
        Self { id: new_id(), body }
    }

    /// Sets a field; `null` takes it away.
    pub fn with(mut self, field: &str, value: Value) -> Self {
        if let Some(object) = self.body.as_object_mut() {
            match value.is_null() {
                true => drop(object.remove(field)),
                false => drop(object.insert(field.to_owned(), value)),
            }
        }
        self
    }
}

/// Produces requests with kcat, in one call.
pub fn kcat(brokers: &str, topic: &str, requests: &[Request]) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::io("kcat (infra/setup.sh installs it)", &error);
    let mut child = Command::new("kcat")
        .args(["-P", "-b", brokers, "-t", topic, "-K", "\t", "-H", "content-type=application/json"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        for request in requests {
            writeln!(input, "{}\t{}", request.id, request.body).map_err(failed)?;
        }
    }
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::failed("kcat", String::from_utf8_lossy(&output.stderr))),
    }
}

/// A producer whose every call returns when the broker has the record.
pub struct Producer {
    inner: BaseProducer<Failures>,
}

/// Keeps what the broker refused until it is asked for.
#[derive(Clone, Default)]
struct Failures(Arc<Mutex<Option<KafkaError>>>);

impl Failures {
    fn take(&self) -> Option<KafkaError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
    }
}

const PRODUCE: Duration = Duration::from_secs(20);

impl Producer {
    pub fn new(brokers: &str) -> Result<Self, Error> {
        let inner = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("linger.ms", "0")
            .set("enable.idempotence", "true")
            // The broker's limit counts what arrives, so a bomb is a record that is large only once it is unpacked.
            .set("message.max.bytes", "16000000")
            .set("compression.codec", "zstd")
            .create_with_context(Failures::default())?;
        Ok(Self { inner })
    }

    pub fn request(&self, topic: &str, request: &Request) -> Result<(), Error> {
        self.bytes(topic, &request.id.to_string(), request.body.to_string().as_bytes())
    }

    pub fn bytes(&self, topic: &str, key: &str, value: &[u8]) -> Result<(), Error> {
        self.send(BaseRecord::to(topic).key(key.as_bytes()).payload(value))
    }

    /// The same record once more: same key, value, headers and partition, and one header more.
    pub(super) fn copy(&self, record: &Inbound, mark: &str) -> Result<(), Error> {
        let mark = OwnedHeaders::new().insert(Header { key: mark, value: Some("1") });
        let headers = record
            .headers
            .iter()
            .fold(mark, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
        let mut copy =
            BaseRecord::to(&record.topic).partition(record.partition).timestamp(record.timestamp_ms).headers(headers);
        if let Some(key) = &record.key {
            copy = copy.key(key.as_slice());
        }
        if let Some(value) = &record.value {
            copy = copy.payload(value.as_slice());
        }
        self.send(copy)
    }

    fn send(&self, record: BaseRecord<'_, [u8], [u8]>) -> Result<(), Error> {
        self.inner.send(record).map_err(|(error, _)| error)?;
        // Not `flush`, which looks at the queue ten times a second: a test measures what comes after this call.
        let deadline = Instant::now() + PRODUCE;
        while self.inner.in_flight_count() > 0 {
            if Instant::now() > deadline {
                let seen = "it is still in flight".to_owned();
                return Err(Error::Late { what: "an acknowledged record".to_owned(), within: PRODUCE, seen });
            }
            self.inner.poll(Duration::from_millis(1));
        }
        match self.inner.context().take() {
            None => Ok(()),
            Some(error) => Err(error.into()),
        }
    }
}
