//! How a call ends: output or a structured error, each with its own identity (M10).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AttemptId, Digest};

/// The class of a call's error. Closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    InvalidArguments,
    Unauthorized,
    NotFound,
    Conflict,
    BusinessRejected,
    RateLimited,
    Timeout,
    Unavailable,
    OutcomeUnknown,
    Cancelled,
    Skipped,
    OutputInvalid,
    OutputTooLarge,
    Internal,
}

impl ErrorClass {
    /// The retry table for reads: which classes another attempt may mend (M11).
    pub fn is_transient(self) -> bool {
        match self {
            Self::RateLimited | Self::Timeout | Self::Unavailable => true,
            Self::InvalidArguments
            | Self::Unauthorized
            | Self::NotFound
            | Self::Conflict
            | Self::BusinessRejected
            | Self::OutcomeUnknown
            | Self::Cancelled
            | Self::Skipped
            | Self::OutputInvalid
            | Self::OutputTooLarge
            | Self::Internal => false,
        }
    }
}

/// Where an effect stands (M16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectStatus {
    Prepared,
    Dispatched,
    OutcomeUnknown,
    Reconciling,
    Committed,
    Rejected,
}

impl EffectStatus {
    /// Final: no move leaves it.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Committed | Self::Rejected)
    }

    /// A request may be, or may have been, at the owner, and nobody knows yet what came of it.
    pub fn is_unresolved(self) -> bool {
        matches!(self, Self::Dispatched | Self::OutcomeUnknown | Self::Reconciling)
    }
}

/// The owner's own word on an effect (M19).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The owner's ID of the effect, as it gave it.
    pub effect_id: String,
    /// The digest of the owner's answer.
    pub body_digest: Digest,
}

/// A structured error of a call. `message` is redacted and bounded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    pub class: ErrorClass,
    pub message: String,
    /// The tool's own word on when to come back, in milliseconds (Retry-After).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl CallError {
    /// The longest message kept, in bytes.
    pub const MAX_MESSAGE_BYTES: usize = 500;

    /// An error whose message is cut to [`CallError::MAX_MESSAGE_BYTES`].
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > Self::MAX_MESSAGE_BYTES {
            let cut = (0..=Self::MAX_MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(cut);
        }
        Self { class, message, retry_after_ms: None }
    }
}

/// What one attempt came to, as the executor reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum AttemptOutcome {
    /// A read's output, or an effect that its owner has committed.
    Succeeded {
        output: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Receipt>,
    },
    /// A certain "no": a read's error, or an effect that its owner has rejected.
    Failed { error: CallError },
    /// An effect whose request never left: plain and retryable.
    NothingSent { error: CallError },
    /// An effect whose request left, without a certain answer.
    Unknown { error: CallError },
}

/// How a call ended, for good. Kept per call, never flattened (M10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOutcome {
    pub result: CallResult,
    /// The attempt that settled it; absent when no attempt was made or a person decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<AttemptId>,
    pub attempts: u32,
    /// Absent for a read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_status: Option<EffectStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// Output or error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallResult {
    Output(Value),
    Error(CallError),
}

impl CallOutcome {
    pub fn succeeded(&self) -> bool {
        matches!(self.result, CallResult::Output(_))
    }

    /// The outcome of a call that no attempt was made for.
    pub fn without_attempt(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            result: CallResult::Error(CallError::new(class, message)),
            attempt_id: None,
            attempts: 0,
            effect_status: None,
            receipt: None,
        }
    }
}
