//! One invocation with a plan, and an executor whose tool, bus and clock the test holds. Futures run on a small
//! executor that moves the clock when nothing else can happen.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::{AgentsFile, IngressFile, Registry, Tool, ToolsFile};
use chassis::{Bus, Clock, Failure, Handler, Metrics};
use futures::task::{ArcWake, waker};
use protocol::*;
use schemas::{Codec, CodecConfig, Inbound, Outbound, Topic};
use serde_json::json;
use store::{Address, Decider, Encode, MemoryStore, Store};
use turnwright_tool_executor::{ExecutorHandler, ToolRequest, ToolTransport, Transported};

use crate::clock::VirtualClock;

struct Woken(AtomicBool);

impl ArcWake for Woken {
    fn wake_by_ref(woken: &Arc<Self>) {
        woken.0.store(true, Ordering::SeqCst);
    }
}

/// What the tool does with one request.
pub type Behaviour = Box<dyn Fn(&Seen) -> Option<(Duration, Transported)> + Send + Sync>;

/// A request as the tool saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub tool: ToolName,
    pub key: Option<EffectKey>,
    pub timeout: Duration,
    pub traceparent: Option<String>,
}

pub struct FakeTool {
    pub seen: Mutex<Vec<Seen>>,
    behaviour: Mutex<Behaviour>,
    clock: Arc<VirtualClock>,
}

#[async_trait]
impl ToolTransport for FakeTool {
    async fn call(&self, request: &ToolRequest<'_>) -> Transported {
        let seen = Seen {
            tool: request.tool.name.clone(),
            key: request.idempotency_key.clone(),
            timeout: request.timeout,
            traceparent: request.traceparent.map(str::to_owned),
        };
        self.seen.lock().unwrap().push(seen.clone());
        let what = (self.behaviour.lock().unwrap())(&seen);
        match what {
            Some((after, happened)) => {
                self.clock.sleep(after).await;
                happened
            }
            None => std::future::pending().await,
        }
    }
}

#[derive(Default)]
pub struct FakeBus {
    pub published: Mutex<Vec<Outbound>>,
    pub down: AtomicBool,
}

#[async_trait]
impl Bus for FakeBus {
    async fn publish(&self, records: Vec<Outbound>) -> Result<(), Failure> {
        if self.down.load(Ordering::SeqCst) {
            return Err(Failure::Unavailable("the broker is down".into()));
        }
        self.published.lock().unwrap().extend(records);
        Ok(())
    }
}

/// Encodes for the outbox; `takes_ms` passes while it does.
struct Stored {
    codec: Arc<Codec>,
    clock: Arc<VirtualClock>,
    takes_ms: Arc<AtomicI64>,
}

impl Encode for Stored {
    fn encode(&self, outgoing: &Outgoing, _: Timestamp) -> Result<Vec<u8>, String> {
        self.clock.advance(self.takes_ms.load(Ordering::SeqCst));
        self.codec.encode_message(outgoing).map(|record| record.to_bytes()).map_err(|error| error.to_string())
    }
}

pub struct World {
    pub clock: Arc<VirtualClock>,
    pub store: MemoryStore,
    pub decider: Decider,
    pub tool: Arc<FakeTool>,
    pub bus: Arc<FakeBus>,
    pub codec: Arc<Codec>,
    pub metrics: Metrics,
    /// How long a commit takes.
    pub commit_ms: Arc<AtomicI64>,
    pub handler: ExecutorHandler,
}

fn tools() -> Vec<Tool> {
    let tools = json!([
        {"name": "refund", "arguments": {}, "timeout_ms": 2_000, "writes": ["order:{order}"],
         "effect": {"key": "refund:{order}", "owner": "payments", "dedupe": "key", "query": true},
         "run": {"kind": "http", "endpoint": {"url": "http://127.0.0.1:1/"}, "reconcile": {"url": "http://127.0.0.1:1/"}}},
        {"name": "profile", "arguments": {}, "timeout_ms": 2_000, "reads": ["customer:{id}"],
         "run": {"kind": "lookup", "argument": "id", "rows": {}}},
    ]);
    serde_json::from_value(tools).unwrap()
}

impl World {
    /// `known` are the tools that the executor's registry has.
    pub fn new(known: &[&str]) -> Self {
        let clock = Arc::new(VirtualClock::default());
        let store_clock = Arc::clone(&clock);
        let now = move || Timestamp(1_000_000 + store_clock.ms.load(Ordering::SeqCst));
        let store = MemoryStore::new(1, Arc::new(now));
        let codec = Arc::new(Codec::new(CodecConfig::default()));
        let commit_ms = Arc::new(AtomicI64::new(0));
        let stored = Stored { codec: Arc::clone(&codec), clock: Arc::clone(&clock), takes_ms: Arc::clone(&commit_ms) };
        let decider = Decider::new(Arc::new(store.clone()), Arc::new(stored));
        let answers: Behaviour = Box::new(|_| None);
        let (seen, behaviour) = (Mutex::default(), Mutex::new(answers));
        let tool = Arc::new(FakeTool { seen, behaviour, clock: Arc::clone(&clock) });
        let bus = Arc::new(FakeBus::default());
        let metrics = Metrics::silent("tool-executor");
        let declared = tools().into_iter().filter(|tool| known.contains(&tool.name.as_str())).collect();
        let registry = Arc::new(Registry {
            agents: AgentsFile { agents: vec![], tenants: vec![] },
            tools: ToolsFile { tools: declared },
            ingress: IngressFile { ingress: vec![], keys: vec![] },
            digest: Digest::default(),
            directory: "".into(),
        });
        let handler = ExecutorHandler::new(
            decider.clone(),
            Arc::clone(&codec),
            registry,
            Arc::clone(&tool) as Arc<dyn ToolTransport>,
            Arc::clone(&bus) as Arc<dyn Bus>,
            Arc::clone(&clock) as Arc<dyn Clock>,
            metrics.clone(),
        );
        Self { clock, store, decider, tool, bus, codec, metrics, commit_ms, handler }
    }

    /// Runs a future to its end, moving the clock whenever it waits for nothing else.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = waker(Arc::clone(&woken));
        loop {
            if woken.0.swap(false, Ordering::SeqCst) {
                if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return done;
                }
            } else {
                self.clock.jump();
            }
        }
    }

    pub fn tool_answers(&self, behaviour: impl Fn(&Seen) -> Option<(Duration, Transported)> + Send + Sync + 'static) {
        *self.tool.behaviour.lock().unwrap() = Box::new(behaviour);
    }

    pub fn address(&self) -> Address {
        Address { tenant: "acme".into(), id: "00000000-0000-0000-0000-000000000007".parse().unwrap() }
    }

    pub fn decide(&self, input: Input) -> Vec<Outbound> {
        let decided = self.run(self.decider.decide(&self.address(), &[input])).unwrap();
        assert!(decided.outcomes.iter().all(Result::is_ok), "{:?}", decided.outcomes);
        decided.outbox.iter().map(|(_, entry)| Outbound::from_bytes(&entry.bytes).unwrap()).collect()
    }

    /// An admitted run whose first plan has one call per tool; its dispatches.
    pub fn planned(&self, calls: &[&str]) -> Vec<Inbound> {
        let request: Request = serde_json::from_value(json!({
            "invocation_id": self.address().id, "tenant": "acme", "actor": "ada", "task_type": "refund",
            "agent": "refunds", "goal": "refund order 7",
        }))
        .unwrap();
        let budget = Budget::default();
        let tools: Vec<ToolName> = vec!["refund".into(), "profile".into()];
        let profile = Profile {
            budget,
            ceiling: budget,
            timing: Timing::default(),
            mixed_batches: MixedBatches::Order,
            progress: ProgressLimits::default(),
            tools,
            digest: Digest::default(),
        };
        let (digest, requested_at) = (request.digest(), Timestamp(1_000_000));
        let profile = Some(profile);
        let out = self.decide(Input::Requested(Box::new(Requested {
            request,
            digest,
            requested_at,
            profile,
            horizon_ms: 1_000_000,
        })));
        let turn: TurnReady = self.codec.decode(&inbound(&out, Topic::Turns)[0]).unwrap();
        let calls = calls.iter().enumerate().map(|(i, name)| AcceptedCall {
            call: ProposedCall {
                provider_call_id: format!("c{i}"),
                tool: (*name).into(),
                arguments: json!({"order": i, "id": i}),
            },
            contract: tools_contract(name),
        });
        let evidence = ModelEvidence {
            response_id: "r".into(),
            model: "scripted".into(),
            usage: Usage::default(),
            context_digest: Digest::default(),
        };
        let decision = AcceptedDecision::ToolCalls { calls: calls.collect() };
        let judgement = Judgement::Accepted { decision, evidence };
        let (registry_digest, policy_digest) = (Digest::default(), Digest::default());
        let verdict = Verdict { scope: turn.scope, judgement, registry_digest, policy_digest };
        let out = self.decide(Input::Verdict(Box::new(verdict)));
        inbound(&out, Topic::Dispatches)
    }

    pub fn cancel(&self) {
        self.decide(Input::Control(Control::Cancel { actor: "ada".into(), reason: "enough".into() }));
    }

    /// Hands records to the handler and decodes its results.
    pub fn handle(&self, batch: &[Inbound]) -> Vec<ToolCallSettled> {
        let reply = self.run(self.handler.handle(batch)).unwrap();
        assert!(reply.rejected.is_empty());
        let results = inbound(&reply.publish, Topic::Results);
        results.iter().map(|record| self.codec.decode(record).unwrap()).collect()
    }

    pub fn outbox_len(&self) -> usize {
        self.run(self.store.flush_acknowledged()).unwrap();
        self.run(self.store.pending_outbox(store::Shard(0), 0, 1_000)).unwrap().len()
    }
}

fn tools_contract(name: &str) -> ToolContract {
    tools().iter().find(|tool| tool.name.as_str() == name).unwrap().contract()
}

/// Records of one topic, as they would arrive.
pub fn inbound(records: &[Outbound], topic: Topic) -> Vec<Inbound> {
    let of_topic = records.iter().filter(|record| record.topic == topic);
    of_topic
        .map(|record| Inbound {
            topic: record.topic.name("turnwright"),
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(record.key.clone()),
            value: Some(record.value.clone()),
            headers: record.headers.clone(),
        })
        .collect()
}

impl World {
    pub fn clock_ms(&self) -> u128 {
        self.clock.elapsed().as_millis()
    }
}
