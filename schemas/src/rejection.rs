//! Why a record is not handled: the closed list of dead-letter codes, and the typed reason that names field and fix.

use serde::{Deserialize, Serialize};

/// Why a record went to `dead-letters`. Closed; a new code is a schema change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterCode {
    /// Not decodable: neither JSON nor Avro, a key that stands twice, a field that is missing, unknown or of the wrong type.
    Malformed,
    /// Over the byte limit.
    Oversize,
    /// Over the depth or node limit.
    TooDeep,
    /// A schema version or fingerprint this build does not know.
    UnknownVersion,
    /// A known value whose behaviour this build does not have.
    Unsupported,
    /// The tenant is not bound to the topic the record arrived on, or the topic may not carry this control.
    TenantMismatch,
    /// The topic takes this kind of control with a signature only.
    SignatureRequired,
    /// The signature is none, not that of a known key, or not of a key that may say this.
    SignatureInvalid,
    /// The record's key disagrees with its `invocation_id`, or neither is there.
    KeyMismatch,
    /// A field's value is not acceptable.
    InvalidRequest,
    /// `requested_at` is older than the dedupe horizon.
    ExpiredRequest,
    /// The same Invocation ID with another request.
    RequestConflict,
    /// No such invocation, and the record proves nothing.
    UnknownInvocation,
    /// The tenant may not add another stub.
    QuotaExceeded,
    /// An approval, a refusal or an answer for which nothing waits: it was answered before, has expired, or the run has ended.
    NothingWaits,
    /// The approval or refusal names another proposal than the one that waits.
    WrongProposal,
    /// The proposal has expired.
    ApprovalExpired,
    /// The run's own actor may not approve this proposal.
    SelfApproval,
    /// The answer names another step than the one whose question waits.
    WrongQuestion,
    /// The same answer was given before in this run, and it names no step.
    RepeatedAnswer,
    /// Handling failed too often.
    RetriesExhausted,
}

impl DeadLetterCode {
    /// The code as it stands on the wire, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Oversize => "oversize",
            Self::TooDeep => "too_deep",
            Self::UnknownVersion => "unknown_version",
            Self::Unsupported => "unsupported",
            Self::TenantMismatch => "tenant_mismatch",
            Self::SignatureRequired => "signature_required",
            Self::SignatureInvalid => "signature_invalid",
            Self::KeyMismatch => "key_mismatch",
            Self::InvalidRequest => "invalid_request",
            Self::ExpiredRequest => "expired_request",
            Self::RequestConflict => "request_conflict",
            Self::UnknownInvocation => "unknown_invocation",
            Self::QuotaExceeded => "quota_exceeded",
            Self::NothingWaits => "nothing_waits",
            Self::WrongProposal => "wrong_proposal",
            Self::ApprovalExpired => "approval_expired",
            Self::SelfApproval => "self_approval",
            Self::WrongQuestion => "wrong_question",
            Self::RepeatedAnswer => "repeated_answer",
            Self::RetriesExhausted => "retries_exhausted",
        }
    }
}

/// What a rejection names when it is the record's value as a whole.
pub const WHOLE_VALUE: &str = "value";

/// Why a record can never be handled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {field}: {message}", code = .code.as_str())]
pub struct Rejection {
    pub code: DeadLetterCode,
    /// The path of the field at fault; [`WHOLE_VALUE`] when it is the value as a whole.
    pub field: String,
    /// What is wrong and how to mend it. Never holds values of fields that may be secret.
    pub message: String,
}

impl Rejection {
    pub fn new(code: DeadLetterCode, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, field: field.into(), message: message.into() }
    }
}
