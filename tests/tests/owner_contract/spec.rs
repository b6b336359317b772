//! `owner.yaml` against the code that reads answers and the code that sends requests.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use chassis::registry::Tool;
use protocol::{
    Answer, AttemptId, AttemptOutcome, CallError, CallId, Dedupe, Digest, EffectKey, EffectOutcome, ErrorClass,
};
use reconciler::{HttpOwner, OwnerQuery, OwnerReply, Question, Verb, answer};
use serde_json::{Value, json};
use tool_executor::{Answered, CallKind, HttpTransport, ToolRequest, ToolTransport, Transported, classify};

fn document() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/owner.yaml");
    serde_yaml_ng::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn ours() -> Digest {
    serde_json::from_value(document()["x-fingerprint"].clone()).unwrap()
}

/// What an answer to the write means, in the document's words.
fn written(status: u16, body: &Value) -> &'static str {
    let happened = Transported::Answered(Answered::new(status, body.to_string()));
    let kind = CallKind::Effect { request_fingerprint: ours(), dedupe: Dedupe::Key };
    match classify(&happened, kind) {
        AttemptOutcome::Succeeded { .. } => "committed",
        AttemptOutcome::Failed { error: CallError { class: ErrorClass::Conflict, message, .. } }
            if message.starts_with("another request") =>
        {
            "conflict"
        }
        AttemptOutcome::Failed { .. } => "rejected",
        AttemptOutcome::NothingSent { .. } => "not_sent",
        AttemptOutcome::Unknown { .. } => "unknown",
    }
}

/// What an answer to a question or to a tombstone means.
fn said(verb: Verb, status: u16, body: &Value) -> &'static str {
    let reply = OwnerReply::Answered { status, body: body.to_string().into_bytes(), retry_after_ms: None };
    match answer(verb, &reply, &ours()).0 {
        Answer::Certain { outcome: EffectOutcome::Committed { .. } } => "committed",
        Answer::Certain { outcome: EffectOutcome::Rejected { error } } => match error.class {
            ErrorClass::BusinessRejected => "rejected",
            _ => "never_applied",
        },
        Answer::NotApplied => "not_applied",
        Answer::Pending { .. } => "pending",
        Answer::Unanswerable { .. } => "unanswerable",
    }
}

/// The entry for a status: its own, its hundred's, or the default.
fn entry(responses: &Value, status: u16) -> &Value {
    let names = [status.to_string(), format!("{}XX", status / 100), "default".to_owned()];
    let found = names.iter().find_map(|name| responses.get(name));
    found.unwrap_or_else(|| panic!("{status} is not in the document"))
}

/// Holds an operation's answers against the code, with and without words; how many examples there were.
fn holds(operation: &Value, means: impl Fn(u16, &Value) -> &'static str) -> usize {
    let responses = &operation["responses"];
    for status in 200..600 {
        let bare = entry(responses, status)["x-bare"].as_str();
        assert_eq!(bare, Some(means(status, &json!({}))), "{} {status}", operation["operationId"]);
    }
    let mut examples = 0;
    for (name, response) in responses.as_object().unwrap() {
        let status = name.replace("XX", "00").parse().unwrap_or(400);
        let told = response.pointer("/content/application~1json/examples").and_then(Value::as_object);
        for (example, told) in told.into_iter().flatten() {
            let expected = told["x-means"].as_str();
            assert_eq!(expected, Some(means(status, &told["value"])), "{} {name} {example}", operation["operationId"]);
            examples += 1;
        }
    }
    examples
}

#[test]
fn every_answer_means_what_the_document_says() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let effects = &document["paths"]["/effects/{effect_key}"];
    assert!(holds(&document["paths"]["/changes"]["post"], written) >= 12);
    assert!(holds(&effects["get"], |status, body| said(Verb::Ask, status, body)) >= 4);
    assert!(holds(&effects["put"], |status, body| said(Verb::Close, status, body)) >= 5);
}

/// The headers that an operation and its path name, in lower case, with the ones that may be left out.
fn headers(document: &Value, of: [&Value; 2]) -> BTreeSet<String> {
    let named = of.into_iter().filter_map(|place| place.get("parameters")?.as_array()).flatten();
    let resolved = named.map(|parameter| {
        let pointer = parameter["$ref"].as_str().unwrap().trim_start_matches('#');
        document.pointer(pointer).unwrap_or_else(|| panic!("{pointer} leads nowhere"))
    });
    let headers = resolved.filter(|parameter| parameter["in"] == "header");
    headers.map(|header| header["name"].as_str().unwrap().to_lowercase()).collect()
}

/// What an HTTP client sends that is no part of the contract.
const PLAIN: [&str; 6] = ["accept", "content-type", "content-length", "host", "user-agent", "accept-encoding"];

type Sent = (String, String, BTreeSet<String>);

/// An owner that writes down the method, the path and the headers of each request.
async fn listening() -> (String, Arc<Mutex<Vec<Sent>>>) {
    let seen: Arc<Mutex<Vec<Sent>>> = Arc::default();
    let noted = seen.clone();
    let app = Router::new().fallback(move |request: Request| {
        let headers = request.headers().keys().map(|name| name.as_str().to_owned());
        let headers = headers.filter(|name| !PLAIN.contains(&name.as_str())).collect();
        noted.lock().unwrap().push((request.method().to_string(), request.uri().path().to_owned(), headers));
        async { "{}" }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (base, seen)
}

#[tokio::test]
async fn requests_are_the_documents_with_its_headers_and_no_others() {
    let (base, seen) = listening().await;
    let tool: Tool = serde_json::from_value(json!({
        "name": "change", "arguments": {}, "run": {"kind": "http", "endpoint": {"url": format!("{base}/changes")}},
    }))
    .unwrap();
    let (key, fingerprint, timeout) = (EffectKey("k".to_owned()), ours(), Duration::from_secs(10));
    let traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let call_id: CallId = serde_json::from_value(json!("00000000-0000-0000-0000-000000000001")).unwrap();
    let request = ToolRequest {
        tool: &tool,
        arguments: &json!({}),
        idempotency_key: Some(key.clone()),
        request_fingerprint: Some(fingerprint),
        attempt_id: AttemptId(call_id.0),
        timeout,
        traceparent,
    };
    HttpTransport::new().unwrap().call(&request).await;
    let owner = HttpOwner::new().unwrap();
    let url = format!("{base}/effects");
    for verb in [Verb::Ask, Verb::Close] {
        let (effect_key, request_fingerprint) = (&key, &fingerprint);
        let url = url.as_str();
        owner.ask(&Question { verb, url, effect_key, request_fingerprint, timeout, max_bytes: 100, traceparent }).await;
    }
    let document = document();
    let (changes, effects) = (&document["paths"]["/changes"], &document["paths"]["/effects/{effect_key}"]);
    let expected = [
        ("POST".to_owned(), "/changes".to_owned(), headers(&document, [changes, &changes["post"]])),
        ("GET".to_owned(), "/effects/k".to_owned(), headers(&document, [effects, &effects["get"]])),
        ("PUT".to_owned(), "/effects/k".to_owned(), headers(&document, [effects, &effects["put"]])),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}
