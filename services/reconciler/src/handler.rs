//! The handler of `outcome-unknown`: one question to the owner per record, with a tombstone after it where one is asked
//! for, and one `resolutions` record.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::{ReconcileEndpoint, Registry, Tool, ToolKind};
use chassis::{Clock, Failure, Handler, Metrics, Reply};
use protocol::{Answer, EffectAnswered, EffectContract, EffectOutcome, EffectQueried, EventId};
use schemas::headers::TraceContext;
use schemas::{Codec, Inbound, Outbound, Topic};
use serde_json::json;

use crate::breaker::Breaker;
use crate::{BreakerConfig, OwnerQuery, Question, Verb, answer, names};

/// What an owner's answer may hold beside its output.
const ENVELOPE_BYTES: usize = 4 * 1024;

/// Asks owners.
pub struct ReconcilerHandler {
    codec: Arc<Codec>,
    registry: Arc<Registry>,
    owner: Arc<dyn OwnerQuery>,
    breaker: Breaker,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

impl ReconcilerHandler {
    pub fn new(
        codec: Arc<Codec>,
        registry: Arc<Registry>,
        owner: Arc<dyn OwnerQuery>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        let breaker = Breaker::new(BreakerConfig::default());
        Self { codec, registry, owner, breaker, clock, metrics }
    }

    /// Sets when owners are left alone.
    pub fn with_breaker(self, config: BreakerConfig) -> Self {
        Self { breaker: Breaker::new(config), ..self }
    }

    async fn ask(&self, query: &EffectQueried, trace: &TraceContext) -> Answer {
        let Askable { tool, endpoint, contract } = match askable(&self.registry, query) {
            Ok(place) => place,
            Err(why) => return Answer::Unanswerable { why: why.to_owned() },
        };
        if let Some(left) = self.breaker.left(&contract.owner, self.clock.elapsed()) {
            self.metrics.count(names::BREAKER_SPARED, &[("owner", &contract.owner)]);
            return Answer::Pending { retry_after_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX) };
        }
        let question = Question {
            verb: Verb::Ask,
            url: &endpoint.url,
            effect_key: &query.effect_key,
            request_fingerprint: &query.request_fingerprint,
            timeout: Duration::from_millis(endpoint.timeout_ms),
            max_bytes: tool.max_output_bytes.saturating_add(ENVELOPE_BYTES),
            traceparent: trace.traceparent.as_deref(),
        };
        let asked = self.put(&question, &contract.owner).await;
        // Asked first, so that an owner without tombstones, or one that cannot close now, has given its word at least.
        match asked {
            Answer::NotApplied if query.seal && contract.tombstone => {
                self.put(&Question { verb: Verb::Close, ..question }, &contract.owner).await
            }
            answer => answer,
        }
    }

    /// Puts one question to the owner.
    async fn put(&self, question: &Question<'_>, owner: &str) -> Answer {
        let reply = self.owner.ask(question).await;
        if self.breaker.heard(owner, reply.reached(), self.clock.elapsed()) {
            self.metrics.count(names::BREAKER_OPENED, &[("owner", owner)]);
            tracing::warn!(
                owner,
                "the owner gave no usable reply several times in a row and is left alone for a while"
            );
        }
        let (answer, unusable) = answer(question.verb, &reply, question.request_fingerprint);
        if let Some(kind) = unusable {
            self.metrics.count(names::UNUSABLE, &[("kind", kind)]);
            tracing::warn!(kind, url = question.url, "the owner gave no usable word on an effect");
        }
        answer
    }

    fn resolution(&self, query: EffectQueried, answer: Answer) -> Result<Outbound, Failure> {
        let EffectQueried { scope, call_id, effect_key, attempt_id, probe, .. } = query;
        let name = format!("resolution/{effect_key}/{attempt_id}/{probe}");
        let event_id = EventId::answer(scope.invocation_id, scope.basis, &name);
        let mut answered = EffectAnswered { scope, call_id, effect_key, attempt_id, probe, answer };
        let error = match self.codec.encode(&answered, event_id, None) {
            Ok(record) => return Ok(record),
            Err(error) => error,
        };
        // The owner's word counts even where its output fits no record.
        if let Answer::Certain { outcome: EffectOutcome::Committed { output, .. } } = &mut answered.answer {
            *output = json!({"omitted": "the output fits no record"});
            return self.codec.encode(&answered, event_id, None).map_err(|error| Failure::Retry(error.to_string()));
        }
        Err(Failure::Retry(error.to_string()))
    }
}

/// Where the owner of a queried effect is asked, and what it promises.
struct Askable<'r> {
    tool: &'r Tool,
    endpoint: &'r ReconcileEndpoint,
    contract: &'r EffectContract,
}

/// Where to ask, or why nobody can be asked.
fn askable<'r>(registry: &'r Registry, query: &EffectQueried) -> Result<Askable<'r>, &'static str> {
    let tool = registry.tool(&query.tool).ok_or("the tool is not in this reconciler's registry")?;
    match (&tool.effect, &tool.run) {
        (None, _) => Err("the registry declares no effect for this tool"),
        (Some(contract), _) if !contract.query => Err("the registry says that the owner cannot be asked"),
        (Some(contract), ToolKind::Http { reconcile: Some(endpoint), .. }) => Ok(Askable { tool, endpoint, contract }),
        (Some(_), ToolKind::Http { reconcile: None, .. } | ToolKind::Lookup { .. }) => {
            Err("the registry names no place to ask the owner")
        }
    }
}

fn label(answer: &Answer) -> &'static str {
    match answer {
        Answer::Certain { outcome: EffectOutcome::Committed { .. } } => "committed",
        Answer::Certain { outcome: EffectOutcome::Rejected { .. } } => "rejected",
        Answer::NotApplied => "not_applied",
        Answer::Pending { .. } => "pending",
        Answer::Unanswerable { .. } => "unanswerable",
    }
}

#[async_trait]
impl Handler for ReconcilerHandler {
    /// The Effect Key. Undecodable records go by their key and are rejected when handled.
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        match self.codec.decode::<EffectQueried>(record) {
            Ok(query) => query.effect_key.0.into_bytes(),
            Err(_) => record.key.clone().unwrap_or_default(),
        }
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        self.codec.learn(batch).await.map_err(|error| Failure::Unavailable(error.to_string()))?;
        let mut reply = Reply::default();
        for (index, record) in batch.iter().enumerate() {
            let query: EffectQueried = match self.codec.decode(record) {
                Ok(query) => query,
                Err(rejection) => {
                    reply.rejected.push((index, rejection));
                    continue;
                }
            };
            let answer = self.ask(&query, &TraceContext::of(record)).await;
            self.metrics.count(names::ANSWERS, &[("answer", label(&answer))]);
            self.metrics.count(chassis::names::APPLIED, &[("topic", Topic::OutcomeUnknown.short_name())]);
            reply.publish.push(self.resolution(query, answer)?);
        }
        Ok(reply)
    }
}
