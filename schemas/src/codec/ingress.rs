//! What `invocations` and `controls` share: records from outside, as JSON or Avro.

use protocol::InvocationId;

use super::fields::Fields;
use super::{Codec, Framing, key_of};
use crate::wire::json_rejection;
use crate::{DeadLetterCode, Inbound, Rejection, Topic, WHOLE_VALUE};

/// A record from outside, before its fields are read.
pub(super) enum Raw<T> {
    Json(Fields),
    Avro(T),
}

impl Codec {
    pub(super) fn raw<T: serde::de::DeserializeOwned>(
        &self,
        topic: Topic,
        record: &Inbound,
    ) -> Result<Raw<T>, Rejection> {
        match self.framed(topic, record)? {
            (Framing::Json, value) => {
                let parsed = protocol::parse_bounded(value, self.limits.outside());
                let parsed = parsed.map_err(|error| json_rejection(WHOLE_VALUE, &error))?;
                if parsed.get("specversion").is_some() {
                    let message =
                        "structured CloudEvents are not read; send `data` as the value and the rest as headers";
                    return Err(Rejection::new(DeadLetterCode::Malformed, "specversion", message));
                }
                let mut fields = Fields::of(parsed, "")?;
                fields.version()?;
                Ok(Raw::Json(fields))
            }
            (framing, value) => self.read_avro(topic, &framing, value).map(Raw::Avro),
        }
    }
}

/// The Invocation ID of a record from outside: its field, its key, or both when they agree.
pub(super) fn identify(record: &Inbound, field: Option<&str>) -> Result<InvocationId, Rejection> {
    let mismatch = |message: &str| Rejection::new(DeadLetterCode::KeyMismatch, "invocation_id", message);
    let field: Option<InvocationId> = match field {
        None => None,
        Some(text) => {
            let message = "must be a UUID, such as 0198c0de-0000-7000-8000-000000000001";
            let malformed = |_| Rejection::new(DeadLetterCode::Malformed, "invocation_id", message);
            Some(text.parse().map_err(malformed)?)
        }
    };
    match (field, key_of(record)) {
        (Some(field), Some(key)) if field == key => Ok(field),
        (Some(_), Some(_)) => Err(mismatch("is not the record's key; leave one out or make them equal")),
        (None, Some(key)) => Ok(key),
        // A key that is no UUID belongs to another scheme, which would break the order per invocation.
        (Some(_), None) => Err(mismatch("the record's key must be the same UUID as text")),
        (None, None) => Err(mismatch("is required, as a UUID, here or as the record's key")),
    }
}
