//! A record as the bus carries it, before and after Kafka; knows nothing of librdkafka.

use protocol::EventId;

use crate::Topic;

/// A record to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    pub topic: Topic,
    /// The Invocation ID as text, on every topic but `dead-letters`, where it is the original key.
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// CloudEvents and trace context are among them; they are made in `headers`.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Equal whenever the same record is published again.
    pub event_id: EventId,
}

/// A record as consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// The topic's full name: several input topics may carry one record type (ingress).
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since the Unix epoch, by the producer or the broker; 0 when absent.
    pub timestamp_ms: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Inbound {
    /// The value of the last header of that name, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().rev().find(|(n, _)| n == name)?;
        std::str::from_utf8(value).ok()
    }
}
