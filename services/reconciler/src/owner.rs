//! The seam to owning services: one question by Effect Key, and what came back. The contract that owners keep is
//! `schemas/owner.md`.

use std::time::Duration;

use async_trait::async_trait;
use protocol::{Digest, EffectKey};

/// What is asked of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// What became of it? (`GET`)
    Ask,
    /// What became of it, and if nothing did: close the key for good. (`PUT`, a tombstone)
    Close,
}

/// One question.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    pub verb: Verb,
    /// The reconcile endpoint, as the registry names it; the question goes to `{url}/{effect_key}`.
    pub url: &'a str,
    pub effect_key: &'a EffectKey,
    /// The request that is asked about.
    pub request_fingerprint: &'a Digest,
    pub timeout: Duration,
    /// The largest body read.
    pub max_bytes: usize,
    pub traceparent: Option<&'a str>,
}

/// What came back. Asking changes nothing and closing can be repeated, so how far a failed question got does not matter.
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

impl OwnerReply {
    /// Whether the owner was there and at work, whatever it said. A 501 is a word: it has no such thing.
    pub(crate) fn reached(&self) -> bool {
        match self {
            Self::Answered { status, .. } => *status < 500 || *status == 501,
            Self::TooLarge => true,
            Self::TimedOut | Self::Unreachable => false,
        }
    }
}

/// Asks an owning service, once.
#[async_trait]
pub trait OwnerQuery: Send + Sync {
    async fn ask(&self, question: &Question<'_>) -> OwnerReply;
}
