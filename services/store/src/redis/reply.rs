//! Reads replies. A reply of another shape than the scripts give is data that cannot be trusted.

use redis::{FromRedisValue, Value};

use crate::Error;

/// Converts a reply.
pub(super) fn read<T: FromRedisValue>(value: Value) -> Result<T, Error> {
    redis::from_redis_value(value).map_err(|error| Error::Corrupt(format!("unexpected reply: {error}")))
}

/// Bytes that must be text.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|error| corrupt("text", error.as_bytes()))
}

/// Text or bytes that must mean something.
pub(super) fn known<T>(found: Option<T>, what: &str, bytes: impl AsRef<[u8]>) -> Result<T, Error> {
    found.ok_or_else(|| corrupt(what, bytes.as_ref()))
}

fn corrupt(what: &str, bytes: &[u8]) -> Error {
    const SHOWN: usize = 64;
    Error::Corrupt(format!("not {what}: {}", bytes[..bytes.len().min(SHOWN)].escape_ascii()))
}
