//! A pipeline with one agent, a few tools, and callers of two tenants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chassis::Clock;
use chassis::registry::{AgentsFile, IngressFile, Registry, ToolsFile};
use decision::{ModelProvider, ModelReply, ModelRequest, ProviderError, ScriptedProvider};
use protocol::{
    Budget, BudgetRequest, CallResult, Control, Digest, EffectKey, EffectOutcome, ErrorClass, Event, Fact,
    InvocationId, Request, RunEnded, Tenant, TurnCommitted,
};
use reconciler::{OwnerQuery, OwnerReply, Question};
use schemas::{ControlRecord, DeadLetterCode, SigningKey};
use serde_json::{Value, json};
use tool_executor::{Answered, ToolRequest, ToolTransport, Transported};
use turnwright_tests::sim::{Edges, Pipeline, Seen, SimClock, World as SimWorld};
use uuid::Uuid;
use validation::policy::{Policy, PolicyFiles};

pub const TENANT: &str = "acme";
pub const OTHER_TENANT: &str = "globex";
pub const AGENT: &str = "desk";
/// The keys of RFC 8032, 7.1, test 1: everybody has them.
const PRIVATE_KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
";
const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
";

/// Longer than any run of these tests.
pub const PATIENCE_MS: u64 = 300_000;

/// What a tool does with a request, and how many milliseconds later.
type Act = dyn Fn(&ToolRequest<'_>) -> (u64, Transported) + Send + Sync;

/// The tools, their owner, and who was called.
#[derive(Clone)]
pub struct World {
    act: Arc<Act>,
    answer: Arc<dyn Fn(&Question<'_>) -> OwnerReply + Send + Sync>,
    /// The tools in the order of their calls.
    called: Arc<Mutex<Vec<String>>>,
    /// What the model was asked.
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl World {
    pub fn new(act: impl Fn(&ToolRequest<'_>) -> (u64, Transported) + Send + Sync + 'static) -> Self {
        let answer = |_: &Question<'_>| OwnerReply::Unreachable;
        Self { act: Arc::new(act), answer: Arc::new(answer), called: Arc::default(), asked: Arc::default() }
    }

    /// Tools that echo their arguments after a millisecond.
    pub fn echoing() -> Self {
        Self::new(|request| (1, answered(200, json!({"echo": request.arguments}))))
    }

    pub fn with_owner(self, answer: impl Fn(&Question<'_>) -> OwnerReply + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), ..self }
    }

    pub fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }

    pub fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().unwrap().clone()
    }
}

/// The scenario's model, and who asked it what.
struct Asked {
    world: World,
    model: ScriptedProvider,
}

#[async_trait]
impl ModelProvider for Asked {
    async fn decide(&self, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
        self.world.asked.lock().unwrap().push(request.clone());
        self.model.decide(request).await
    }
}

struct Played {
    world: World,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl ToolTransport for Played {
    async fn call(&self, request: &ToolRequest<'_>) -> Transported {
        self.world.called.lock().unwrap().push(request.tool.name.to_string());
        let (delay_ms, result) = (self.world.act)(request);
        self.clock.sleep(Duration::from_millis(delay_ms)).await;
        result
    }
}

#[async_trait]
impl OwnerQuery for Played {
    async fn ask(&self, question: &Question<'_>) -> OwnerReply {
        (self.world.answer)(question)
    }
}

pub fn answered(status: u16, body: Value) -> Transported {
    Transported::Answered(Answered::new(status, body.to_string().into_bytes()))
}

pub fn owner_says(status: u16, body: Value) -> OwnerReply {
    OwnerReply::Answered { status, body: body.to_string().into_bytes(), retry_after_ms: None }
}

/// The services around a scenario.
pub fn pipeline(scenario: &str, world: &World) -> Pipeline {
    pipeline_with(1, registry(), scenario, world)
}

pub fn pipeline_with(seed: u64, registry: Registry, scenario: &str, world: &World) -> Pipeline {
    signed(Pipeline::new(seed, Arc::new(registry), edges(scenario, world)))
}

/// The same under these Cedar policies.
pub fn pipeline_under(policies: &str, scenario: &str, world: &World) -> Pipeline {
    let policy = Policy::compile(&PolicyFiles::of(policies)).unwrap_or_else(|problems| panic!("{problems:?}"));
    signed(Pipeline::with_policy(1, Arc::new(registry()), Arc::new(policy), edges(scenario, world)))
}

/// Two tenants share the topic of controls, so that each needs a signature: that of a gateway, which speaks for everyone.
fn signed(mut pipeline: Pipeline) -> Pipeline {
    pipeline.sign_with(Some(key("gateway")));
    pipeline
}

/// The private half of [`PUBLIC_KEY`], under an ID.
pub fn key(id: &str) -> SigningKey {
    SigningKey::from_pem(id, PRIVATE_KEY.as_bytes()).expect("it is a key")
}

fn edges(scenario: &str, world: &World) -> impl FnOnce(&SimWorld) -> Edges {
    move |time| {
        let clock: Arc<dyn Clock> = Arc::new(SimClock(time.clone()));
        let model = ScriptedProvider::from_text(AGENT.into(), "scenario", scenario, clock.clone());
        let played = Arc::new(Played { world: world.clone(), clock });
        Edges {
            model: Arc::new(Asked {
                world: world.clone(),
                model: model.unwrap_or_else(|problems| panic!("{problems}")),
            }),
            tools: played.clone(),
            owners: played,
        }
    }
}

/// One agent with three reads and two effects: `refund`, whose owner can be asked, and `wire`, whose owner cannot.
pub fn registry() -> Registry {
    let tools: ToolsFile = serde_json::from_value(json!({"tools": [
        tool("a", json!({})),
        tool("b", json!({})),
        tool("c", json!({})),
        tool("read_order", json!({"reads": ["order:{n}"]})),
        tool("refund", json!({
            "writes": ["order:{n}"],
            "effect": {"key": "refund:{n}", "owner": "payments", "dedupe": "key", "query": true, "settle_ms": 100,
                       "probe": {"max_probes": 4, "base_ms": 50, "cap_ms": 1_000}},
            "run": {"kind": "http", "endpoint": {"url": "http://payments/refunds"},
                    "reconcile": {"url": "http://payments/refunds"}},
        })),
        tool("wire", json!({
            "writes": ["account:{n}"],
            "effect": {"key": "per_invocation", "owner": "bank", "dedupe": "none", "query": false},
        })),
    ]}))
    .unwrap();
    let names: Vec<_> = tools.tools.iter().map(|tool| tool.name.clone()).collect();
    let agents: AgentsFile = serde_json::from_value(json!({"agents": [{
        "name": AGENT, "provider": {"kind": "scripted", "scenario": "scenario"}, "model": "scripted", "tools": names,
        "timing": {"max_runtime_ms": 120_000, "call_slack_ms": 500},
    }], "tenants": [{"tenant": "*", "ceiling": Budget { max_steps: 100, ..Budget::default() }}]}))
    .unwrap();
    let ingress: IngressFile = serde_json::from_value(json!({"ingress": [
        {"carries": "invocations", "tenants": [TENANT, OTHER_TENANT]},
        {"carries": "controls", "tenants": [TENANT, OTHER_TENANT]},
    ], "keys": [
        {"id": "gateway", "tenants": [TENANT, OTHER_TENANT], "public_key": PUBLIC_KEY},
        {"id": "grace", "actor": "grace", "tenants": [TENANT], "public_key": PUBLIC_KEY},
    ]}))
    .unwrap();
    Registry { agents, tools, ingress, digest: Digest::of("registry", &[]), directory: std::path::PathBuf::new() }
}

fn tool(name: &str, more: Value) -> Value {
    let mut tool = json!({
        "name": name,
        "arguments": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                      "additionalProperties": false},
        "timeout_ms": 20_000,
        "retry": {"max_attempts": 2, "base_ms": 50, "cap_ms": 100},
        "run": {"kind": "http", "endpoint": {"url": "http://tools/call"}},
    });
    tool.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    tool
}

pub fn id(n: u128) -> InvocationId {
    InvocationId(Uuid::from_u128(n))
}

pub fn request(n: u128) -> Request {
    Request {
        invocation_id: id(n),
        tenant: TENANT.into(),
        actor: "ada".into(),
        task_type: "test".into(),
        agent: AGENT.into(),
        goal: json!("do it"),
        tools: None,
        budget: BudgetRequest::default(),
        deadline: None,
        output_schema: None,
        goal_predicates: Vec::new(),
        labels: BTreeMap::new(),
        requested_at: None,
    }
}

/// A control of the tenant's, for the run `n`.
pub fn control(n: u128, control: Control) -> ControlRecord {
    ControlRecord { tenant: TENANT.into(), invocation_id: id(n), control }
}

/// A person's yes to a proposal of the run `n`.
pub fn approve(n: u128, proposal_digest: Digest) -> ControlRecord {
    control(n, Control::Approve { actor: "grace".into(), proposal_digest })
}

/// A person's no to it.
pub fn reject(n: u128, proposal_digest: Digest) -> ControlRecord {
    control(n, Control::Reject { actor: "grace".into(), proposal_digest, reason: "not today".into() })
}

/// A person's word, with evidence, on what became of an effect of the run `n`.
pub fn resolve(n: u128, effect_key: EffectKey, outcome: EffectOutcome) -> ControlRecord {
    let (actor, evidence) = ("grace".into(), "statement of account, line 12".to_owned());
    control(n, Control::ResolveEffect { actor, effect_key, outcome, evidence })
}

/// The owner has committed it, and gives no receipt.
pub fn was_committed(output: Value) -> EffectOutcome {
    EffectOutcome::Committed { receipt: None, output }
}

/// The codes of the dead letters, in their order.
pub fn codes(pipeline: &Pipeline) -> Vec<DeadLetterCode> {
    pipeline.seen().dead_letters().iter().map(|letter| letter.rejection.code).collect()
}

/// Runs until the run waits for a person: what its newest terminal event says.
#[track_caller]
pub fn suspended(pipeline: &mut Pipeline, n: u128) -> RunEnded {
    let seen = pipeline.seen().terminals(id(n)).len();
    let came = pipeline.run_until(PATIENCE_MS, |now| now.terminals(id(n)).len() > seen);
    assert!(came, "no terminal event; the events: {:#?}", facts(&events(pipeline, id(n))));
    let (_, ended) = pipeline.seen().terminals(id(n)).pop().expect("one came");
    assert!(ended.resumable, "{ended:?}");
    ended
}

pub fn cancel(tenant: &str, invocation_id: InvocationId) -> ControlRecord {
    let control = Control::Cancel { actor: "ada".into(), reason: "changed my mind".into() };
    ControlRecord { tenant: tenant.into(), invocation_id, control }
}

/// Runs one request to its only terminal event.
#[track_caller]
pub fn run(pipeline: &mut Pipeline, request: &Request) -> RunEnded {
    pipeline.request(request);
    ended(pipeline, request.invocation_id)
}

/// Runs until the final terminal event of a run, and a while longer, so that a second one would be seen.
#[track_caller]
pub fn ended(pipeline: &mut Pipeline, id: InvocationId) -> RunEnded {
    let came = pipeline.run_until(PATIENCE_MS, |seen| seen.terminals(id).iter().any(|(_, ended)| !ended.resumable));
    assert!(came, "no terminal event; the events: {:#?}", facts(&events(pipeline, id)));
    pipeline.run_for(10_000);
    let mut finals: Vec<RunEnded> = pipeline.seen().terminals(id).into_iter().map(|(_, ended)| ended).collect();
    finals.retain(|ended| !ended.resumable);
    assert_eq!(finals.len(), 1, "a run ends once: {finals:#?}");
    finals.remove(0)
}

pub fn events(pipeline: &Pipeline, id: InvocationId) -> Vec<Event> {
    pipeline.stored(&Tenant(TENANT.to_owned()), id)
}

pub fn facts(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.fact.name()).collect()
}

/// The error classes of the first turn's results, with the number of attempts each took.
pub fn outcomes(pipeline: &Pipeline) -> Vec<(Option<ErrorClass>, u32)> {
    let events = events(pipeline, id(1));
    let results = turns(&events)[0].results.iter();
    let outcome = results.map(|result| match &result.outcome.result {
        CallResult::Output(_) => (None, result.outcome.attempts),
        CallResult::Error(error) => (Some(error.class), result.outcome.attempts),
    });
    outcome.collect()
}

/// Runs 24 requests, far more than there are partitions, to their ends beside whatever else runs: how long they take, in
/// milliseconds.
#[track_caller]
pub fn quick_runs(pipeline: &mut Pipeline) -> u64 {
    let start = pipeline.now_ms();
    (1..=24).for_each(|n| pipeline.request(&request(n)));
    let all = |seen: &Seen| (1..=24).all(|n| !seen.terminals(id(n)).is_empty());
    assert!(pipeline.run_until(PATIENCE_MS, all), "the quick runs end");
    pipeline.now_ms() - start
}

/// The committed turns of a run.
pub fn turns(events: &[Event]) -> Vec<&TurnCommitted> {
    let turn = |event| match event {
        &Event { fact: Fact::TurnCommitted(ref turn), .. } => Some(turn.as_ref()),
        Event { .. } => None,
    };
    events.iter().filter_map(turn).collect()
}
