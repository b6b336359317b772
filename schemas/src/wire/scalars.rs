//! The scalars of the wire: what Avro has no type for, written as text or long; in JSON as a person expects it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use protocol::{Digest, JsonError, JsonLimits, Timestamp, parse_bounded};
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

use crate::{DeadLetterCode, EncodeError, Rejection, WHOLE_VALUE};

/// A UUID, as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(pub Uuid);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parsed("a UUID", |text| Uuid::parse_str(text).ok().map(Id)))
    }
}

/// A SHA-256, in lower-case hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex(pub Digest);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0_u8; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        serializer.serialize_str(std::str::from_utf8(&text).expect("hexadecimal digits are ASCII"))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parsed("64 hexadecimal digits", |text| Digest::from_hex(text).map(Hex)))
    }
}

/// Reads a text and turns it into something, or says what was expected. It never repeats the text.
struct Parsed<T>(&'static str, fn(&str) -> Option<T>);

impl<T> Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).ok_or_else(|| E::custom(format_args!("expected {}", self.0)))
    }
}

/// A count. Avro's long is signed; a count beyond it, which no run reaches, is written as the largest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(i64::try_from(self.0).unwrap_or(i64::MAX))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        u64::try_from(value).map(Count).map_err(|_| D::Error::custom("expected a count, which is not negative"))
    }
}

/// A time: milliseconds since the Unix epoch in Avro; RFC 3339 in JSON, where milliseconds are read too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Timestamp);

impl Time {
    /// Reads RFC 3339 text.
    pub fn parse(text: &str) -> Option<Self> {
        let time: jiff::Timestamp = text.parse().ok()?;
        Some(Self(Timestamp(time.as_millisecond())))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = self.0.0;
        match jiff::Timestamp::from_millisecond(ms) {
            Ok(time) if serializer.is_human_readable() => serializer.collect_str(&format_args!("{time:.3}")),
            // A time beyond year 9999 has no RFC 3339 text.
            Ok(_) | Err(_) => serializer.serialize_i64(ms),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Ok(Self(Timestamp(i64::deserialize(deserializer)?)));
        }
        let time = match Value::deserialize(deserializer)? {
            Value::String(text) => Self::parse(&text),
            Value::Number(number) => number.as_i64().map(|ms| Self(Timestamp(ms))),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        time.ok_or_else(|| D::Error::custom("expected a time: RFC 3339 text or milliseconds since the Unix epoch"))
    }
}

/// Free-form JSON: its text in Avro; embedded as it is in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(String);

impl Json {
    /// A value that a record carries; refused when the other side would refuse its depth.
    pub fn of(field: &str, value: &Value, limits: JsonLimits) -> Result<Self, EncodeError> {
        Self::checked(field, value.to_string(), limits)
    }

    /// A structure of the protocol, as JSON. Its text keeps every number exact, which the canonical form does not.
    pub fn of_structure<T: Serialize>(field: &str, value: &T, limits: JsonLimits) -> Result<Self, EncodeError> {
        let text = serde_json::to_string(value).expect("a structure of the protocol is always JSON");
        Self::checked(field, text, limits)
    }

    fn checked(field: &str, text: String, limits: JsonLimits) -> Result<Self, EncodeError> {
        if nesting(&text) > limits.depth {
            return Err(EncodeError::TooDeep { field: field.to_owned(), limit: limits.depth });
        }
        Ok(Self(text))
    }

    /// The value, within limits.
    pub fn value(&self, field: &str, limits: JsonLimits) -> Result<Value, Rejection> {
        parse_bounded(self.0.as_bytes(), limits).map_err(|error| json_rejection(field, &error))
    }

    /// The structure of the protocol that this is.
    pub fn structure<T: DeserializeOwned>(&self, field: &str, limits: JsonLimits) -> Result<T, Rejection> {
        if nesting(&self.0) > limits.depth {
            return Err(json_rejection(field, &JsonError::TooDeep(limits.depth)));
        }
        serde_json::from_str(&self.0).map_err(|error| Rejection::new(DeadLetterCode::Malformed, field, bounded(&error)))
    }

    /// Text that a record from outside calls JSON; nothing of it is checked yet.
    pub fn unchecked(text: String) -> Self {
        Self(text)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let value: Value = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
            return value.serialize(serializer);
        }
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Ok(Self(Value::deserialize(deserializer)?.to_string()));
        }
        String::deserialize(deserializer).map(Self)
    }
}

/// Bytes; base64 in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.serialize_str(&BASE64.encode(&self.0));
        }
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_str(Parsed("base64", |text| BASE64.decode(text).ok().map(Bytes)));
        }
        deserializer.deserialize_byte_buf(RawBytes)
    }
}

struct RawBytes;

impl Visitor<'_> for RawBytes {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
        Ok(Bytes(bytes.to_vec()))
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
        Ok(Bytes(bytes))
    }
}

/// How deep brackets nest outside strings.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The typed reason for JSON that was refused.
pub fn json_rejection(field: &str, error: &JsonError) -> Rejection {
    let code = match error {
        JsonError::Oversize { .. } => DeadLetterCode::Oversize,
        JsonError::TooDeep(_) | JsonError::TooManyNodes(_) => DeadLetterCode::TooDeep,
        JsonError::DuplicateKey(_) | JsonError::Malformed(_) => DeadLetterCode::Malformed,
        JsonError::InexactInteger { path, .. } => {
            let base = if field == WHOLE_VALUE { "" } else { field };
            let field = [base, path].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
            return Rejection::new(DeadLetterCode::InvalidRequest, field, bounded(error));
        }
    };
    Rejection::new(code, field, bounded(error))
}

/// An error's text, cut to what a dead letter should hold.
pub fn bounded(error: &dyn fmt::Display) -> String {
    const LONGEST: usize = 300;
    let text = error.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_counts_brackets_outside_strings() {
        assert_eq!(nesting("1"), 0);
        assert_eq!(nesting(r#"{"a":[1,{"b":"]}\"{{"}]}"#), 3);
        assert_eq!(nesting(r#"["\\",[]]"#), 2);
    }

    #[test]
    fn a_time_is_rfc_3339_in_json_and_reads_milliseconds_too() {
        let time = Time(Timestamp(1_733_061_586_005));
        assert_eq!(serde_json::to_string(&time).unwrap(), r#""2024-12-01T13:59:46.005Z""#);
        for text in [r#""2024-12-01T13:59:46.005Z""#, r#""2024-12-01T14:59:46.005+01:00""#, "1733061586005"] {
            assert_eq!(serde_json::from_str::<Time>(text).unwrap(), time);
        }
        let beyond = Time(Timestamp(i64::MAX));
        assert_eq!(serde_json::from_str::<Time>(&serde_json::to_string(&beyond).unwrap()).unwrap(), beyond);
    }
}
