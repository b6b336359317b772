//! `turns` in, `decisions` out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::Registry;
use chassis::{Clock, Failure, Handler, Metrics, Reply, names};
use protocol::{DecisionProposed, EventId, ModelAnswer, Scope, TurnReady};
use schemas::{Codec, DeadLetterCode, EncodeError, Inbound, Outbound, Rejection};
use store::Store;

use crate::committed::{self, Read, Standing};
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

/// Answers each current turn with one decision. What is stored under (invocation, step, round, basis) is what is
/// published, however often the turn arrives (I6); a turn that is not current is dropped and counted.
pub struct DecisionHandler {
    store: Arc<dyn Store>,
    codec: Arc<Codec>,
    registry: Arc<Registry>,
    provider: Arc<dyn ModelProvider>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    config: DecisionConfig,
}

enum Refused {
    Rejected(Rejection),
    Failed(Failure),
}

impl From<store::Error> for Refused {
    fn from(error: store::Error) -> Self {
        Self::Failed(match error {
            store::Error::Retryable(_) => Failure::Unavailable(error.to_string()),
            store::Error::Corrupt(_) | store::Error::Refused(_) => Failure::Retry(error.to_string()),
        })
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
        Self { store, codec, registry, provider, clock, metrics, config }
    }

    /// The same with other settings.
    pub fn with_config(self, config: DecisionConfig) -> Self {
        Self { config, ..self }
    }

    async fn answer(&self, record: &Inbound) -> Result<Option<Outbound>, Refused> {
        let turn: TurnReady = self.codec.decode(record).map_err(Refused::Rejected)?;
        let scope = &turn.scope;
        let field = format!("{}/{}/{}/{}", scope.step, scope.round, scope.basis.version, scope.basis.hash);
        let read = committed::read(self.store.as_ref(), scope, &field).await?;
        let dropped = match committed::standing(scope, &read.loaded).map_err(Refused::Failed)? {
            Standing::Current { until_end_ms, decide_timeout_ms } => {
                let budget_ms = until_end_ms.min(decide_timeout_ms).min(self.config.budget_ms);
                let answer = self.decide(&turn, &field, read, Duration::from_millis(budget_ms)).await?;
                return self.publish(turn, answer).map(Some);
            }
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

    /// The stored answer, or the model's, stored before it is published.
    async fn decide(
        &self,
        turn: &TurnReady,
        field: &str,
        read: Read,
        budget: Duration,
    ) -> Result<ModelAnswer, Refused> {
        let scope = &turn.scope;
        let stored = match read.answered {
            Some(stored) => stored,
            None => {
                let answer = self.ask(turn, &read, budget).await?;
                let bytes = serde_json::to_vec(&answer).expect("an answer is always JSON");
                // Of two that were asked for, the one that was stored first is published by both.
                self.store.journal(&committed::address(scope), field, &bytes).await?
            }
        };
        let unreadable = |error| Failure::Retry(format!("the journalled answer {field} is unreadable: {error}"));
        serde_json::from_slice(&stored).map_err(|error| Refused::Failed(unreadable(error)))
    }

    async fn ask(&self, turn: &TurnReady, read: &Read, budget: Duration) -> Result<ModelAnswer, Refused> {
        let scope = &turn.scope;
        let broken = |why: String| Refused::Failed(Failure::Retry(format!("the committed history is broken: {why}")));
        let events = committed::history(scope, &read.events).map_err(broken)?;
        let Some(agent) = self.registry.agent(&turn.agent) else {
            return Ok(ModelAnswer::Failed {
                message: format!("agent `{}` is not in agents.yaml any more", turn.agent),
            });
        };
        let most = self.config.context_bytes;
        let context = Context::build(turn, agent, &self.registry, &events, most).map_err(broken)?;
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
        let answered = ask::ask(self.provider.as_ref(), self.clock.as_ref(), &self.config, request, budget).await;
        Ok(match answered {
            Ok(reply) => body::proposed(reply, digest),
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
                Ok(outbound) => reply.publish.extend(outbound),
                Err(Refused::Rejected(rejection)) => reply.rejected.push((i, rejection)),
                Err(Refused::Failed(failure)) => return Err(failure),
            }
        }
        Ok(reply)
    }
}
