//! `dead-letters`: the original record, as it was, with a typed reason. Making one never fails, so that no record can
//! hold up its partition.

use protocol::{EventId, Timestamp};
use uuid::Uuid;

use super::{Codec, WireFormat};
use crate::headers::{self, CloudEvent, TraceContext};
use crate::wire::{Bytes, DeadLettered, Header, LetterCode, Time};
use crate::{Inbound, Outbound, Rejection, Topic};

/// The most bytes of headers that a dead letter keeps, whole headers only.
const MAX_HEADER_BYTES: usize = 32 * 1024;
/// The longest key that a dead letter keeps.
const MAX_KEY_BYTES: usize = 8 * 1024;
/// The longest text of the reason.
const MAX_TEXT_BYTES: usize = 2 * 1024;

/// A dead letter, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub rejection: Rejection,
    pub attempts: u32,
    pub service: String,
    /// The original record. Its value is cut when [`DeadLetter::value_length`] is longer.
    pub record: Inbound,
    pub value_length: usize,
}

impl Codec {
    /// The dead letter of a record. The same record always gives the same `event_id`.
    pub fn dead_letter(&self, record: &Inbound, rejection: &Rejection, attempts: u32, service: &str) -> Outbound {
        let format = self.format_of(Topic::DeadLetters);
        let wire = self.letter(record, rejection, attempts, service);
        let (format, value) = match self.write(Topic::DeadLetters, format, &wire) {
            Ok(value) => (format, value),
            // The registry is not connected yet, or the limits are smaller than the envelope.
            Err(_) => (WireFormat::Json, serde_json::to_vec(&wire).expect("a dead letter is always JSON")),
        };
        let event_id = letter_id(record);
        let content_type = match format {
            WireFormat::Json => headers::JSON,
            WireFormat::Avro => headers::AVRO,
        };
        let event = CloudEvent {
            id: event_id,
            record: Topic::DeadLetters.record_name(),
            source: &self.source,
            subject: super::key_of(record),
            time_ms: None,
            content_type,
        };
        let key = record.key.clone().unwrap_or_default();
        let mut letter = Outbound { topic: Topic::DeadLetters, key, value, headers: event.headers(), event_id };
        TraceContext::of(record).put(&mut letter);
        letter
    }

    /// Reads a dead letter, for those who look into them or send the original again.
    pub fn decode_dead_letter(&self, record: &Inbound) -> Result<DeadLetter, Rejection> {
        let wire: DeadLettered = self.read(Topic::DeadLetters, record)?;
        let code = wire.code.core("code")?;
        Ok(DeadLetter {
            rejection: Rejection { code, field: wire.field, message: wire.message },
            attempts: wire.attempts,
            service: wire.service,
            value_length: usize::try_from(wire.value_length).unwrap_or(0),
            record: Inbound {
                topic: wire.topic,
                partition: i32::try_from(wire.partition).unwrap_or(-1),
                offset: wire.offset,
                timestamp_ms: wire.timestamp.0.0,
                key: wire.key.map(|key| key.0),
                value: wire.value.map(|value| value.0),
                headers: wire.headers.into_iter().map(|header| (header.name, header.value.0)).collect(),
            },
        })
    }

    fn letter(&self, record: &Inbound, rejection: &Rejection, attempts: u32, service: &str) -> DeadLettered {
        let cut = |bytes: &Vec<u8>, most: usize| Bytes(bytes[..bytes.len().min(most)].to_vec());
        let mut room = MAX_HEADER_BYTES;
        let mut headers = Vec::new();
        for (name, value) in &record.headers {
            let size = name.len() + value.len();
            if size <= room {
                room -= size;
                headers.push(Header { name: name.clone(), value: Bytes(value.clone()) });
            }
        }
        DeadLettered {
            code: LetterCode::from(rejection.code),
            field: cut_text(&rejection.field),
            message: cut_text(&rejection.message),
            attempts,
            service: service.to_owned(),
            topic: record.topic.clone(),
            partition: i64::from(record.partition),
            offset: record.offset,
            timestamp: Time(Timestamp(record.timestamp_ms)),
            key: record.key.as_ref().map(|key| cut(key, MAX_KEY_BYTES)),
            value: record.value.as_ref().map(|value| cut(value, self.limits.dead_letter_bytes)),
            value_length: record.value.as_ref().map_or(0, |value| i64::try_from(value.len()).unwrap_or(i64::MAX)),
            headers,
        }
    }
}

/// Derived from where the record stood, and from its timestamp, since a replaced cluster counts from 0 again.
fn letter_id(record: &Inbound) -> EventId {
    let place = format!("{}/{}/{}/{}", record.topic, record.partition, record.offset, record.timestamp_ms);
    EventId(Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("turnwright:dead-letter/{place}").as_bytes()))
}

fn cut_text(text: &str) -> String {
    let most = (0..=MAX_TEXT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..most].to_owned()
}
