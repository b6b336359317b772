//! A service's life: build, run, drain, return. The binary calls this once per service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::periodic::Ticker;
use crate::{
    Bus, Config, Consumer, ConsumerParts, DeadLetters, Error, Handler, Health, KafkaBus, Periodic, ReadyCheck,
    Shutdown, Telemetry, health,
};

/// Everything a service is.
pub struct ServiceSpec {
    /// Names the group, the client and the metrics' label.
    pub name: String,
    /// Full names of the topics it consumes; none for a service that only ticks.
    pub topics: Vec<String>,
    pub handler: Arc<dyn Handler>,
    pub periodics: Vec<Arc<dyn Periodic>>,
    pub dead_letters: DeadLetters,
    pub config: Config,
    pub telemetry: Telemetry,
    /// Part of `/readyz`.
    pub ready_check: Option<ReadyCheck>,
    /// Told the bound http address, where one is configured.
    pub http_bound: Option<oneshot::Sender<SocketAddr>>,
    /// The bus, where the service has made one already, to hand it to its handler.
    pub bus: Option<Arc<KafkaBus>>,
    /// Stops the service; `Shutdown::on_signals()` in a process of its own.
    pub shutdown: Shutdown,
}

/// How long the producer may take to empty its queue at the end.
const FLUSH: Duration = Duration::from_secs(5);

/// Runs the service until its shutdown is set or something is fatal; drains either way. Must run inside a
/// multi-threaded tokio runtime. A fatal failure also sets the shutdown, so that services of one process stop together.
pub async fn run_service(spec: ServiceSpec) -> Result<(), Error> {
    spec.config.validate()?;
    let runtime = &spec.config.runtime;
    let metrics = spec.telemetry.metrics(&spec.name);
    let health = Health::new(Duration::from_millis(runtime.stall_ms));
    let retry = runtime.retry_policy();
    let kafka = match spec.bus {
        Some(bus) => bus,
        None => Arc::new(KafkaBus::new(&spec.config.kafka, &spec.name, retry, metrics.clone())?),
    };
    let bus: Arc<dyn Bus> = kafka.clone();
    // The probes answer until the drain is over, so they get a signal of their own.
    let drained = Shutdown::new();
    if let Some(address) = &spec.config.http.address {
        let bound = health::serve(address, health.clone(), spec.ready_check, spec.telemetry, drained.clone()).await?;
        if let Some(told) = spec.http_bound {
            // Nobody has to listen.
            let _ = told.send(bound);
        }
    }
    let ticker = Ticker { bus: bus.clone(), retry, metrics: metrics.clone(), shutdown: spec.shutdown.clone() };
    let mut periodics = JoinSet::new();
    for periodic in spec.periodics {
        periodics.spawn(ticker.clone().run(periodic));
    }
    let drain = Duration::from_millis(runtime.drain_timeout_ms);
    let consuming = !spec.topics.is_empty();
    let consumer = Consumer::new(ConsumerParts {
        service: spec.name.clone(),
        topics: spec.topics,
        handler: spec.handler,
        bus,
        dead_letters: spec.dead_letters,
        config: spec.config,
        metrics,
        health: health.clone(),
    });
    tracing::info!(service = spec.name, "running");
    let consumer = run_consumer(consumer, consuming, spec.shutdown.clone(), health);
    let (consumed, ticked) = tokio::join!(consumer, run_periodics(periodics, spec.shutdown, drain));
    let flushed = tokio::task::spawn_blocking(move || kafka.flush(FLUSH)).await;
    if !matches!(flushed, Ok(Ok(()))) {
        tracing::warn!(service = spec.name, "the producer's queue was not empty at the end");
    }
    drained.trigger();
    tracing::info!(service = spec.name, "stopped");
    consumed.and(ticked)
}

async fn run_consumer(consumer: Consumer, consuming: bool, shutdown: Shutdown, health: Health) -> Result<(), Error> {
    let stopping = async {
        shutdown.triggered().await;
        health.set_stopping();
        std::future::pending::<()>().await;
    };
    let result = if consuming {
        tokio::select! {
            result = consumer.run(shutdown.clone()) => result,
            () = stopping => Ok(()),
        }
    } else {
        keep_alive(&health, &shutdown).await;
        Ok(())
    };
    shutdown.trigger();
    result
}

/// The heartbeat of a service without a polling thread.
async fn keep_alive(health: &Health, shutdown: &Shutdown) {
    health.set_joined(true);
    while !shutdown.is_triggered() {
        health.beat();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = shutdown.triggered() => {}
        }
    }
}

/// Waits for all periodics; a fatal one stops the service. After the shutdown each may end its tick under the deadline.
async fn run_periodics(
    mut periodics: JoinSet<Result<(), String>>,
    shutdown: Shutdown,
    drain: Duration,
) -> Result<(), Error> {
    let overdue = async {
        shutdown.triggered().await;
        tokio::time::sleep(drain).await;
    };
    tokio::pin!(overdue);
    let mut result = Ok(());
    loop {
        let ended = tokio::select! {
            ended = periodics.join_next() => ended,
            () = &mut overdue => return result,
        };
        let message = match ended {
            None => return result,
            Some(Ok(Ok(()))) => continue,
            Some(Ok(Err(message))) => message,
            Some(Err(error)) => error.to_string(),
        };
        shutdown.trigger();
        result = result.and(Err(Error::Fatal(message)));
    }
}
