//! Tools over HTTP. Only URLs of the registry are called, redirects are not followed, no proxy of the environment is
//! used, and a request is sent once (S6). It tells what certainly was not sent from what may have been.

use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::{Endpoint, ToolKind};
use protocol::ErrorClass;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Request, Response, Url, redirect, retry};
use serde_json::Value;

use crate::{Answered, Body, ToolRequest, ToolTransport, Transported};

/// The longest a connection may take; the lease may end it sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an idle connection is kept: shorter than servers do, so that few requests meet a connection being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest pause that a `Retry-After` may ask for.
const MAX_RETRY_AFTER_MS: u64 = 60 * 60 * 1_000;
/// The longest effect ID taken from a header, in bytes.
const MAX_EFFECT_ID_BYTES: usize = 256;

/// The HTTP client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("no HTTP client: {0}")]
pub struct Error(#[from] reqwest::Error);

/// Calls HTTP tools. Connections are shared by all calls.
pub struct HttpTransport {
    client: Client,
}

impl HttpTransport {
    pub fn new() -> Result<Self, Error> {
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent("turnwright")
            .build()?;
        Ok(Self { client })
    }
}

#[async_trait]
impl ToolTransport for HttpTransport {
    async fn call(&self, request: &ToolRequest<'_>) -> Transported {
        let ToolKind::Http { endpoint, .. } = &request.tool.run else {
            return Transported::NothingSent { class: ErrorClass::Internal, why: "it is not an HTTP tool" };
        };
        let http = match build(endpoint, request) {
            Ok(http) => http,
            Err(why) => return Transported::NothingSent { class: ErrorClass::Internal, why },
        };
        match self.client.execute(http).await {
            Ok(response) => read(response, request.tool.max_output_bytes).await,
            Err(error) => failed(&error),
        }
    }
}

fn build(endpoint: &Endpoint, request: &ToolRequest<'_>) -> Result<Request, &'static str> {
    let method = Method::from_bytes(endpoint.method.as_bytes());
    let method = method.map_err(|_| "the registry's method is not an HTTP method")?;
    let mut url = Url::parse(&endpoint.url).map_err(|_| "the registry's URL cannot be parsed")?;
    let has_body = !matches!(method, Method::GET | Method::HEAD | Method::DELETE);
    if !has_body {
        query(&mut url, request.arguments);
    }
    let mut http = Request::new(method, url);
    *http.timeout_mut() = Some(request.timeout);
    if has_body {
        http.headers_mut().insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *http.body_mut() = Some(request.arguments.to_string().into());
    }
    let own = [
        ("accept", Some("application/json".to_owned())),
        ("idempotency-key", request.idempotency_key.as_ref().map(ToString::to_string)),
        ("turnwright-request-fingerprint", request.request_fingerprint.map(|fingerprint| fingerprint.to_string())),
        ("turnwright-attempt-id", Some(request.attempt_id.to_string())),
    ];
    for (name, value) in own {
        if let Some(value) = value {
            let value = HeaderValue::from_str(&value).map_err(|_| "the Effect Key cannot be a header")?;
            http.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    // Trace context never stops a call.
    if let Some(Ok(value)) = request.traceparent.map(HeaderValue::from_str) {
        http.headers_mut().insert(HeaderName::from_static("traceparent"), value);
    }
    Ok(http)
}

/// Arguments of a method without a body: scalars as they are, everything else as JSON.
fn query(url: &mut Url, arguments: &Value) {
    let Some(fields) = arguments.as_object().filter(|fields| !fields.is_empty()) else {
        return;
    };
    let mut pairs = url.query_pairs_mut();
    for (name, value) in fields {
        match value {
            Value::Null => {}
            Value::String(text) => {
                pairs.append_pair(name, text);
            }
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                pairs.append_pair(name, &value.to_string());
            }
        }
    }
}

/// A connection that never came to be carried nothing; of everything else nobody knows.
fn failed(error: &reqwest::Error) -> Transported {
    if error.is_connect() || error.is_builder() {
        let why = "no connection to the tool could be made; nothing was sent";
        return Transported::NothingSent { class: ErrorClass::Unavailable, why };
    }
    if error.is_timeout() {
        return Transported::Uncertain { class: ErrorClass::Timeout, why: "no answer came in time" };
    }
    Transported::Uncertain { class: ErrorClass::Unavailable, why: "the connection broke before the answer was whole" }
}

async fn read(mut response: Response, limit: usize) -> Transported {
    let status = response.status().as_u16();
    let (retry_after_ms, effect_id) = (retry_after(response.headers()), effect_id(response.headers()));
    let answered = |body| Transported::Answered(Answered { status, body, retry_after_ms, effect_id });
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > limit => return answered(Body::TooLarge),
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return answered(Body::Whole(bytes)),
            Err(error) => return failed(&error),
        }
    }
}

/// Dates are left out: they would need this machine's wall clock.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(seconds.saturating_mul(1_000).min(MAX_RETRY_AFTER_MS))
}

fn effect_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("effect-id")?.to_str().ok()?;
    (!id.is_empty() && id.len() <= MAX_EFFECT_ID_BYTES).then(|| id.to_owned())
}
