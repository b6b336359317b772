//! The headers of every record: CloudEvents in binary mode and W3C trace context.

use protocol::{EventId, InvocationId};

use crate::{Inbound, Outbound};

pub const CE_ID: &str = "ce_id";
pub const CE_TYPE: &str = "ce_type";
pub const CE_SOURCE: &str = "ce_source";
pub const CE_SPECVERSION: &str = "ce_specversion";
pub const CE_TIME: &str = "ce_time";
pub const CE_SUBJECT: &str = "ce_subject";
pub const CONTENT_TYPE: &str = "content-type";
/// The Ed25519 signature of a control, `<key id>:<base64>`.
pub const SIGNATURE: &str = "turnwright-signature";
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// The content type of a JSON value.
pub const JSON: &str = "application/json";
/// The content type of an Avro value, in either framing.
pub const AVRO: &str = "application/avro";

/// W3C trace context as its two headers carry it; not validated here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceContext {
    pub traceparent: Option<String>,
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// The context that a record carries.
    pub fn of(record: &Inbound) -> Self {
        let owned = |name| record.header(name).map(str::to_owned);
        Self { traceparent: owned(TRACEPARENT), tracestate: owned(TRACESTATE) }
    }

    /// Puts this context on a record, in place of the one it has.
    pub fn put(&self, record: &mut Outbound) {
        record.headers.retain(|(name, _)| name != TRACEPARENT && name != TRACESTATE);
        for (name, value) in [(TRACEPARENT, &self.traceparent), (TRACESTATE, &self.tracestate)] {
            if let Some(value) = value {
                record.headers.push((name.to_owned(), value.clone().into_bytes()));
            }
        }
    }
}

/// What the CloudEvents headers of one record say.
pub(crate) struct CloudEvent<'a> {
    pub id: EventId,
    /// The record's name in the schema.
    pub record: &'a str,
    pub source: &'a str,
    pub subject: Option<InvocationId>,
    pub time_ms: Option<i64>,
    pub content_type: &'a str,
}

impl CloudEvent<'_> {
    pub fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let mut headers = Vec::with_capacity(9);
        let mut push = |name: &str, value: String| headers.push((name.to_owned(), value.into_bytes()));
        push(CE_SPECVERSION, "1.0".to_owned());
        push(CE_ID, self.id.to_string());
        push(CE_TYPE, cloud_event_type(self.record));
        push(CE_SOURCE, self.source.to_owned());
        if let Some(subject) = self.subject {
            push(CE_SUBJECT, subject.to_string());
        }
        if let Some(time) = self.time_ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()) {
            push(CE_TIME, format!("{time:.3}"));
        }
        push(CONTENT_TYPE, self.content_type.to_owned());
        headers
    }
}

/// The CloudEvents type of a record.
pub fn cloud_event_type(record: &str) -> String {
    format!("turnwright.{record}.v1")
}
