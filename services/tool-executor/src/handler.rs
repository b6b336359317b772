//! The handler of `dispatches`. Each dispatch is claimed (effect) or checked against the invocation (read), called under
//! its lease, and answered by at most one `results` record. What it may not start it drops, counted by reason.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::{Registry, Tool};
use chassis::{Beside, Bus, Clock, Failure, Handler, Metrics, Reply};
use futures::FutureExt;
use futures::future::{self, BoxFuture, Either};
use protocol::{
    AttemptId, AttemptOutcome, CallError, ClaimRefusal, Dedupe, ErrorClass, EventId, Ignored, Input,
    ToolCallDispatched, ToolCallSettled, may_start_read,
};
use schemas::headers::TraceContext;
use schemas::{Codec, Inbound, Outbound};
use serde_json::json;
use store::{Address, Decider, Refusal};

use crate::claims::{ClaimDesk, Decide, Outbox};
use crate::labels::{decide_failure, labels, reason, store_failure};
use crate::lease::{Interrupted, Watch};
use crate::{CallKind, ToolRequest, ToolTransport, Transported, classify, names};

/// How often a running call looks whether it may go on, unless configured otherwise.
pub const DEFAULT_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Executes tool calls. Its only writes are claims.
pub struct ExecutorHandler {
    desk: ClaimDesk,
    decider: Decider,
    codec: Arc<Codec>,
    registry: Arc<Registry>,
    transport: Arc<dyn ToolTransport>,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    poll_interval: Duration,
}

impl ExecutorHandler {
    /// `decider` must keep outbox entries as [`Outbound::from_bytes`] reads them.
    pub fn new(
        decider: Decider,
        codec: Arc<Codec>,
        registry: Arc<Registry>,
        transport: Arc<dyn ToolTransport>,
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        let desk = ClaimDesk::new(deciding(decider.clone()));
        let poll_interval = DEFAULT_POLL_INTERVAL;
        Self { desk, decider, codec, registry, transport, bus, clock, metrics, poll_interval }
    }

    /// Sets how often a running call looks whether it may go on.
    pub fn with_poll_interval(self, poll_interval: Duration) -> Self {
        Self { poll_interval, ..self }
    }

    /// One dispatch to its result, if it may run, and what is still to be published beside that.
    async fn execute(
        &self,
        dispatch: &ToolCallDispatched,
        trace: &TraceContext,
    ) -> Result<(Option<Outbound>, Option<Beside>), Failure> {
        // Before the load, so that the lease by this clock is over no later than the one in the store.
        let started = self.clock.elapsed();
        let address = Address { tenant: dispatch.scope.tenant.clone(), id: dispatch.scope.invocation_id };
        let (outcome, beside) = match dispatch.effect {
            None => (self.read(&address, dispatch, trace, started).await?, None),
            Some(_) => self.effect(&address, dispatch, trace, started).await?,
        };
        let Some(outcome) = outcome else {
            return Ok((None, beside));
        };
        let (label, class) = labels(&outcome);
        self.metrics.count(names::CALLS, &[("outcome", label), ("class", class)]);
        let seconds = self.clock.elapsed().saturating_sub(started).as_secs_f64();
        self.metrics.record(names::CALL_SECONDS, seconds, &[("outcome", label)]);
        self.metrics.count(chassis::names::APPLIED, &[("topic", "dispatches")]);
        Ok((Some(self.result(dispatch, outcome)?), beside))
    }

    async fn read(
        &self,
        address: &Address,
        dispatch: &ToolCallDispatched,
        trace: &TraceContext,
        started: Duration,
    ) -> Result<Option<AttemptOutcome>, Failure> {
        let (invocation, now) = self.decider.peek(address).await.map_err(store_failure)?;
        if may_start_read(&invocation, dispatch, now).is_err() {
            // The core says why with the basis at hand: a store that lost this dispatch's commit is frozen there, and
            // a read that may not start is never granted a claim.
            let claimed = self.desk.claim(address, Input::ClaimRequested(Box::new(dispatch.clone()))).await?;
            self.publish_claims(claimed.outbox, trace).await;
            self.ignored(match &claimed.outcome {
                Ok(()) => "granted",
                Err(refusal) => reason(refusal),
            });
            return Ok(None);
        }
        Ok(Some(self.call(address, dispatch, trace, started).await))
    }

    async fn effect(
        &self,
        address: &Address,
        dispatch: &ToolCallDispatched,
        trace: &TraceContext,
        started: Duration,
    ) -> Result<(Option<AttemptOutcome>, Option<Beside>), Failure> {
        let claimed = self.desk.claim(address, Input::ClaimRequested(Box::new(dispatch.clone()))).await?;
        self.metrics.add(names::CLAIM_CONFLICTS, u64::from(claimed.conflicts), &[]);
        let publishing = self.publish_claims(claimed.outbox, trace);
        match &claimed.outcome {
            // The claim's own record is published beside the call: neither the effect nor its result waits for it.
            Ok(()) => {
                let call = std::pin::pin!(self.call(address, dispatch, trace, started));
                Ok(match future::select(call, publishing).await {
                    Either::Left((outcome, publishing)) => (Some(outcome), Some(Beside(publishing.map(Ok).boxed()))),
                    Either::Right(((), call)) => (Some(call.await), None),
                })
            }
            Err(refusal) => {
                publishing.await;
                self.ignored(reason(refusal));
                let expired = *refusal == Refusal::Ignored(Ignored::Claim(ClaimRefusal::Expired));
                let message = "the attempt was started before, and its lease ran out without a result";
                let error = CallError::new(ErrorClass::OutcomeUnknown, message);
                Ok((expired.then_some(AttemptOutcome::Unknown { error }), None))
            }
        }
    }

    /// Calls the tool, within what is left of the lease.
    async fn call(
        &self,
        address: &Address,
        dispatch: &ToolCallDispatched,
        trace: &TraceContext,
        started: Duration,
    ) -> AttemptOutcome {
        let tool = self.registry.tool(&dispatch.tool);
        let kind = kind(dispatch, tool);
        let nothing_sent = |class, why| classify(&Transported::NothingSent { class, why }, kind);
        let Some(tool) = tool else {
            return nothing_sent(ErrorClass::Unavailable, "the tool is not in this executor's registry");
        };
        let held = self.clock.elapsed().saturating_sub(started);
        let left = Duration::from_millis(dispatch.timeout_ms).saturating_sub(held);
        if left.is_zero() {
            return nothing_sent(ErrorClass::Timeout, "the lease was over before anything was sent");
        }
        let request = ToolRequest {
            tool,
            arguments: &dispatch.arguments,
            idempotency_key: dispatch.effect.as_ref().map(|effect| effect.key.clone()),
            request_fingerprint: dispatch.effect.as_ref().map(|effect| effect.request_fingerprint),
            attempt_id: AttemptId::derive(dispatch.call_id, dispatch.attempt),
            timeout: left,
            traceparent: trace.traceparent.as_deref(),
        };
        let watch = Watch {
            decider: &self.decider,
            clock: self.clock.as_ref(),
            metrics: &self.metrics,
            interval: self.poll_interval,
            address,
            dispatch,
            left,
        };
        let uncertain = |class, why| Transported::Uncertain { class, why };
        let happened =
            watch.over(self.transport.call(&request)).await.unwrap_or_else(|interrupted| match interrupted {
                Interrupted::TimedOut => uncertain(ErrorClass::Timeout, "no answer came in time"),
                Interrupted::Revoked => uncertain(ErrorClass::Cancelled, "the lease was revoked while the call ran"),
            });
        classify(&happened, kind)
    }

    /// Publishes what a claim's commit left in the outbox; what fails is the sweeper's.
    fn publish_claims(&self, outbox: Outbox, trace: &TraceContext) -> BoxFuture<'static, ()> {
        if outbox.is_empty() {
            return future::ready(()).boxed();
        }
        let (bus, store, metrics, trace) =
            (self.bus.clone(), self.decider.store.clone(), self.metrics.clone(), trace.clone());
        let publishing = async move {
            let (refs, entries): (Vec<_>, Vec<_>) = outbox.into_iter().unzip();
            let records: Result<Vec<_>, _> = entries.iter().map(|entry| Outbound::from_bytes(&entry.bytes)).collect();
            let published = match records {
                Ok(mut records) => {
                    records.iter_mut().for_each(|record| trace.put(record));
                    bus.publish(records).await.map_err(|failure| failure.to_string())
                }
                Err(unreadable) => Err(unreadable.to_string()),
            };
            match published {
                Ok(()) => store.acknowledge(refs.into_iter().flatten().collect()),
                Err(why) => {
                    metrics.count(names::LEFT_TO_SWEEPER, &[]);
                    tracing::warn!(why, "a claim's events are left to the sweeper");
                }
            }
        };
        publishing.boxed()
    }

    /// The record of a result. What fits no record is replaced: the outcome must not be lost with its output.
    fn result(&self, dispatch: &ToolCallDispatched, outcome: AttemptOutcome) -> Result<Outbound, Failure> {
        let name = format!("result/{}/{}", dispatch.call_id, dispatch.attempt);
        let event_id = EventId::answer(dispatch.scope.invocation_id, dispatch.scope.basis, &name);
        let mut settled = ToolCallSettled {
            scope: dispatch.scope.clone(),
            call_id: dispatch.call_id,
            attempt: dispatch.attempt,
            attempt_id: AttemptId::derive(dispatch.call_id, dispatch.attempt),
            effect_key: dispatch.effect.as_ref().map(|effect| effect.key.clone()),
            outcome,
        };
        let error = match self.codec.encode(&settled, event_id, None) {
            Ok(record) => return Ok(record),
            Err(error) => error,
        };
        self.metrics.count(names::RESULTS_REPLACED, &[]);
        settled.outcome = match settled.outcome {
            AttemptOutcome::Succeeded { receipt, .. } if settled.effect_key.is_some() => {
                AttemptOutcome::Succeeded { output: json!({"omitted": "the output fits no record"}), receipt }
            }
            _ => {
                let error = CallError::new(ErrorClass::OutputTooLarge, format!("the output fits no record: {error}"));
                AttemptOutcome::Failed { error }
            }
        };
        self.codec.encode(&settled, event_id, None).map_err(|error| Failure::Retry(error.to_string()))
    }

    fn ignored(&self, reason: &str) {
        self.metrics.count(chassis::names::IGNORED, &[("topic", "dispatches"), ("reason", reason)]);
    }
}

#[async_trait]
impl Handler for ExecutorHandler {
    /// The Call ID: two attempts of one call never run side by side here. Undecodable records go by their key and are
    /// rejected when handled.
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        match self.codec.decode::<ToolCallDispatched>(record) {
            Ok(dispatch) => dispatch.call_id.0.as_bytes().to_vec(),
            Err(_) => record.key.clone().unwrap_or_default(),
        }
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        self.codec.learn(batch).await.map_err(|error| Failure::Unavailable(error.to_string()))?;
        let mut reply = Reply::default();
        let mut seen = HashSet::new();
        for (index, record) in batch.iter().enumerate() {
            let dispatch: ToolCallDispatched = match self.codec.decode(record) {
                Ok(dispatch) => dispatch,
                Err(rejection) => {
                    reply.rejected.push((index, rejection));
                    continue;
                }
            };
            if !seen.insert((dispatch.call_id, dispatch.attempt)) {
                self.ignored(Ignored::Duplicate.as_str());
                continue;
            }
            match self.execute(&dispatch, &TraceContext::of(record)).await {
                Ok((result, beside)) => {
                    reply.publish.extend(result);
                    reply.beside.extend(beside);
                }
                Err(failure) => {
                    // The batch is handed over again, and a claimed attempt would then only be found held: what is
                    // known already must not be lost for a neighbour's failure.
                    if !reply.publish.is_empty() && self.bus.publish(reply.publish).await.is_err() {
                        tracing::warn!("a result was lost with its batch; its call timer will ask the owner");
                    }
                    return Err(failure);
                }
            }
        }
        Ok(reply)
    }
}

/// How a call's answer is to be read. Where the registry promises nothing, nothing is promised.
fn kind(dispatch: &ToolCallDispatched, tool: Option<&Tool>) -> CallKind {
    match &dispatch.effect {
        None => CallKind::Read,
        Some(effect) => CallKind::Effect {
            request_fingerprint: effect.request_fingerprint,
            dedupe: tool.and_then(|tool| tool.effect.as_ref()).map_or(Dedupe::None, |contract| contract.dedupe),
        },
    }
}

fn deciding(decider: Decider) -> Decide {
    Arc::new(move |address, claims| {
        let decider = decider.clone();
        async move { decider.decide(&address, &claims).await.map_err(decide_failure) }.boxed()
    })
}
