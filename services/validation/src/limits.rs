//! How large a decision may be (S8). Whatever passes still fits the records and events that carry it on.

use protocol::JsonLimits;

/// The bounds of one decision and of what is said about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionLimits {
    /// The whole text.
    pub json: JsonLimits,
    /// One call's arguments, as compact JSON.
    pub argument_bytes: usize,
    /// A provider's call ID.
    pub call_id_bytes: usize,
    /// The reason of `cannot_continue`.
    pub reason_bytes: usize,
    /// The findings of one verdict; what is over is only counted.
    pub findings: usize,
}

impl Default for DecisionLimits {
    fn default() -> Self {
        Self {
            json: JsonLimits::default(),
            argument_bytes: 64 * 1024,
            call_id_bytes: protocol::MAX_NAME_BYTES,
            reason_bytes: 4 * 1024,
            findings: 64,
        }
    }
}
