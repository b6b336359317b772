//! `turns` in, `decisions` out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::Registry;
use chassis::{Beside, Clock, Failure, Handler, Metrics, Reply, names};
use protocol::{DecisionProposed, Event, EventId, Fact, ModelAnswer, Scope, Timing, TurnReady};
use schemas::{Codec, DeadLetterCode, EncodeError, Inbound, Outbound, Rejection};
use store::{Recent, Store};

use crate::committed::{self, History, Read, Standing};
use crate::{Context, DecisionConfig, ModelProvider, ModelRequest, ask, body};

/// Why a turn was dropped, as it stands in the metric [`names::IGNORED`].
pub mod reasons {
    /// Another turn is current, or the run is over.
    pub const STALE: &str = "stale";
    /// Only a rebuild goes on.
    pub const FROZEN: &str = "frozen";
    /// The store does not have the turn's basis: it lost a commit. Publishing nothing is safe: the committer's own
    /// timers and basis checks decide about the freeze.
    pub const BASIS_AHEAD: &str = "basis_ahead";
}

/// Answers each current turn with one decision. It is stored under (invocation, step, round, basis) beside publishing, and
/// what is stored is what is published from then on, however often the turn arrives (I6); should a crash between the two
/// make two answers, the first verdict counts; a turn that is not current is dropped and counted.
pub struct DecisionHandler {
    store: Arc<dyn Store>,
    codec: Arc<Codec>,
    registry: Arc<Registry>,
    provider: Arc<dyn ModelProvider>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    config: DecisionConfig,
    /// What was proven of the histories of runs whose turns came by.
    histories: Recent<History>,
}

/// What one turn is answered with.
struct Answered {
    outbound: Outbound,
    /// The journal's write of an answer that is new.
    journal: Option<Beside>,
}

enum Refused {
    Rejected(Rejection),
    Failed(Failure),
}

impl From<store::Error> for Refused {
    fn from(error: store::Error) -> Self {
        Self::Failed(failure(error))
    }
}

fn failure(error: store::Error) -> Failure {
    match error {
        store::Error::Retryable(_) => Failure::Unavailable(error.to_string()),
        store::Error::Corrupt(_) | store::Error::Refused(_) => Failure::Retry(error.to_string()),
    }
}

/// After this long the same turn is asked for again. A history that is proven starts with its admission.
fn decide_timeout_ms(events: &[Event]) -> u64 {
    match events.first().map(|event| &event.fact) {
        Some(Fact::Admitted(admitted)) => admitted.timing.decide_timeout_ms,
        _ => Timing::default().decide_timeout_ms,
    }
}

impl DecisionHandler {
    pub fn new(
        store: Arc<dyn Store>,
        codec: Arc<Codec>,
        registry: Arc<Registry>,
        provider: Arc<dyn ModelProvider>,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Self {
        let config = DecisionConfig::default();
        let histories = Recent::new(config.history_bytes);
        Self { store, codec, registry, provider, clock, metrics, config, histories }
    }

    /// The same with other settings.
    pub fn with_config(self, config: DecisionConfig) -> Self {
        Self { config, histories: Recent::new(config.history_bytes), ..self }
    }

    async fn answer(&self, record: &Inbound) -> Result<Option<Answered>, Refused> {
        let turn: TurnReady = self.codec.decode(record).map_err(Refused::Rejected)?;
        let scope = &turn.scope;
        let field = format!("{}/{}/{}/{}", scope.step, scope.round, scope.basis.version, scope.basis.hash);
        let known = self.histories.take(&committed::address(scope));
        let read = committed::read(self.store.as_ref(), scope, &field, known).await?;
        let dropped = match committed::standing(scope, &read.loaded).map_err(Refused::Failed)? {
            Standing::Current => return self.decide(turn, field, read).await.map(Some),
            Standing::Stale => reasons::STALE,
            Standing::Frozen => reasons::FROZEN,
            Standing::BasisAhead => {
                let (invocation_id, version) = (scope.invocation_id, scope.basis.version);
                tracing::error!(%invocation_id, %version, "a turn's basis is not in the store; nothing is decided");
                reasons::BASIS_AHEAD
            }
        };
        self.metrics.count(names::IGNORED, &[("reason", dropped)]);
        Ok(None)
    }

    /// The stored answer, or the model's, which is stored while it is published.
    async fn decide(&self, turn: TurnReady, field: String, read: Read) -> Result<Answered, Refused> {
        if let Some(stored) = &read.answered {
            let unreadable = |error| Failure::Retry(format!("the journalled answer {field} is unreadable: {error}"));
            let answer = serde_json::from_slice(stored).map_err(|error| Refused::Failed(unreadable(error)))?;
            return Ok(Answered { outbound: self.publish(turn, answer)?, journal: None });
        }
        let answer = self.ask(&turn, read).await?;
        let bytes = serde_json::to_vec(&answer).expect("an answer is always JSON");
        let (store, address) = (Arc::clone(&self.store), committed::address(&turn.scope));
        let journal = async move {
            let stored = store.journal(&address, &field, &bytes).await.map_err(failure)?;
            // Of two that were asked for, the one that was stored first counts; handled again, the turn is answered with it.
            if stored == bytes {
                Ok(())
            } else {
                Err(Failure::Retry(format!("{field} was answered by another process")))
            }
        };
        Ok(Answered { outbound: self.publish(turn, answer)?, journal: Some(Beside(Box::pin(journal))) })
    }

    async fn ask(&self, turn: &TurnReady, mut read: Read) -> Result<ModelAnswer, Refused> {
        let scope = &turn.scope;
        let broken = |why: String| Refused::Failed(Failure::Retry(format!("the committed history is broken: {why}")));
        let history = read.history(scope).map_err(broken)?;
        let Some(agent) = self.registry.agent(&turn.agent) else {
            return Ok(ModelAnswer::Failed {
                message: format!("agent `{}` is not in agents.yaml any more", turn.agent),
            });
        };
        let most = self.config.context_bytes;
        let context = Context::build(turn, agent, &self.registry, &history.events, most).map_err(broken)?;
        let until_end_ms = turn.deadline.ms_since(read.loaded.now);
        let budget_ms = until_end_ms.min(decide_timeout_ms(&history.events)).min(self.config.budget_ms);
        let bytes = history.bytes;
        let evicted = self.histories.put(committed::address(scope), history, bytes);
        self.metrics.add("turnwright.histories_evicted", evicted, &[]);
        let request = ModelRequest {
            invocation_id: scope.invocation_id,
            step: scope.step,
            round: scope.round,
            basis: scope.basis,
            agent: turn.agent.clone(),
            model: agent.model.clone(),
            attempt: 1,
            digest: context.digest(),
            context,
        };
        let digest = request.digest;
        let answered = ask::ask(
            self.provider.as_ref(),
            self.clock.as_ref(),
            &self.config,
            request,
            Duration::from_millis(budget_ms),
        );
        Ok(match answered.await {
            Ok(reply) => body::proposed(reply, agent.prices.as_ref(), digest),
            Err(message) => {
                tracing::warn!(invocation_id = %scope.invocation_id, step = %scope.step, message, "no decision");
                ModelAnswer::Failed { message }
            }
        })
    }

    fn publish(&self, turn: TurnReady, answer: ModelAnswer) -> Result<Outbound, Refused> {
        let outcome = match &answer {
            ModelAnswer::Proposed { .. } => "proposed",
            ModelAnswer::Failed { .. } => "failed",
        };
        let proposed = DecisionProposed { turn, answer };
        let outbound = self.encode(&proposed).or_else(|error| match error {
            EncodeError::Oversize { .. } | EncodeError::TooDeep { .. } => {
                let answer = ModelAnswer::Failed { message: format!("the answer does not fit its record: {error}") };
                self.encode(&DecisionProposed { answer, ..proposed })
            }
            EncodeError::Unregistered { .. } | EncodeError::Unencodable { .. } => Err(error),
        });
        let outbound = outbound.map_err(|error| match error {
            EncodeError::Unregistered { .. } => Refused::Failed(Failure::Unavailable(error.to_string())),
            EncodeError::Oversize { .. } | EncodeError::TooDeep { .. } | EncodeError::Unencodable { .. } => {
                Refused::Rejected(Rejection::new(DeadLetterCode::Oversize, "", error.to_string()))
            }
        })?;
        self.metrics.count(names::APPLIED, &[("outcome", outcome)]);
        Ok(outbound)
    }

    fn encode(&self, proposed: &DecisionProposed) -> Result<Outbound, EncodeError> {
        self.codec.encode(proposed, event_id(&proposed.turn.scope), None)
    }
}

fn event_id(scope: &Scope) -> EventId {
    let name = format!("decision/{}/{}", scope.step, scope.round);
    EventId::answer(scope.invocation_id, scope.basis, &name)
}

#[async_trait]
impl Handler for DecisionHandler {
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        record.key.clone().unwrap_or_default()
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        self.codec.learn(batch).await.map_err(|error| Failure::Unavailable(error.to_string()))?;
        let mut reply = Reply::default();
        for (i, record) in batch.iter().enumerate() {
            match self.answer(record).await {
                Ok(None) => {}
                Ok(Some(Answered { outbound, journal })) => {
                    reply.publish.push(outbound);
                    reply.beside.extend(journal);
                }
                Err(Refused::Rejected(rejection)) => reply.rejected.push((i, rejection)),
                Err(Refused::Failed(failure)) => return Err(failure),
            }
        }
        Ok(reply)
    }
}
