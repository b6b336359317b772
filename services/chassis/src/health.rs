//! Liveness, readiness and metrics over HTTP. Liveness is the polling thread's own heartbeat and never the broker's
//! reachability: a restart mends no broker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{Error, Shutdown, Telemetry};

/// Whether a service could do its work now, for instance whether its store answers. The error says what is missing.
pub type ReadyCheck = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// What the probes look at. Clones share it.
#[derive(Debug, Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    start: Instant,
    stall: Duration,
    last_beat_ms: AtomicU64,
    joined: AtomicBool,
    stopping: AtomicBool,
}

impl Health {
    /// Dead after `stall` without a heartbeat.
    pub fn new(stall: Duration) -> Self {
        let inner = Inner {
            start: Instant::now(),
            stall,
            last_beat_ms: AtomicU64::new(0),
            joined: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn beat(&self) {
        self.inner.last_beat_ms.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    pub(crate) fn set_joined(&self, joined: bool) {
        self.inner.joined.store(joined, Ordering::Relaxed);
    }

    pub(crate) fn set_stopping(&self) {
        self.inner.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the polling thread moves.
    pub fn is_live(&self) -> bool {
        let silent_ms = self.elapsed_ms().saturating_sub(self.inner.last_beat_ms.load(Ordering::Relaxed));
        Duration::from_millis(silent_ms) <= self.inner.stall
    }

    /// Whether it is a member of its group (with or without partitions) and not draining.
    pub fn is_joined(&self) -> bool {
        self.inner.joined.load(Ordering::Relaxed) && !self.inner.stopping.load(Ordering::Relaxed)
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.inner.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[derive(Clone)]
struct Probes {
    health: Health,
    ready: Option<ReadyCheck>,
    telemetry: Telemetry,
}

/// How long the readiness check may take.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Binds `address` and serves the probes until `shutdown`. Returns the bound address, because port 0 takes a free one.
pub(crate) async fn serve(
    address: &str,
    health: Health,
    ready: Option<ReadyCheck>,
    telemetry: Telemetry,
    shutdown: Shutdown,
) -> Result<SocketAddr, Error> {
    let wrap = |source| Error::Http { address: address.to_owned(), source };
    let listener = TcpListener::bind(address).await.map_err(wrap)?;
    let bound = listener.local_addr().map_err(wrap)?;
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Probes { health, ready, telemetry });
    tokio::spawn(async move {
        let server = axum::serve(listener, router).with_graceful_shutdown(async move { shutdown.triggered().await });
        if let Err(error) = server.await {
            tracing::error!(%error, "the http server ended");
        }
    });
    tracing::info!(address = %bound, "serving /livez, /readyz and /metrics");
    Ok(bound)
}

async fn livez(State(probes): State<Probes>) -> impl IntoResponse {
    if probes.health.is_live() {
        (StatusCode::OK, Json(json!({ "live": true })))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "live": false, "why": "the poll loop has stalled" })))
    }
}

async fn readyz(State(probes): State<Probes>) -> impl IntoResponse {
    let mut missing = Vec::new();
    if !probes.health.is_joined() {
        missing.push("not a member of its consumer group".to_owned());
    }
    if let Some(check) = &probes.ready {
        match tokio::time::timeout(READY_TIMEOUT, check()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => missing.push(why),
            Err(_) => missing.push("the readiness check timed out".to_owned()),
        }
    }
    let status = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": missing.is_empty(), "missing": missing })))
}

async fn metrics(State(probes): State<Probes>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], probes.telemetry.scrape())
}
