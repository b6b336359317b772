//! The handler with a fake owner, and the HTTP edge against real sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use chassis::registry::{AgentsFile, IngressFile, Registry, ToolsFile};
use chassis::{Handler, Metrics};
use futures::executor::block_on;
use protocol::*;
use schemas::{Codec, CodecConfig, Inbound};
use serde_json::json;
use turnwright_reconciler::{HttpOwner, OwnerQuery, OwnerReply, Question, ReconcilerHandler, names};

struct FakeOwner {
    reply: OwnerReply,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl OwnerQuery for FakeOwner {
    async fn ask(&self, question: &Question<'_>) -> OwnerReply {
        let asked = format!("{}/{} in {}", question.url, question.effect_key, question.timeout.as_millis());
        self.asked.lock().unwrap().push(asked);
        self.reply.clone()
    }
}

struct World {
    owner: Arc<FakeOwner>,
    metrics: Metrics,
    codec: Arc<Codec>,
    handler: ReconcilerHandler,
}

fn world(reply: OwnerReply) -> World {
    let effect = |query| json!({"key": "per_invocation", "owner": "payments", "dedupe": "key", "query": query});
    let http =
        json!({"kind": "http", "endpoint": {"url": "http://owner/"}, "reconcile": {"url": "http://owner/effects"}});
    let tools = json!({"tools": [
        {"name": "refund", "arguments": {}, "effect": effect(true), "run": http},
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
    let owner = Arc::new(FakeOwner { reply, asked: Mutex::default() });
    let (metrics, codec) = (Metrics::silent("reconciler"), Arc::new(Codec::new(CodecConfig::default())));
    let asked = Arc::clone(&owner) as Arc<dyn OwnerQuery>;
    let handler = ReconcilerHandler::new(Arc::clone(&codec), Arc::new(registry), asked, metrics.clone());
    World { owner, metrics, codec, handler }
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
    }
}

impl World {
    fn inbound(&self, query: &EffectQueried) -> Inbound {
        let id = EventId::derive(query.scope.invocation_id, query.scope.basis, 1);
        self.codec.arrival(self.codec.encode(query, id, None).unwrap())
    }

    fn answer(&self, tool: &str) -> EffectAnswered {
        let query = query(tool);
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
    assert_eq!(*world.owner.asked.lock().unwrap(), ["http://owner/effects/key-7 in 5000"]);
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

#[tokio::test]
async fn over_http_the_key_is_one_path_segment_and_bodies_and_redirects_are_bounded() {
    let app = Router::new()
        .route("/effects/{key}", get(|axum::extract::Path(key): axum::extract::Path<String>| async move { key }))
        .route("/late/{key}", get(|| async { (StatusCode::ACCEPTED, [("retry-after", "2")], "") }))
        .route("/moved/{key}", get(|| async { (StatusCode::FOUND, [("location", "/effects/x")], "") }))
        .route("/hang/{key}", get(|| async { std::future::pending::<String>().await }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let owner = HttpOwner::new().unwrap();
    let ask = async |path: &str, key: &str, max_bytes| {
        let (url, key) = (format!("http://{address}{path}"), EffectKey(key.to_owned()));
        let timeout = Duration::from_millis(500);
        owner.ask(&Question { url: &url, effect_key: &key, timeout, max_bytes, traceparent: None }).await
    };
    let answered =
        |status, body: &str, retry_after_ms| OwnerReply::Answered { status, body: body.into(), retry_after_ms };
    assert_eq!(ask("/effects", "a/../b?c", 100).await, answered(200, "a/../b?c", None));
    assert_eq!(ask("/effects/", "k", 100).await, answered(200, "k", None));
    assert_eq!(ask("/effects", "0123456789", 5).await, OwnerReply::TooLarge);
    assert_eq!(ask("/late", "k", 100).await, answered(202, "", Some(2_000)));
    assert_eq!(ask("/moved", "k", 100).await, answered(302, "", None));
    assert_eq!(ask("/hang", "k", 100).await, OwnerReply::TimedOut);
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let key = EffectKey("k".into());
    let timeout = Duration::from_secs(5);
    let question = Question { url: &nobody, effect_key: &key, timeout, max_bytes: 100, traceparent: None };
    assert_eq!(owner.ask(&question).await, OwnerReply::Unreachable);
}
