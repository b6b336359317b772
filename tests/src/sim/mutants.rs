//! Planted bugs. Each wraps a real handler, so that everything else stays as it is in production.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::Registry;
use chassis::{Failure, Handler, Reply};
use protocol::{AttemptId, CallId, Dedupe, EventId, InvocationId, Step, ToolCallDispatched, ToolCallSettled};
use schemas::{Codec, Inbound, Topic};
use tool_executor::{CallKind, ToolRequest, ToolTransport, classify};

/// Matches results to calls by the order in which they arrive.
pub struct MatchesByPosition {
    inner: Arc<dyn Handler>,
    codec: Arc<Codec>,
    /// Per turn, the calls in the order of their first results.
    arrived: Mutex<BTreeMap<(InvocationId, Step), Vec<CallId>>>,
}

impl MatchesByPosition {
    pub fn new(inner: Arc<dyn Handler>, codec: Arc<Codec>) -> Self {
        Self { inner, codec, arrived: Mutex::default() }
    }

    fn rematched(&self, record: &Inbound) -> Option<Inbound> {
        if record.topic != self.codec.topic_name(Topic::Results) {
            return None;
        }
        let mut settled: ToolCallSettled = self.codec.decode(record).ok()?;
        // Only reads: an effect's key would give the swap away.
        if settled.effect_key.is_some() {
            return None;
        }
        let scope = settled.scope.clone();
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let order = arrived.entry((scope.invocation_id, scope.step)).or_default();
        let position = order.iter().position(|call| *call == settled.call_id).unwrap_or_else(|| {
            order.push(settled.call_id);
            order.len() - 1
        });
        let position = u32::try_from(position).unwrap_or(0);
        settled.call_id = CallId::derive(scope.invocation_id, scope.step, scope.round, position);
        settled.attempt_id = AttemptId::derive(settled.call_id, settled.attempt);
        let id = EventId::answer(scope.invocation_id, scope.basis, "rematched");
        let outbound = self.codec.encode(&settled, id, None).ok()?;
        Some(Inbound { value: Some(outbound.value), ..record.clone() })
    }
}

#[async_trait]
impl Handler for MatchesByPosition {
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        self.inner.order_key(record)
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        let batch: Vec<_> =
            batch.iter().map(|record| self.rematched(record).unwrap_or_else(|| record.clone())).collect();
        self.inner.handle(&batch).await
    }

    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        self.inner.acknowledged(receipt);
    }
}

/// Sends effects without asking whether they may start.
pub struct SkipsTheLease {
    inner: Arc<dyn Handler>,
    tools: Arc<dyn ToolTransport>,
    codec: Arc<Codec>,
    registry: Arc<Registry>,
}

impl SkipsTheLease {
    pub fn new(
        inner: Arc<dyn Handler>,
        tools: Arc<dyn ToolTransport>,
        codec: Arc<Codec>,
        registry: Arc<Registry>,
    ) -> Self {
        Self { inner, tools, codec, registry }
    }

    async fn send(&self, record: &Inbound) -> Option<Reply> {
        let dispatch: ToolCallDispatched = self.codec.decode(record).ok()?;
        let effect = dispatch.effect.clone()?;
        let attempt_id = AttemptId::derive(dispatch.call_id, dispatch.attempt);
        let request = ToolRequest {
            tool: self.registry.tool(&dispatch.tool)?,
            arguments: &dispatch.arguments,
            idempotency_key: Some(effect.key.clone()),
            request_fingerprint: Some(effect.request_fingerprint),
            attempt_id,
            timeout: Duration::from_millis(dispatch.timeout_ms),
            traceparent: None,
        };
        let kind = CallKind::Effect { request_fingerprint: effect.request_fingerprint, dedupe: Dedupe::Key };
        let outcome = classify(&self.tools.call(&request).await, kind);
        let name = format!("result/{}/{}", dispatch.call_id, dispatch.attempt);
        let id = EventId::answer(dispatch.scope.invocation_id, dispatch.scope.basis, &name);
        let settled = ToolCallSettled {
            scope: dispatch.scope,
            call_id: dispatch.call_id,
            attempt: dispatch.attempt,
            attempt_id,
            effect_key: Some(effect.key),
            outcome,
        };
        let publish = vec![self.codec.encode(&settled, id, None).ok()?];
        Some(Reply { publish, ..Reply::default() })
    }
}

#[async_trait]
impl Handler for SkipsTheLease {
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        self.inner.order_key(record)
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        let mut publish = Vec::new();
        for record in batch {
            let reply = match self.send(record).await {
                Some(reply) => reply,
                None => self.inner.handle(std::slice::from_ref(record)).await?,
            };
            publish.extend(reply.publish);
        }
        Ok(Reply { publish, ..Reply::default() })
    }
}
