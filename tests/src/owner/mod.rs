//! A small owning service for tests and the benchmark: it applies a business change once per Idempotency-Key, keeps its
//! own books (its own receipts, for the checker), answers for a key, and misbehaves on demand.

mod books;
mod fault;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use books::{Applied, Books, Known, Refused};
pub use fault::{Fault, Faults};

/// How an owner behaves.
#[derive(Debug, Clone)]
pub struct OwnerConfig {
    /// Whether a key is applied at most once. Off only to prove that a checker sees duplicates.
    pub dedupe: bool,
    /// Whether it remembers which request came with a key. Off only to prove that the conformance kit sees it.
    pub fingerprints: bool,
    /// Whether it closes keys on demand.
    pub tombstones: bool,
    /// Where the books are kept as JSON lines, each synced to disk before it is answered; in memory only when absent.
    pub books: Option<PathBuf>,
    /// What is wrong with every request that does not say otherwise.
    pub faults: Faults,
}

impl Default for OwnerConfig {
    fn default() -> Self {
        Self { dedupe: true, fingerprints: true, tombstones: true, books: None, faults: Faults::default() }
    }
}

/// A running owner; stops when dropped.
pub struct Owner {
    pub addr: SocketAddr,
    books: Arc<Books>,
    serving: JoinHandle<()>,
}

impl Owner {
    /// The address of a path, such as `/incr`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Sets what is wrong with the requests to come.
    pub fn set_faults(&self, faults: Faults) {
        self.books.set_faults(faults);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Starts an owner; port 0 takes a free one. Books that exist are read first, so that it survives its own restart.
pub async fn spawn_owner(addr: SocketAddr, config: OwnerConfig) -> std::io::Result<Owner> {
    let tombstones = config.tombstones;
    let books = Arc::new(Books::open(config)?);
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    let mut app = router(Arc::clone(&books));
    if tombstones {
        app = app.merge(Router::new().route("/effects/{key}", put(close)).with_state(Arc::clone(&books)));
    }
    let serving = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, app).await {
            tracing::error!(%error, "the owner has stopped");
        }
    });
    Ok(Owner { addr, books, serving })
}

/// The routes, for a process that serves them itself.
pub fn router(books: Arc<Books>) -> Router {
    Router::new()
        .route("/incr", post(apply))
        .route("/refund", post(apply))
        .route("/effects/{key}", get(effect))
        .route("/books", get(|State(books): State<Arc<Books>>| async move { Json(books.report()) }))
        .route("/faults", post(set_faults))
        .with_state(books)
}

async fn set_faults(State(books): State<Arc<Books>>, Json(faults): Json<Faults>) -> StatusCode {
    books.set_faults(faults);
    StatusCode::NO_CONTENT
}

async fn apply(State(books): State<Arc<Books>>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let Some(key) = text("idempotency-key") else {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "Idempotency-Key is missing"}))).into_response();
    };
    let fingerprint = text("turnwright-request-fingerprint");
    let faults = books.faults_of(&body);
    if faults.slow_ms > 0 {
        tokio::time::sleep(Duration::from_millis(faults.slow_ms)).await;
    }
    match faults.fault {
        None | Some(Fault::CommitThenDrop | Fault::Error500After | Fault::Garbage200) => {}
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Error500Before) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Some(Fault::Accepted) => {
            books.accept(&key, fingerprint, body);
            return (StatusCode::ACCEPTED, Json(json!({"status": "in_progress"}))).into_response();
        }
    }
    let applied = match books.apply(&key, fingerprint, body) {
        Ok(applied) => applied,
        Err(refused) => return refusal(refused),
    };
    match faults.fault {
        // Unwinding ends the connection's task, and with it the connection, before a byte of the answer is written.
        Some(Fault::CommitThenDrop) => std::panic::resume_unwind(Box::new("commit_then_drop")),
        Some(Fault::Error500After) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Some(Fault::Garbage200) => (StatusCode::OK, "<html>all is well</html>").into_response(),
        Some(Fault::Hang | Fault::Error500Before | Fault::Accepted) | None => {
            Json(json!({"effect_id": applied.effect_id, "n": applied.n})).into_response()
        }
    }
}

fn refusal(refused: Refused) -> Response {
    match refused {
        Refused::Taken(fingerprint) => {
            let body = json!({"error": "fingerprint_mismatch", "request_fingerprint": fingerprint});
            (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response()
        }
        Refused::Closed => (StatusCode::CONFLICT, Json(json!({"outcome": "rejected", "closed": true}))).into_response(),
        Refused::Unwritten(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn effect(State(books): State<Arc<Books>>, Path(key): Path<String>) -> Response {
    word(books.known(&key))
}

async fn close(State(books): State<Arc<Books>>, Path(key): Path<String>) -> Response {
    books.close(&key).map_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response(), word)
}

fn word(known: Known) -> Response {
    match known {
        Known::Applied(applied) => Json(json!({
            "status": "committed",
            "effect_id": applied.effect_id,
            "output": {"effect_id": applied.effect_id, "n": applied.n},
            "request_fingerprint": applied.fingerprint,
        }))
        .into_response(),
        Known::Accepted => (StatusCode::ACCEPTED, [("retry-after", "0")], "").into_response(),
        Known::Closed => Json(json!({"status": "rejected", "closed": true})).into_response(),
        Known::Nothing => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests;
