//! JSON as untrusted input (S8): limits before parsing, duplicate keys refused; and its canonical form (RFC 8785).

use std::fmt;

use serde::Serialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::Digest;

/// What a JSON document from outside may be at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    pub bytes: usize,
    pub depth: usize,
    /// Values and keys, all together.
    pub nodes: usize,
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self { bytes: 256 * 1024, depth: 32, nodes: 20_000 }
    }
}

/// Why a document was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("{bytes} bytes are more than the limit of {limit}")]
    Oversize { bytes: usize, limit: usize },
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    #[error("more than {0} values")]
    TooManyNodes(usize),
    #[error("the key `{0}` stands twice in one object")]
    DuplicateKey(String),
    /// I-JSON (RFC 7493) and the canonical form know numbers as doubles: two such integers could become one.
    #[error("the integer {number} is not exact in JSON; send it as text")]
    InexactInteger { path: String, number: String },
    #[error("not JSON: {0}")]
    Malformed(String),
}

/// The largest integer that a double, and so the canonical form, tells from its neighbours: 2^53 - 1.
pub const MAX_EXACT_INTEGER: u64 = (1 << 53) - 1;

/// Parses a document within its limits.
pub fn parse_bounded(bytes: &[u8], limits: JsonLimits) -> Result<Value, JsonError> {
    if bytes.len() > limits.bytes {
        return Err(JsonError::Oversize { bytes: bytes.len(), limit: limits.bytes });
    }
    let mut guard = Guard { limits, nodes: 0, path: Vec::new(), broken: None };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = Bounded { guard: &mut guard, depth: 0 }.deserialize(&mut deserializer);
    let parsed = parsed.and_then(|value| deserializer.end().map(|()| value));
    match (parsed, guard.broken) {
        (_, Some(broken)) => Err(broken),
        (Ok(value), None) => Ok(value),
        (Err(error), None) => Err(JsonError::Malformed(error.to_string())),
    }
}

/// The canonical bytes of a JSON value, or of a map of them (RFC 8785).
pub fn canonical(value: &impl Serialize) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("a JSON value always has a canonical form")
}

/// The digest of a value's canonical form.
pub fn canonical_digest(domain: &str, value: &Value) -> Digest {
    Digest::of(domain, &[&canonical(value)])
}

struct Guard {
    limits: JsonLimits,
    nodes: usize,
    path: Vec<String>,
    broken: Option<JsonError>,
}

struct Bounded<'g> {
    guard: &'g mut Guard,
    depth: usize,
}

impl Bounded<'_> {
    fn break_off<E: de::Error>(&mut self, error: JsonError) -> E {
        let text = error.to_string();
        self.guard.broken.get_or_insert(error);
        E::custom(text)
    }

    fn enter<E: de::Error>(&mut self) -> Result<Bounded<'_>, E> {
        if self.depth >= self.guard.limits.depth {
            return Err(self.break_off(JsonError::TooDeep(self.guard.limits.depth)));
        }
        Ok(Bounded { depth: self.depth + 1, guard: self.guard })
    }

    fn exact<E: de::Error>(&mut self, magnitude: u64, number: &dyn fmt::Display) -> Result<(), E> {
        match magnitude <= MAX_EXACT_INTEGER {
            true => Ok(()),
            false => {
                let (path, number) = (self.guard.path.join("."), number.to_string());
                Err(self.break_off(JsonError::InexactInteger { path, number }))
            }
        }
    }

    fn count<E: de::Error>(&mut self) -> Result<(), E> {
        self.guard.nodes += 1;
        if self.guard.nodes > self.guard.limits.nodes {
            return Err(self.break_off(JsonError::TooManyNodes(self.guard.limits.nodes)));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(mut self, value: i64) -> Result<Value, E> {
        self.exact(value.unsigned_abs(), &value)?;
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(mut self, value: u64) -> Result<Value, E> {
        self.exact(value, &value)?;
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            self.guard.path.push(list.len().to_string());
            let value = seq.next_element_seed(self.enter()?)?;
            self.guard.path.pop();
            match value {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.count()?;
            if object.contains_key(&key) {
                return Err(self.break_off(JsonError::DuplicateKey(key)));
            }
            self.guard.path.push(key.clone());
            let value = map.next_value_seed(self.enter()?)?;
            self.guard.path.pop();
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> JsonLimits {
        JsonLimits { bytes: 64, depth: 3, nodes: 8 }
    }

    #[test]
    fn accepts_what_is_within_limits() {
        let value = parse_bounded(br#"{"a":[1,2.5,"x",null,true]}"#, limits()).unwrap();
        assert_eq!(value, serde_json::json!({"a": [1, 2.5, "x", null, true]}));
    }

    #[test]
    fn a_limit_is_what_is_still_accepted() {
        for text in [format!("{:>64}", 1), "[[[1]]]".to_owned(), "[1,2,3,4,5,6,7]".to_owned()] {
            assert!(parse_bounded(text.as_bytes(), limits()).is_ok(), "{text}");
        }
        assert!(parse_bounded(MAX_EXACT_INTEGER.to_string().as_bytes(), limits()).is_ok());
        assert!(parse_bounded(format!("-{MAX_EXACT_INTEGER}").as_bytes(), limits()).is_ok());
    }

    #[test]
    fn refuses_size_depth_nodes_duplicates_and_trailing_bytes_by_name() {
        let refuse = |text: &str| parse_bounded(text.as_bytes(), limits()).unwrap_err();
        assert!(matches!(refuse(&" ".repeat(65)), JsonError::Oversize { bytes: 65, limit: 64 }));
        assert_eq!(refuse("[[[[1]]]]"), JsonError::TooDeep(3));
        assert_eq!(refuse("[1,2,3,4,5,6,7,8]"), JsonError::TooManyNodes(8));
        assert_eq!(refuse(r#"{"a":1,"a":2}"#), JsonError::DuplicateKey("a".into()));
        let inexact = |path: &str, number: &str| JsonError::InexactInteger { path: path.into(), number: number.into() };
        assert_eq!(refuse("9007199254740993"), inexact("", "9007199254740993"));
        assert_eq!(refuse(r#"{"a":[1,-9007199254740992]}"#), inexact("a.1", "-9007199254740992"));
        assert!(matches!(refuse("1 2"), JsonError::Malformed(_)));
        assert!(matches!(refuse(""), JsonError::Malformed(_)));
    }

    #[test]
    fn canonical_form_sorts_keys_and_normalises_numbers() {
        assert_eq!(canonical(&serde_json::json!({"b": 1.0, "a": "é"})), r#"{"a":"é","b":1}"#.as_bytes());
    }
}
