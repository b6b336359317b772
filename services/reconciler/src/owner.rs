//! The seam to owning services: one question by Effect Key, and what came back.

use std::time::Duration;

use async_trait::async_trait;
use protocol::EffectKey;

/// One question.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The reconcile endpoint, as the registry names it; the question goes to `{url}/{effect_key}`.
    pub url: &'a str,
    pub effect_key: &'a EffectKey,
    pub timeout: Duration,
    /// The largest body read.
    pub max_bytes: usize,
    pub traceparent: Option<&'a str>,
}

/// What came back. Asking changes nothing, so how far a failed question got does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerReply {
    Answered {
        status: u16,
        body: Vec<u8>,
        /// From `Retry-After`, when it is a number of seconds.
        retry_after_ms: Option<u64>,
    },
    TooLarge,
    TimedOut,
    Unreachable,
}

/// Asks an owning service, once.
#[async_trait]
pub trait OwnerQuery: Send + Sync {
    async fn ask(&self, question: &Question<'_>) -> OwnerReply;
}
