//! Traces and metrics reach an OTLP endpoint. Alone in its process, because a subscriber is installed once.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use turnwright_chassis::{Config, Telemetry, names};

type Paths = Arc<Mutex<Vec<String>>>;

async fn collect(State(paths): State<Paths>, request: Request) {
    paths.lock().unwrap().push(request.uri().path().to_owned());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_and_metrics_are_pushed_to_the_endpoint() {
    let paths = Paths::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(collect).with_state(paths.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });

    let mut config = Config::from_env().unwrap().telemetry;
    config.otlp_endpoint = Some(format!("http://{address}/"));
    let telemetry = Telemetry::start(&config, "test").unwrap();
    telemetry.metrics("test").count(names::APPLIED, &[]);
    tracing::info_span!("handle").in_scope(|| tracing::info!("inside"));
    tokio::task::spawn_blocking(move || telemetry.stop()).await.unwrap();

    let seen = paths.lock().unwrap().clone();
    assert!(seen.iter().any(|path| path == "/v1/traces"), "{seen:?}");
    assert!(seen.iter().any(|path| path == "/v1/metrics"), "{seen:?}");
}
