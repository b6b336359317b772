//! A committed invocation in a memory store, a provider that plays a list of answers, and a clock that jumps.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::Registry;
use chassis::{Clock, Failure, Handler, Metrics, Reply};
use futures::executor::block_on;
use protocol::*;
use schemas::{Codec, CodecConfig, Inbound, Outbound};
use serde_json::{Value, json};
use store::{Address, Decider, Encode, MemoryStore, Store};
use uuid::Uuid;

use crate::{DecisionConfig, DecisionHandler, ModelProvider, ModelReply, ModelRequest, ProviderError, Said};

/// Time passes only while someone sleeps.
#[derive(Default)]
pub struct JumpingClock(Mutex<(Duration, Vec<u64>)>);

impl JumpingClock {
    pub fn sleeps_ms(&self) -> Vec<u64> {
        self.0.lock().unwrap().1.clone()
    }
}

#[async_trait]
impl Clock for JumpingClock {
    fn elapsed(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    async fn sleep(&self, duration: Duration) {
        let mut inner = self.0.lock().unwrap();
        inner.0 += duration;
        inner.1.push(u64::try_from(duration.as_millis()).unwrap());
    }
}

/// Where an answer is journalled, and the answer.
type Journalled = (Arc<MemoryStore>, Address, String, ModelAnswer);

/// Plays its answers in order, remembers every request, and never answers when it has none left.
#[derive(Default)]
pub struct Played {
    pub answers: Mutex<VecDeque<Result<ModelReply, ProviderError>>>,
    pub requests: Mutex<Vec<ModelRequest>>,
    /// Journalled by somebody else while the model is asked.
    pub meanwhile: Mutex<Option<Journalled>>,
}

#[async_trait]
impl ModelProvider for Played {
    async fn decide(&self, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
        self.requests.lock().unwrap().push(request.clone());
        let other = self.meanwhile.lock().unwrap().take();
        if let Some((store, address, field, answer)) = other {
            store.journal(&address, &field, &serde_json::to_vec(&answer).unwrap()).await.unwrap();
        }
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

pub fn reply(said: Said) -> Result<ModelReply, ProviderError> {
    let usage = Usage { input_tokens: 3, output_tokens: 2, cost_micros: 1 };
    Ok(ModelReply { said, response_id: "r1".into(), model: "m".into(), usage })
}

pub fn decision(text: &str) -> Result<ModelReply, ProviderError> {
    reply(Said::Decision(text.to_owned()))
}

#[derive(Default)]
struct Sent(Mutex<Vec<Message>>);

impl Encode for Sent {
    fn encode(&self, outgoing: &Outgoing, _at: Timestamp) -> Result<Vec<u8>, String> {
        self.0.lock().unwrap().push(outgoing.message.clone());
        Ok(Vec::new())
    }
}

pub struct World {
    pub store: Arc<MemoryStore>,
    pub registry: Arc<Registry>,
    pub codec: Arc<Codec>,
    pub provider: Arc<Played>,
    pub clock: Arc<JumpingClock>,
    pub metrics: Metrics,
    pub config: DecisionConfig,
    pub address: Address,
    pub now: Arc<AtomicI64>,
    decider: Decider,
    sent: Arc<Sent>,
}

const AGENTS: &str = "agents:\n- name: desk\n  provider: {kind: scripted, scenario: s.yaml}\n  model: m1\n  \
                      system: Be careful.\n  tools: [look, peek]\n";
const TOOLS: &str = "tools:\n- name: look\n  description: Looks.\n  arguments: {type: object}\n  \
                     run: {kind: lookup, argument: q, rows: {}}\n- name: peek\n  arguments: {type: object}\n  \
                     run: {kind: lookup, argument: q, rows: {}}\n";

pub fn registry() -> Registry {
    Registry {
        agents: serde_yaml_ng::from_str(AGENTS).unwrap(),
        tools: serde_yaml_ng::from_str(TOOLS).unwrap(),
        ingress: serde_yaml_ng::from_str("ingress: []").unwrap(),
        digest: Digest::of("registry", &[]),
        directory: PathBuf::new(),
    }
}

impl World {
    /// An admitted run of agent `desk`.
    pub fn admitted() -> Self {
        Self::of(Arc::new(registry()), "desk", json!({"order": 7, "customer": {"id": "c-1"}}))
    }

    pub fn of(registry: Arc<Registry>, agent: &str, goal: Value) -> Self {
        let now = Arc::new(AtomicI64::new(1_000));
        let time = now.clone();
        let store = Arc::new(MemoryStore::new(2, Arc::new(move || Timestamp(time.load(Ordering::SeqCst)))));
        let sent = Arc::new(Sent::default());
        let request: Request = serde_json::from_value(json!({
            "invocation_id": Uuid::from_u128(7), "tenant": "demo", "actor": "ada", "task_type": "refund",
            "agent": agent, "goal": goal, "deadline": 900_000,
        }))
        .unwrap();
        let world = Self {
            address: Address { tenant: request.tenant.clone(), id: request.invocation_id },
            decider: Decider::new(store.clone(), sent.clone()),
            store,
            codec: Arc::new(Codec::new(CodecConfig::default())),
            provider: Arc::default(),
            clock: Arc::default(),
            metrics: Metrics::silent("decision"),
            config: DecisionConfig::default(),
            now,
            sent,
            registry,
        };
        let profile = world.registry.agents.profile(&request.agent, &request.tenant);
        let (digest, requested_at) = (request.digest(), Timestamp(1_000));
        let requested = Requested { request, digest, requested_at, profile, horizon_ms: 86_400_000 };
        world.input(Input::Requested(Box::new(requested)));
        world
    }

    pub fn input(&self, input: Input) {
        let decided = block_on(self.decider.decide(&self.address, &[input])).unwrap();
        decided.outcomes.into_iter().for_each(|outcome| drop(outcome.expect("applied")));
    }

    pub fn handler(&self) -> DecisionHandler {
        self.handler_with(self.provider.clone())
    }

    pub fn handler_with(&self, provider: Arc<dyn ModelProvider>) -> DecisionHandler {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let handler = DecisionHandler::new(
            store,
            self.codec.clone(),
            self.registry.clone(),
            provider,
            clock,
            self.metrics.clone(),
        );
        handler.with_config(self.config)
    }

    pub fn will_say(&self, answers: impl IntoIterator<Item = Result<ModelReply, ProviderError>>) {
        self.provider.answers.lock().unwrap().extend(answers);
    }

    /// The newest turn that was asked for.
    pub fn turn(&self) -> TurnReady {
        let sent = self.sent.0.lock().unwrap();
        let turn = sent.iter().rev().find_map(|message| match message {
            Message::TurnReady(turn) => Some(turn.as_ref().clone()),
            _ => None,
        });
        turn.expect("a turn was asked for")
    }

    /// The newest proposal that a caller was shown.
    pub fn proposal(&self) -> Proposal {
        let sent = self.sent.0.lock().unwrap();
        let proposal = sent.iter().rev().find_map(|message| match message {
            Message::RunEnded(ended) => ended.proposal.clone(),
            _ => None,
        });
        proposal.expect("a proposal waits")
    }

    pub fn record(&self, turn: &TurnReady) -> Inbound {
        let id = EventId::answer(turn.scope.invocation_id, turn.scope.basis, "turn");
        self.codec.arrival(self.codec.encode(turn, id, None).unwrap())
    }

    /// Hands a turn over as often as the runtime would, until what goes beside publishing is done as well.
    pub fn handle(&self, turn: &TurnReady) -> Result<Reply, Failure> {
        for _ in 0..2 {
            let mut reply = self.handle_once(turn)?;
            if block_on(chassis::done_beside(std::mem::take(&mut reply.beside))).is_ok() {
                return Ok(reply);
            }
        }
        panic!("a stored answer is published without writing it again");
    }

    pub fn handle_once(&self, turn: &TurnReady) -> Result<Reply, Failure> {
        block_on(self.handler().handle(&[self.record(turn)]))
    }

    pub fn answer(&self, turn: &TurnReady) -> ModelAnswer {
        let mut reply = self.handle(turn).unwrap();
        self.decoded(reply.publish.pop().expect("one decision")).answer
    }

    pub fn decoded(&self, outbound: Outbound) -> DecisionProposed {
        self.codec.decode(&self.codec.arrival(outbound)).unwrap()
    }

    pub fn judge(&self, judgement: Judgement) {
        let (scope, digest) = (self.turn().scope, self.registry.digest);
        self.input(Input::Verdict(Box::new(Verdict {
            scope,
            judgement,
            registry_digest: digest,
            policy_digest: digest,
        })));
    }

    /// Plans calls of (ID, tool), and settles them in the reverse order.
    pub fn run_calls(&self, calls: &[(&str, &str)], output: impl Fn(&str) -> AttemptOutcome) {
        let calls = calls.iter().map(|(id, tool)| ProposedCall {
            provider_call_id: (*id).into(),
            tool: (*tool).into(),
            arguments: json!({"q": id}),
        });
        self.run_proposed(calls.collect(), output);
    }

    pub fn run_proposed(&self, calls: Vec<ProposedCall>, output: impl Fn(&str) -> AttemptOutcome) {
        let scope = self.turn().scope;
        let call_id = |ordinal| CallId::derive(scope.invocation_id, scope.step, scope.round, ordinal);
        let ids: Vec<_> = (0..).map(call_id).zip(calls.iter().map(|call| call.provider_call_id.clone())).collect();
        let accepted = calls
            .into_iter()
            .map(|call| AcceptedCall { contract: self.registry.tool(&call.tool).unwrap().contract(), call });
        let before = self.sent.0.lock().unwrap().len();
        let decision = AcceptedDecision::ToolCalls { calls: accepted.collect() };
        self.judge(Judgement::Accepted { decision, evidence: evidence() });
        let sent = self.sent.0.lock().unwrap()[before..].to_vec();
        let dispatches: Vec<_> = sent
            .into_iter()
            .filter_map(|message| match message {
                Message::ToolCallDispatched(dispatch) => Some(*dispatch),
                _ => None,
            })
            .collect();
        for dispatch in dispatches.into_iter().rev() {
            let (_, id) = ids.iter().find(|(call_id, _)| *call_id == dispatch.call_id).unwrap();
            let outcome = output(id);
            self.input(Input::CallSettled(Box::new(ToolCallSettled {
                attempt_id: AttemptId::derive(dispatch.call_id, dispatch.attempt),
                scope: dispatch.scope,
                call_id: dispatch.call_id,
                attempt: dispatch.attempt,
                effect_key: None,
                outcome,
            })));
        }
    }
}

pub fn evidence() -> ModelEvidence {
    ModelEvidence {
        response_id: "r".into(),
        model: "m".into(),
        usage: Usage::default(),
        context_digest: Digest::of("context", &[]),
    }
}

pub fn ok(output: Value) -> AttemptOutcome {
    AttemptOutcome::Succeeded { output, receipt: None }
}
