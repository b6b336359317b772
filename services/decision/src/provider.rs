//! The seam to a model (M3): a request over committed context, and an answer in no vendor's format.

use async_trait::async_trait;
use protocol::{AgentName, Basis, Digest, InvocationId, Round, Step, Usage};
use serde::{Deserialize, Serialize};

use crate::Context;

/// Asks one model.
#[async_trait]
pub trait ModelProvider: Send + Sync {
    /// Asks once, without retries of its own. Refusals, empty and cut-off answers are replies, not errors: they go
    /// through repair. The caller drops the future when the time for the turn is over.
    async fn decide(&self, request: &ModelRequest) -> Result<ModelReply, ProviderError>;
}

/// One question to a model: everything it is asked on, and the proof of what that was based on. Serialisable, so that a
/// checker can see what a model was shown and when (I6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    pub invocation_id: InvocationId,
    pub step: Step,
    pub round: Round,
    pub basis: Basis,
    pub agent: AgentName,
    /// The profile's model name.
    pub model: String,
    /// Counts the requests for this turn, from 1. The only thing that differs between them.
    pub attempt: u32,
    pub context: Context,
    /// The digest of the context's canonical form.
    pub digest: Digest,
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReply {
    pub said: Said,
    /// The provider's ID of this answer.
    pub response_id: String,
    /// The model that answered.
    pub model: String,
    /// With the cost that the provider names, if it names one; a price table of the agent overrules it.
    pub usage: Usage,
}

/// What a model said. Hidden reasoning never comes this far (M24).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Text that should be a decision in the union's JSON form; not judged here.
    Decision(String),
    Refused,
    Empty,
    /// Cut off at the length limit.
    CutOff,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Transport errors, 429, 5xx, overload: asking again may help, not before `retry_after_ms` if the provider says so.
    #[error("{message}")]
    Transient { message: String, retry_after_ms: Option<u64> },
    /// Asking again would give the same.
    #[error("{message}")]
    Final { message: String },
}

impl ProviderError {
    pub fn transient(message: impl Into<String>) -> Self {
        Self::Transient { message: message.into(), retry_after_ms: None }
    }

    pub fn permanent(message: impl Into<String>) -> Self {
        Self::Final { message: message.into() }
    }
}
