//! The seam to tools. A transport reports what happened by phase (nothing sent, no certain answer, answered) and leaves
//! what that means to `classify`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::Clock;
use chassis::registry::{Tool, ToolKind};
use protocol::{AttemptId, Digest, EffectKey, ErrorClass};
use serde_json::Value;

use crate::{Error, HttpTransport, LookupTransport};

/// One attempt, as a transport needs to know it.
#[derive(Debug, Clone)]
pub struct ToolRequest<'a> {
    pub tool: &'a Tool,
    pub arguments: &'a Value,
    /// Present for an effect, equal for every attempt (M15).
    pub idempotency_key: Option<EffectKey>,
    /// Present for an effect, so that its owner can say later which request it knows under the key.
    pub request_fingerprint: Option<Digest>,
    pub attempt_id: AttemptId,
    /// What is left of the lease: nothing is written after it, and nobody waits longer.
    pub timeout: Duration,
    pub traceparent: Option<&'a str>,
}

/// What happened to a request. Reasons are our own fixed words: an error of a library may quote addresses and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transported {
    Answered(Answered),
    /// For certain nothing reached the tool.
    NothingSent {
        class: ErrorClass,
        why: &'static str,
    },
    /// Something may have reached the tool, and no whole answer came back. `class` is what a read reports.
    Uncertain {
        class: ErrorClass,
        why: &'static str,
    },
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    pub body: Body,
    /// From `Retry-After`, when it is a number of seconds.
    pub retry_after_ms: Option<u64>,
    /// The owner's ID of the effect, from the `Effect-Id` header.
    pub effect_id: Option<String>,
}

/// An answer's body, bounded while it streamed (S8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Whole(Vec<u8>),
    /// More than the tool's `max_output_bytes`; nothing of it is kept.
    TooLarge,
}

impl Answered {
    /// An answer with nothing but a status and a body.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: Body::Whole(body.into()), retry_after_ms: None, effect_id: None }
    }
}

/// Calls a tool once.
#[async_trait]
pub trait ToolTransport: Send + Sync {
    /// Sends the request at most once and never follows, repeats or retries it. Dropping the future gives up waiting and
    /// says nothing about the request.
    async fn call(&self, request: &ToolRequest<'_>) -> Transported;
}

/// The production transport: as the registry declares each tool.
pub struct RegistryTransport {
    http: HttpTransport,
    lookup: LookupTransport,
}

impl RegistryTransport {
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Ok(Self { http: HttpTransport::new()?, lookup: LookupTransport::new(clock) })
    }
}

#[async_trait]
impl ToolTransport for RegistryTransport {
    async fn call(&self, request: &ToolRequest<'_>) -> Transported {
        match &request.tool.run {
            ToolKind::Http { .. } => self.http.call(request).await,
            ToolKind::Lookup { .. } => self.lookup.call(request).await,
        }
    }
}
