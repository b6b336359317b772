//! Owning services over HTTP: `GET` and `PUT {url}/{effect_key}`. Only URLs of the registry are asked, redirects are not followed,
//! and the body is bounded while it streams (S6, S8).

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Request, Response, Url, redirect, retry};

use crate::{OwnerQuery, OwnerReply, Question, Verb};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest pause that a `Retry-After` may ask for.
const MAX_RETRY_AFTER_MS: u64 = 60 * 60 * 1_000;

/// The HTTP client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("no HTTP client: {0}")]
pub struct Error(#[from] reqwest::Error);

/// Asks over HTTP. Connections are shared by all questions.
pub struct HttpOwner {
    client: Client,
}

impl HttpOwner {
    pub fn new() -> Result<Self, Error> {
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent("turnwright")
            .build()?;
        Ok(Self { client })
    }
}

#[async_trait]
impl OwnerQuery for HttpOwner {
    async fn ask(&self, question: &Question<'_>) -> OwnerReply {
        let Some(url) = address(question) else {
            return OwnerReply::Unreachable;
        };
        let method = match question.verb {
            Verb::Ask => Method::GET,
            Verb::Close => Method::PUT,
        };
        let mut request = Request::new(method, url);
        *request.timeout_mut() = Some(question.timeout);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Ok(fingerprint) = HeaderValue::from_str(&question.request_fingerprint.to_string()) {
            request.headers_mut().insert(HeaderName::from_static("turnwright-request-fingerprint"), fingerprint);
        }
        if let Some(Ok(value)) = question.traceparent.map(HeaderValue::from_str) {
            request.headers_mut().insert(HeaderName::from_static("traceparent"), value);
        }
        match self.client.execute(request).await {
            Ok(response) => read(response, question.max_bytes).await,
            Err(error) => failed(&error),
        }
    }
}

/// The key becomes one path segment, whatever it contains.
fn address(question: &Question<'_>) -> Option<Url> {
    let mut url = Url::parse(question.url).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().push(question.effect_key.as_str());
    Some(url)
}

fn failed(error: &reqwest::Error) -> OwnerReply {
    if error.is_timeout() { OwnerReply::TimedOut } else { OwnerReply::Unreachable }
}

async fn read(mut response: Response, limit: usize) -> OwnerReply {
    let status = response.status().as_u16();
    let retry_after_ms = retry_after(response.headers());
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => return OwnerReply::TooLarge,
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return OwnerReply::Answered { status, body, retry_after_ms },
            Err(error) => return failed(&error),
        }
    }
}

/// Dates are left out: they would need this machine's wall clock.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(seconds.saturating_mul(1_000).min(MAX_RETRY_AFTER_MS))
}
