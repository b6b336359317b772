//! A record as the outbox keeps it: length-prefixed fields, so that the relay publishes exactly the bytes that were
//! decided on.

use protocol::EventId;

use crate::{Outbound, Topic};

/// Why stored bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stored record is cut off or of another format")]
pub struct NotARecord;

const FORMAT: u8 = 1;

impl Outbound {
    /// The bytes that [`Outbound::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.value.len() + 512);
        out.push(FORMAT);
        out.push(u8::try_from(position(self.topic)).expect("there are twelve topics"));
        out.extend_from_slice(self.event_id.0.as_bytes());
        put(&mut out, &self.key);
        put(&mut out, &self.value);
        for (name, value) in &self.headers {
            put(&mut out, name.as_bytes());
            put(&mut out, value);
        }
        out
    }

    /// Reads what [`Outbound::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotARecord> {
        let [FORMAT, topic, rest @ ..] = bytes else {
            return Err(NotARecord);
        };
        let topic = *Topic::ALL.get(usize::from(*topic)).ok_or(NotARecord)?;
        let (id, mut rest) = rest.split_first_chunk::<16>().ok_or(NotARecord)?;
        let event_id = EventId(uuid::Uuid::from_bytes(*id));
        let key = take(&mut rest)?;
        let value = take(&mut rest)?;
        let mut headers = Vec::new();
        while !rest.is_empty() {
            let name = String::from_utf8(take(&mut rest)?).map_err(|_| NotARecord)?;
            headers.push((name, take(&mut rest)?));
        }
        Ok(Self { topic, key, value, headers, event_id })
    }
}

fn position(topic: Topic) -> usize {
    Topic::ALL.iter().position(|known| *known == topic).expect("every topic is in the list")
}

fn put(out: &mut Vec<u8>, field: &[u8]) {
    let length = u32::try_from(field.len()).expect("a record is smaller than 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(field);
}

fn take(rest: &mut &[u8]) -> Result<Vec<u8>, NotARecord> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or(NotARecord)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| NotARecord)?;
    let field = after.get(..length).ok_or(NotARecord)?.to_vec();
    *rest = &after[length..];
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_record_reads_back_and_a_cut_one_is_refused() {
        let record = Outbound {
            topic: Topic::OutcomeUnknown,
            key: b"key".to_vec(),
            value: vec![0, 1, 2, 255],
            headers: vec![("ce_id".into(), b"x".to_vec()), ("traceparent".into(), Vec::new())],
            event_id: EventId(uuid::Uuid::from_u128(9)),
        };
        let bytes = record.to_bytes();
        assert_eq!(Outbound::from_bytes(&bytes), Ok(record));
        for cut in [0, 1, 10, 20, bytes.len() - 1] {
            assert_eq!(Outbound::from_bytes(&bytes[..cut]), Err(NotARecord));
        }
        assert_eq!(Outbound::from_bytes(&[9; 40]), Err(NotARecord));
    }
}
