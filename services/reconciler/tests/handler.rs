//! The handler with a fake owner, and the HTTP edge against real sockets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use chassis::registry::{AgentsFile, IngressFile, Registry, ToolsFile};
use chassis::{Clock, Handler, Metrics};
use futures::executor::block_on;
use protocol::*;
use schemas::{Codec, CodecConfig, Inbound};
use serde_json::json;
use turnwright_reconciler::{HttpOwner, OwnerQuery, OwnerReply, Question, ReconcilerHandler, Verb, names};

/// An owner that answers questions in one way and tombstones in another.
struct FakeOwner {
    reply: Mutex<OwnerReply>,
    closes: OwnerReply,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl OwnerQuery for FakeOwner {
    async fn ask(&self, question: &Question<'_>) -> OwnerReply {
        let Question { verb, url, effect_key, timeout, .. } = question;
        self.asked.lock().unwrap().push(format!("{verb:?} {url}/{effect_key} in {}", timeout.as_millis()));
        match verb {
            Verb::Ask => self.reply.lock().unwrap().clone(),
            Verb::Close => self.closes.clone(),
        }
    }
}

/// A clock that stands until it is moved.
#[derive(Default)]
struct Still(AtomicU64);

#[async_trait]
impl Clock for Still {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    async fn sleep(&self, _: Duration) {
        panic!("a handler that asks an owner waits for nothing else");
    }
}

struct World {
    owner: Arc<FakeOwner>,
    clock: Arc<Still>,
    metrics: Metrics,
    codec: Arc<Codec>,
    handler: ReconcilerHandler,
}

fn world(reply: OwnerReply) -> World {
    world_that_closes(reply, OwnerReply::TimedOut)
}

fn world_that_closes(reply: OwnerReply, closes: OwnerReply) -> World {
    let effect = |query| json!({"key": "per_invocation", "owner": "payments", "dedupe": "key", "query": query});
    let mut closing = effect(true);
    closing["tombstone"] = json!(true);
    let http =
        json!({"kind": "http", "endpoint": {"url": "http://owner/"}, "reconcile": {"url": "http://owner/effects"}});
    let tools = json!({"tools": [
        {"name": "refund", "arguments": {}, "effect": effect(true), "run": http},
        {"name": "final_refund", "arguments": {}, "effect": closing, "run": http},
        {"name": "mute", "arguments": {}, "effect": effect(false), "run": http},
        {"name": "nowhere", "arguments": {}, "effect": effect(true),
         "run": {"kind": "http", "endpoint": {"url": "http://owner/"}}},
        {"name": "read", "arguments": {}, "run": http},
    ]});
    let tools: ToolsFile = serde_json::from_value(tools).unwrap();
    let registry = Registry {
        agents: AgentsFile { agents: vec![], tenants: vec![] },
        tools,
        ingress: IngressFile { ingress: vec![], keys: vec![] },
        digest: Digest::default(),
        directory: "".into(),
    };
    let owner = Arc::new(FakeOwner { reply: Mutex::new(reply), closes, asked: Mutex::default() });
    let (metrics, codec) = (Metrics::silent("reconciler"), Arc::new(Codec::new(CodecConfig::default())));
    let asked = Arc::clone(&owner) as Arc<dyn OwnerQuery>;
    let clock = Arc::new(Still::default());
    let ticking = Arc::clone(&clock) as Arc<dyn Clock>;
    let handler = ReconcilerHandler::new(Arc::clone(&codec), Arc::new(registry), asked, ticking, metrics.clone());
    World { owner, clock, metrics, codec, handler }
}

fn query(tool: &str) -> EffectQueried {
    let invocation_id: InvocationId = "00000000-0000-0000-0000-000000000007".parse().unwrap();
    let basis = Basis { version: Version(9), hash: Digest::of("event", &[]) };
    let call_id = CallId::derive(invocation_id, Step(1), Round(0), 0);
    EffectQueried {
        scope: Scope {
            tenant: "acme".into(),
            invocation_id,
            task_type: "refund".into(),
            step: Step(1),
            round: Round(0),
            basis,
        },
        call_id,
        effect_key: "key-7".into(),
        attempt_id: AttemptId::derive(call_id, AttemptNumber(1)),
        probe: Probe(2),
        tool: tool.into(),
        owner: "payments".into(),
        request_fingerprint: Digest::of("request", &[]),
        unknown_since: Timestamp(1),
        lease_until: Timestamp(2),
        seal: false,
    }
}

impl World {
    fn inbound(&self, query: &EffectQueried) -> Inbound {
        let id = EventId::derive(query.scope.invocation_id, query.scope.basis, 1);
        self.codec.arrival(self.codec.encode(query, id, None).unwrap())
    }

    fn answer(&self, tool: &str) -> EffectAnswered {
        self.answer_to(query(tool))
    }

    fn answer_to(&self, query: EffectQueried) -> EffectAnswered {
        let record = self.inbound(&query);
        let reply = block_on(self.handler.handle(std::slice::from_ref(&record))).unwrap();
        let [outbound] = &reply.publish[..] else { panic!("one answer per question") };
        let name = format!("resolution/key-7/{}/2", query.attempt_id);
        let expected = EventId::answer(query.scope.invocation_id, query.scope.basis, &name);
        assert_eq!(outbound.event_id, expected);
        let arrived = Inbound { key: Some(outbound.key.clone()), value: Some(outbound.value.clone()), ..record };
        self.codec.decode(&arrived).unwrap()
    }
}

#[test]
fn a_question_goes_to_the_registered_place_and_its_answer_echoes_it() {
    let world = world(OwnerReply::Answered { status: 404, body: vec![], retry_after_ms: None });
    let answered = world.answer("refund");
    let asked = query("refund");
    assert_eq!((&answered.scope, answered.attempt_id, answered.probe), (&asked.scope, asked.attempt_id, asked.probe));
    assert_eq!(answered.answer, Answer::NotApplied);
    assert_eq!(*world.owner.asked.lock().unwrap(), ["Ask http://owner/effects/key-7 in 5000"]);
}

#[test]
fn an_owner_that_cannot_be_asked_is_unanswerable_and_nobody_is_asked() {
    let world = world(OwnerReply::TimedOut);
    for tool in ["unknown", "mute", "nowhere", "read"] {
        assert!(matches!(world.answer(tool).answer, Answer::Unanswerable { .. }), "{tool}");
    }
    assert!(world.owner.asked.lock().unwrap().is_empty());
}

#[test]
fn an_unusable_reply_is_pending_and_counted() {
    let world = world(OwnerReply::TimedOut);
    assert_eq!(world.answer("refund").answer, Answer::Pending { retry_after_ms: 0 });
    assert_eq!(world.metrics.total(names::UNUSABLE), 1);
}

fn replied(status: u16, body: &str) -> OwnerReply {
    OwnerReply::Answered { status, body: body.into(), retry_after_ms: None }
}

fn sealing(tool: &str) -> EffectQueried {
    EffectQueried { seal: true, ..query(tool) }
}

#[test]
fn a_key_that_the_owner_does_not_know_is_closed_where_no_attempt_is_to_follow() {
    let world = world_that_closes(replied(404, ""), replied(201, r#"{"status":"rejected","closed":true}"#));
    assert_eq!(world.answer("final_refund").answer, Answer::NotApplied, "another attempt may follow");
    assert_eq!(world.answer_to(sealing("refund")).answer, Answer::NotApplied, "the owner has no tombstones");
    assert_eq!(world.owner.asked.lock().unwrap().len(), 2);
    let answered = world.answer_to(sealing("final_refund")).answer;
    let Answer::Certain { outcome: EffectOutcome::Rejected { error } } = answered else { panic!("{answered:?}") };
    assert!(error.message.contains("never applied") && error.message.contains("closed"), "{}", error.message);
    let asked = world.owner.asked.lock().unwrap().split_off(2);
    assert_eq!(asked, ["Ask http://owner/effects/key-7 in 5000", "Close http://owner/effects/key-7 in 5000"]);
}

#[test]
fn a_key_that_the_owner_knows_or_is_at_work_on_is_not_closed() {
    for reply in [replied(200, r#"{"status":"committed"}"#), replied(202, ""), OwnerReply::TimedOut] {
        let world = world_that_closes(reply, replied(201, r#"{"status":"rejected"}"#));
        let answered = world.answer_to(sealing("final_refund")).answer;
        assert!(!matches!(answered, Answer::Certain { outcome: EffectOutcome::Rejected { .. } }), "{answered:?}");
        assert_eq!(world.owner.asked.lock().unwrap().len(), 1);
    }
}

#[test]
fn an_effect_that_was_applied_between_the_question_and_the_tombstone_is_committed() {
    let world = world_that_closes(replied(404, ""), replied(200, r#"{"status":"committed","effect_id":"e-1"}"#));
    let answered = world.answer_to(sealing("final_refund")).answer;
    assert!(matches!(answered, Answer::Certain { outcome: EffectOutcome::Committed { .. } }), "{answered:?}");
}

#[test]
fn a_tombstone_without_an_answer_is_tried_again_and_one_that_is_not_taken_is_counted() {
    let world = world_that_closes(replied(404, ""), OwnerReply::TimedOut);
    assert_eq!(world.answer_to(sealing("final_refund")).answer, Answer::Pending { retry_after_ms: 0 });
    let world = world_that_closes(replied(404, ""), replied(405, ""));
    assert_eq!(world.answer_to(sealing("final_refund")).answer, Answer::NotApplied);
    assert_eq!(world.metrics.total(names::UNUSABLE), 1);
}

#[test]
fn an_owner_that_is_down_is_left_alone_for_a_while_and_then_asked_once() {
    for down in [OwnerReply::TimedOut, OwnerReply::Unreachable, replied(503, "")] {
        let world = world(down);
        let pending = |ms| Answer::Pending { retry_after_ms: ms };
        let asked = || world.owner.asked.lock().unwrap().len();
        for n in 1..=5 {
            assert_eq!((world.answer("refund").answer, asked()), (pending(0), n));
        }
        assert_eq!((world.answer("final_refund").answer, asked()), (pending(10_000), 5), "the same owner");
        world.clock.0.store(4_000, Ordering::Relaxed);
        assert_eq!((world.answer("refund").answer, asked()), (pending(6_000), 5));
        let counted = |name| world.metrics.total(name);
        assert_eq!((counted(names::BREAKER_OPENED), counted(names::BREAKER_SPARED)), (1, 2));
        world.clock.0.store(10_000, Ordering::Relaxed);
        assert_eq!((world.answer("refund").answer, asked()), (pending(0), 6), "one goes through");
        assert_eq!((world.answer("refund").answer, asked()), (pending(10_000), 6));
        *world.owner.reply.lock().unwrap() = replied(404, "");
        world.clock.0.store(20_000, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(world.answer("refund").answer, Answer::NotApplied, "it is back");
        }
    }
}

#[test]
fn an_owner_that_says_nothing_usable_and_is_there_is_asked_every_time() {
    for word in [replied(200, "<html>"), replied(401, ""), replied(429, ""), OwnerReply::TooLarge] {
        let world = world(word);
        for _ in 0..20 {
            world.answer("refund");
        }
        assert_eq!(world.owner.asked.lock().unwrap().len(), 20);
    }
}

#[test]
fn the_order_key_is_the_effect_key_and_garbage_is_rejected() {
    let world = world(OwnerReply::TimedOut);
    let good = world.inbound(&query("refund"));
    let bad = Inbound { value: Some(b"garbage".to_vec()), ..good.clone() };
    assert_eq!(world.handler.order_key(&good), b"key-7");
    assert_eq!(Some(world.handler.order_key(&bad)), bad.key);
    let reply = block_on(world.handler.handle(&[bad, good])).unwrap();
    assert_eq!((reply.rejected.len(), reply.rejected[0].0, reply.publish.len()), (1, 0, 1));
}

async fn closing(Path(key): Path<String>, headers: HeaderMap) -> (StatusCode, String) {
    let fingerprint = headers["turnwright-request-fingerprint"].to_str().unwrap();
    (StatusCode::CREATED, format!("{key} {fingerprint}"))
}

#[tokio::test]
async fn over_http_the_key_is_one_path_segment_and_bodies_and_redirects_are_bounded() {
    let app = Router::new()
        .route("/effects/{key}", get(|Path(key): Path<String>| async move { key }).put(closing))
        .route("/late/{key}", get(|| async { (StatusCode::ACCEPTED, [("retry-after", "2")], "") }))
        .route("/moved/{key}", get(|| async { (StatusCode::FOUND, [("location", "/effects/x")], "") }))
        .route("/hang/{key}", get(|| async { std::future::pending::<String>().await }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let owner = HttpOwner::new().unwrap();
    let fingerprint = Digest::of("request", &[]);
    let put = async |verb, url: &str, key: &str, max_bytes| {
        let (key, timeout) = (EffectKey(key.to_owned()), Duration::from_millis(500));
        let (effect_key, request_fingerprint) = (&key, &fingerprint);
        let question = Question { verb, url, effect_key, request_fingerprint, timeout, max_bytes, traceparent: None };
        owner.ask(&question).await
    };
    let ask = async |path: &str, key: &str, max_bytes| {
        put(Verb::Ask, &format!("http://{address}{path}"), key, max_bytes).await
    };
    let answered =
        |status, body: &str, retry_after_ms| OwnerReply::Answered { status, body: body.into(), retry_after_ms };
    assert_eq!(ask("/effects", "a/../b?c", 100).await, answered(200, "a/../b?c", None));
    assert_eq!(ask("/effects/", "k", 100).await, answered(200, "k", None));
    assert_eq!(ask("/effects", "0123456789", 5).await, OwnerReply::TooLarge);
    let closed = put(Verb::Close, &format!("http://{address}/effects"), "a/b", 100).await;
    assert_eq!(closed, answered(201, &format!("a/b {fingerprint}"), None));
    assert_eq!(ask("/late", "k", 100).await, answered(202, "", Some(2_000)));
    assert_eq!(ask("/moved", "k", 100).await, answered(302, "", None));
    assert_eq!(ask("/hang", "k", 100).await, OwnerReply::TimedOut);
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    assert_eq!(put(Verb::Ask, &nobody, "k", 100).await, OwnerReply::Unreachable);
}
