//! Reads a JSON object that a person wrote: takes field by field, and says by name what is missing, wrong or unknown and
//! how to mend it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::wire::{Json, Time};
use crate::{DeadLetterCode, Rejection};

/// The largest whole number that every JSON implementation keeps exactly, and so the digest of a request.
pub(super) const MAX_EXACT: i64 = (1 << 53) - 1;

pub(super) struct Fields {
    object: Map<String, Value>,
    /// Path of the object, with its dot; empty for the document.
    prefix: String,
    known: Vec<&'static str>,
}

impl Fields {
    pub fn of(value: Value, path: &str) -> Result<Self, Rejection> {
        match value {
            Value::Object(object) => {
                let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
                Ok(Self { object, prefix, known: Vec::new() })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(Rejection::new(DeadLetterCode::Malformed, path, "must be a JSON object"))
            }
        }
    }

    /// The path of a field.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn malformed(&self, name: &str, message: impl Into<String>) -> Rejection {
        Rejection::new(DeadLetterCode::Malformed, self.path(name), message)
    }

    /// Takes a field; `null` counts as absent.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.object.remove(name).filter(|value| !value.is_null())
    }

    pub fn optional_text(&mut self, name: &'static str) -> Result<Option<String>, Rejection> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.malformed(name, "must be a text")),
        }
    }

    pub fn text(&mut self, name: &'static str) -> Result<String, Rejection> {
        let text = self.optional_text(name)?;
        text.ok_or_else(|| self.malformed(name, "is required, as a text"))
    }

    pub fn json(&mut self, name: &'static str) -> Option<Json> {
        self.take(name).map(|value| Json::unchecked(value.to_string()))
    }

    pub fn whole(&mut self, name: &'static str) -> Result<Option<i64>, Rejection> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) if number.is_i64() || number.is_u64() => {
                Ok(Some(number.as_i64().unwrap_or(i64::MAX)))
            }
            Some(_) => Err(self.malformed(name, "must be a whole number")),
        }
    }

    pub fn time(&mut self, name: &'static str) -> Result<Option<Time>, Rejection> {
        let time = match self.take(name) {
            None => return Ok(None),
            Some(Value::String(text)) => Time::parse(&text),
            Some(Value::Number(number)) => number.as_i64().map(|ms| Time(protocol::Timestamp(ms))),
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
        };
        let message = "must be RFC 3339 text, such as 2026-01-31T12:00:00Z, or milliseconds since the Unix epoch";
        time.map(Some).ok_or_else(|| self.malformed(name, message))
    }

    pub fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, Rejection> {
        let list = match self.take(name) {
            None => return Ok(None),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(self.malformed(name, "must be a list of texts")),
        };
        let text = |(i, value)| match value {
            Value::String(text) => Ok(text),
            _ => Err(self.malformed(&format!("{name}[{i}]"), "must be a text")),
        };
        list.into_iter().enumerate().map(text).collect::<Result<_, _>>().map(Some)
    }

    pub fn labels(&mut self, name: &'static str) -> Result<BTreeMap<String, String>, Rejection> {
        let object = match self.take(name) {
            None => return Ok(BTreeMap::new()),
            Some(Value::Object(object)) => object,
            Some(_) => return Err(self.malformed(name, "must be an object of texts")),
        };
        let label = |(label, value)| match value {
            Value::String(text) => Ok((label, text)),
            _ => Err(self.malformed(&format!("{name}.{label}"), "must be a text")),
        };
        object.into_iter().map(label).collect()
    }

    pub fn object(&mut self, name: &'static str) -> Result<Option<Fields>, Rejection> {
        let path = self.path(name);
        self.take(name).map(|value| Fields::of(value, &path)).transpose()
    }

    pub fn objects(&mut self, name: &'static str) -> Result<Vec<Fields>, Rejection> {
        let path = self.path(name);
        let list = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(self.malformed(name, "must be a list of objects")),
        };
        list.into_iter().enumerate().map(|(i, value)| Fields::of(value, &format!("{path}[{i}]"))).collect()
    }

    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Rejection> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(self.malformed(name, "must be true or false")),
        }
    }

    /// Refuses another version than 1, where one is named.
    pub fn version(&mut self) -> Result<(), Rejection> {
        match self.take("schema_version") {
            None => Ok(()),
            Some(Value::Number(number)) if number.as_i64() == Some(1) => Ok(()),
            Some(_) => {
                let message = "must be 1, the only version that is known here";
                Err(Rejection::new(DeadLetterCode::UnknownVersion, self.path("schema_version"), message))
            }
        }
    }

    /// Refuses what was not taken.
    pub fn finish(self) -> Result<(), Rejection> {
        let Some(name) = self.object.keys().next() else { return Ok(()) };
        let known = self.known.join(", ");
        let mut shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        if shown.is_empty() {
            shown = "(empty)".to_owned();
        }
        Err(self.malformed(&shown, format!("is not a field here; the fields are: {known}")))
    }
}
