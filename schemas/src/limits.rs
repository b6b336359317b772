//! What a record may be at most, checked before anything of it is parsed (S8).

use protocol::JsonLimits;

/// No limit may exceed this: it is also the most that one Avro length can make us allocate.
pub const MAX_RECORD_BYTES: usize = 8 * 1024 * 1024;

/// How much deeper than its parts a JSON document that we wrap around them may be.
pub(crate) const ENVELOPE_DEPTH: usize = 24;

/// The bounds of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The whole value, both ways. Below the broker's default message limit, headers included.
    pub bytes: usize,
    /// Nesting of a JSON document from outside, and of each JSON field.
    pub depth: usize,
    /// Values and keys of a JSON document from outside.
    pub nodes: usize,
    /// How much of an undeliverable value its dead letter keeps. Below the broker's message limit even in base64, so
    /// that no record is too large to be dead-lettered.
    pub dead_letter_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 960 * 1024, depth: 32, nodes: 20_000, dead_letter_bytes: 512 * 1024 }
    }
}

impl Limits {
    /// These limits, none above [`MAX_RECORD_BYTES`].
    pub(crate) fn capped(self) -> Self {
        Self {
            bytes: self.bytes.min(MAX_RECORD_BYTES),
            dead_letter_bytes: self.dead_letter_bytes.min(self.bytes),
            ..self
        }
    }

    /// For a document or field that a caller wrote.
    pub fn outside(&self) -> JsonLimits {
        JsonLimits { bytes: self.bytes, depth: self.depth, nodes: self.nodes }
    }

    /// For a JSON field of a record between services: as deep as a caller's, and as many values as fit its bytes.
    pub(crate) fn field(&self) -> JsonLimits {
        JsonLimits { bytes: self.bytes, depth: self.depth, nodes: self.bytes }
    }

    /// For a document that wraps such fields.
    pub(crate) fn envelope(&self) -> JsonLimits {
        JsonLimits { bytes: self.bytes, depth: self.depth + ENVELOPE_DEPTH, nodes: self.bytes }
    }
}
