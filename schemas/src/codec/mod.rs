//! The codec: protocol messages to records and back, in every format that a topic may carry. It does no I/O except for
//! the registry's own calls, and never panics on what it reads.

mod control;
mod dead_letter;
mod fields;
mod ingress;
mod messages;
mod request;

use protocol::{EventId, InvocationId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::avro::{self, HEADER_BYTES, SINGLE_OBJECT_MARKER};
use crate::headers::{self, CloudEvent};
use crate::registry::Registry;
use crate::wire::{bounded, json_rejection};
use crate::{DeadLetterCode, Inbound, Limits, Outbound, RegistryError, Rejection, Topic, WHOLE_VALUE};

pub use control::ControlRecord;
pub use dead_letter::DeadLetter;
pub use messages::WireMessage;

/// The format of a value that people may read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WireFormat {
    #[default]
    Json,
    Avro,
}

/// `wire.public`: the format of what callers read.
pub type PublicWire = WireFormat;

/// What a codec needs to know.
#[derive(Clone)]
pub struct CodecConfig {
    /// The prefix of topic names.
    pub prefix: String,
    /// The format of `terminals`, `events` and `dead-letters`.
    pub public: PublicWire,
    /// CloudEvents' `source`: who produces.
    pub source: String,
    /// A schema registry's address, which may hold credentials; Confluent framing is written when set.
    pub registry: Option<String>,
    pub limits: Limits,
}

impl Default for CodecConfig {
    fn default() -> Self {
        Self {
            prefix: crate::DEFAULT_PREFIX.to_owned(),
            public: PublicWire::default(),
            source: "turnwright".to_owned(),
            registry: None,
            limits: Limits::default(),
        }
    }
}

/// Why a message cannot be a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Its readers would refuse it.
    #[error("a {record} of {bytes} bytes is over the limit of {limit}")]
    Oversize { record: &'static str, bytes: usize, limit: usize },
    /// Its readers would refuse it.
    #[error("{field}: nested deeper than {limit} levels")]
    TooDeep { field: String, limit: usize },
    /// A registry is configured, and [`Codec::connect_registry`] has not succeeded yet.
    #[error("the registry ID of {record} is not known yet")]
    Unregistered { record: &'static str },
    /// The record's structure does not fit its schema: a defect of this crate.
    #[error("a {record} does not fit its schema: {why}")]
    Unencodable { record: &'static str, why: String },
}

/// Encodes and decodes the records of every topic. Shared by reference; cheap to call.
pub struct Codec {
    prefix: String,
    public: PublicWire,
    source: String,
    registry: Option<Registry>,
    limits: Limits,
}

/// How a value is framed.
enum Framing {
    Json,
    SingleObject,
    Confluent(u32),
}

impl Codec {
    pub fn new(config: CodecConfig) -> Self {
        let CodecConfig { prefix, public, source, registry, limits } = config;
        Self { prefix, public, source, registry: registry.map(Registry::new), limits: limits.capped() }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A record of this codec's as its reader gets it. What only a broker knows (partition, offset, time) is 0.
    pub fn arrival(&self, record: Outbound) -> Inbound {
        Inbound {
            topic: self.topic_name(record.topic),
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(record.key),
            value: Some(record.value),
            headers: record.headers,
        }
    }

    /// The Kafka topic's full name.
    pub fn topic_name(&self, topic: Topic) -> String {
        topic.name(&self.prefix)
    }

    /// Learns the registry's IDs of our schemas, at start; `register` registers them first. Does nothing without a
    /// registry.
    pub async fn connect_registry(&self, register: bool) -> Result<(), RegistryError> {
        match &self.registry {
            Some(registry) => registry.connect(&self.prefix, register).await,
            None => Ok(()),
        }
    }

    /// Fetches the schemas that these records were written with and that are not known yet. Called before `decode`; does
    /// nothing without a registry. A schema that the registry does not have is remembered as such.
    pub async fn learn(&self, records: &[Inbound]) -> Result<(), RegistryError> {
        match &self.registry {
            Some(registry) => registry.learn(records.iter().filter_map(confluent_id)).await,
            None => Ok(()),
        }
    }

    fn format_of(&self, topic: Topic) -> WireFormat {
        if topic.is_public() { self.public } else { WireFormat::Avro }
    }

    /// A datum as a record's value.
    fn write<T: Serialize>(&self, topic: Topic, format: WireFormat, datum: &T) -> Result<Vec<u8>, EncodeError> {
        let record = topic.record_name();
        let unencodable = |why: &dyn std::fmt::Display| EncodeError::Unencodable { record, why: bounded(why) };
        let value = match format {
            WireFormat::Json => serde_json::to_vec(datum).map_err(|error| unencodable(&error))?,
            WireFormat::Avro => {
                let mut value = Vec::with_capacity(512);
                match &self.registry {
                    None => value.extend_from_slice(avro::header(topic)),
                    Some(registry) => {
                        let id = registry.id(topic).ok_or(EncodeError::Unregistered { record })?;
                        value.push(0);
                        value.extend_from_slice(&id.to_be_bytes());
                    }
                }
                avro::write(topic, datum, &mut value).map_err(|error| unencodable(&error))?;
                value
            }
        };
        if value.len() > self.limits.bytes {
            return Err(EncodeError::Oversize { record, bytes: value.len(), limit: self.limits.bytes });
        }
        Ok(value)
    }

    fn outbound(&self, place: Place, value: Vec<u8>) -> Outbound {
        let Place { topic, format, subject, event_id, time_ms } = place;
        let content_type = match format {
            WireFormat::Json => headers::JSON,
            WireFormat::Avro => headers::AVRO,
        };
        let event = CloudEvent {
            id: event_id,
            record: topic.record_name(),
            source: &self.source,
            subject: Some(subject),
            time_ms,
            content_type,
        };
        Outbound { topic, key: subject.to_string().into_bytes(), value, headers: event.headers(), event_id }
    }

    /// The value within the byte limit, and how it is framed.
    fn framed<'r>(&self, topic: Topic, record: &'r Inbound) -> Result<(Framing, &'r [u8]), Rejection> {
        let value = record.value.as_deref();
        let value =
            value.ok_or_else(|| Rejection::new(DeadLetterCode::Malformed, WHOLE_VALUE, "the record has no value"))?;
        if value.len() > self.limits.bytes {
            let message = format!("{} bytes are more than the limit of {}", value.len(), self.limits.bytes);
            return Err(Rejection::new(DeadLetterCode::Oversize, WHOLE_VALUE, message));
        }
        let accepts_json = topic.is_ingress() || topic.is_public();
        if accepts_json && is_json(record, value) {
            return Ok((Framing::Json, value));
        }
        if value.starts_with(&SINGLE_OBJECT_MARKER) && value.len() >= HEADER_BYTES {
            return Ok((Framing::SingleObject, value));
        }
        if let Some(id) = confluent_id(record) {
            return Ok((Framing::Confluent(id), &value[CONFLUENT_HEADER_BYTES..]));
        }
        let message = match accepts_json {
            true => "must be a JSON object, or Avro in single-object or Confluent framing",
            false => "must be Avro in single-object or Confluent framing",
        };
        Err(Rejection::new(DeadLetterCode::Malformed, WHOLE_VALUE, message))
    }

    /// An Avro datum, written with our schema or with another that resolves to it.
    fn read_avro<T: DeserializeOwned>(&self, topic: Topic, framing: &Framing, value: &[u8]) -> Result<T, Rejection> {
        let (writer, mut datum) = match framing {
            Framing::SingleObject | Framing::Json => {
                let (header, datum) = value.split_at(HEADER_BYTES);
                let writer = match avro::past(topic, header) {
                    Some(past) => Some(past),
                    None if header == avro::header(topic) => None,
                    None => return Err(unknown_fingerprint(topic, header)),
                };
                (writer, datum)
            }
            Framing::Confluent(id) => {
                let known = self.registry.as_ref().and_then(|registry| registry.writer(*id));
                let unknown = || {
                    let message = format!("no schema is known for registry ID {id}");
                    Rejection::new(DeadLetterCode::UnknownVersion, WHOLE_VALUE, message)
                };
                (Some(known.ok_or_else(unknown)?), value)
            }
        };
        let read = avro::read(topic, writer.as_deref(), &mut datum);
        let malformed = |why: String| {
            let message = format!("is not a valid {}: {why}", topic.record_name());
            Rejection::new(DeadLetterCode::Malformed, WHOLE_VALUE, message)
        };
        let read = read.map_err(|error| malformed(bounded(&error)))?;
        if !datum.is_empty() {
            return Err(malformed(format!("{} bytes follow it", datum.len())));
        }
        Ok(read)
    }

    /// A value of a topic that we write ourselves.
    fn read<T: DeserializeOwned>(&self, topic: Topic, record: &Inbound) -> Result<T, Rejection> {
        match self.framed(topic, record)? {
            (Framing::Json, value) => {
                let parsed = protocol::parse_bounded(value, self.limits.envelope());
                let parsed = parsed.map_err(|error| json_rejection(WHOLE_VALUE, &error))?;
                serde_json::from_value(parsed).map_err(|error| {
                    let message = format!("is not a valid {}: {}", topic.record_name(), bounded(&error));
                    Rejection::new(DeadLetterCode::Malformed, WHOLE_VALUE, message)
                })
            }
            (framing, value) => self.read_avro(topic, &framing, value),
        }
    }
}

/// Where a record goes and what identifies it.
struct Place {
    topic: Topic,
    format: WireFormat,
    subject: InvocationId,
    event_id: EventId,
    time_ms: Option<i64>,
}

const CONFLUENT_HEADER_BYTES: usize = 5;

/// The registry ID of a value in Confluent framing.
fn confluent_id(record: &Inbound) -> Option<u32> {
    match record.value.as_deref()? {
        [0, a, b, c, d, ..] => Some(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

fn is_json(record: &Inbound, value: &[u8]) -> bool {
    let starts_with_brace = value.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let named = |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(headers::JSON));
    starts_with_brace || record.header(headers::CONTENT_TYPE).is_some_and(named)
}

fn unknown_fingerprint(topic: Topic, header: &[u8]) -> Rejection {
    let message = match avro::topic_of(header) {
        Some(other) => format!("is a {}, and {} was expected", other.record_name(), topic.record_name()),
        None => {
            let hex: String =
                header.iter().skip(SINGLE_OBJECT_MARKER.len()).map(|byte| format!("{byte:02x}")).collect();
            format!("no {} has the schema fingerprint {hex}", topic.record_name())
        }
    };
    Rejection::new(DeadLetterCode::UnknownVersion, WHOLE_VALUE, message)
}

/// The record's key must name the invocation that the value names.
fn check_key(record: &Inbound, invocation_id: InvocationId) -> Result<(), Rejection> {
    let mismatch = |message: &str| Err(Rejection::new(DeadLetterCode::KeyMismatch, "key", message));
    match key_of(record) {
        None => mismatch("must be the invocation ID as text"),
        Some(key) if key != invocation_id => mismatch("is not the invocation_id of the value"),
        Some(_) => Ok(()),
    }
}

/// The Invocation ID that the record's key holds as text.
fn key_of(record: &Inbound) -> Option<InvocationId> {
    std::str::from_utf8(record.key.as_deref()?).ok()?.trim().parse().ok()
}
