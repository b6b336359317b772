//! `serve`: one service as a process of its own.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use chassis::{Shutdown, Telemetry};
use clap::Args;
use committer::CommitterConfig;
use schemas::Codec;
use store::Retention;

use crate::error::Error;
use crate::settings::Settings;
use crate::wiring::{Hosted, Service, connect_registry, open_store, read_registry, run as host, wait_for_cluster};
use crate::{duration, exit};

/// Runs one service until SIGTERM or Ctrl-C, then drains.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  TURNWRIGHT_CONFIG=/etc/turnwright turnwright serve committer --brokers kafka:9092 --store redis://redis:6379 --http 0.0.0.0:8080"
)]
pub struct Arguments {
    #[arg(value_enum)]
    pub service: Service,

    #[command(flatten)]
    pub carried: chassis::Config,

    /// How long events, journal and context are kept after a run has ended (committer).
    #[arg(long, env = "TURNWRIGHT_RETENTION_RUNS", default_value = "7d", value_parser = duration::parse, help_heading = "Retention")]
    pub retention_runs: Duration,

    /// How long ledger and tombstone are kept after a run has ended; at least as long as any input topic (committer).
    #[arg(long, env = "TURNWRIGHT_RETENTION_EVIDENCE", default_value = "30d", value_parser = duration::parse, help_heading = "Retention")]
    pub retention_evidence: Duration,

    /// Takes the place of the Kafka cluster's own ID; for brokers without a lasting one (committer).
    #[arg(long, env = "TURNWRIGHT_CLUSTER_ID", help_heading = "Kafka")]
    pub cluster_id: Option<String>,

    /// Ends when standard input does, drains on `stop`, says its HTTP address: how `dev` keeps its children.
    #[arg(long, hide = true)]
    pub supervised: bool,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let Arguments { service, carried, retention_runs, retention_evidence, cluster_id, supervised } = arguments;
    let fix = format!("see `turnwright serve {} --help`", service.name());
    carried.validate().map_err(|error| Error::setting("the configuration", error, fix))?;
    let committer = committer_config(retention_runs, retention_evidence)?;
    let registry = read_registry(&settings.config_directory())?;
    let telemetry = Telemetry::start(&carried.telemetry, service.name())
        .map_err(|error| Error::setting("telemetry", error, "check --log and --otlp-endpoint"))?;
    let shutdown = Shutdown::on_signals().map_err(|error| Error::failed("the signal handlers", error))?;
    let (bound, http) = tokio::sync::oneshot::channel();
    if supervised {
        obey_parent(shutdown.clone());
        tokio::spawn(async move {
            if let Ok(address) = http.await {
                let _ = writeln!(std::io::stdout(), "http {address}");
            }
        });
    }
    let codec = Arc::new(Codec::new(settings.codec()));
    if connect_registry(&codec, &shutdown).await?.is_none() {
        return Ok(exit::COMPLETED);
    }
    let store = match service.uses_store() {
        false => None,
        true => match open_store(settings, &shutdown).await? {
            Some(store) => Some(store),
            None => return Ok(exit::COMPLETED),
        },
    };
    let cluster_id = match cluster_id {
        None if service.needs_cluster_id() => match wait_for_cluster(settings, &shutdown).await? {
            Some(id) => Some(id),
            None => return Ok(exit::COMPLETED),
        },
        given => given,
    };
    let stopping = telemetry.clone();
    let http_bound = Some(bound);
    let hosted = Hosted {
        service,
        config: carried,
        codec,
        registry,
        store,
        committer,
        cluster_id,
        telemetry,
        http_bound,
        shutdown,
    };
    let result = host(hosted).await;
    // The exporters push what is left, and block while they do.
    let _ = tokio::task::spawn_blocking(move || stopping.stop()).await;
    result.map(|()| exit::COMPLETED)
}

/// The committer's settings; refuses retentions that break the rules of dedupe.
pub fn committer_config(runs: Duration, evidence: Duration) -> Result<CommitterConfig, Error> {
    let retention = Retention { runs_ms: duration::millis(runs), evidence_ms: duration::millis(evidence) };
    if retention.runs_ms == 0 || retention.evidence_ms < retention.runs_ms {
        let why = "evidence must be kept at least as long as runs, and both for some time";
        let fix = "make it at least as long as --retention-runs and as the retention of every input topic";
        return Err(Error::setting("--retention-evidence (TURNWRIGHT_RETENTION_EVIDENCE)", why, fix));
    }
    Ok(CommitterConfig { retention, ..CommitterConfig::default() })
}

/// Drains on a line `stop`; ends at once when the parent is gone, for then its broker is gone too.
fn obey_parent(shutdown: Shutdown) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line {
                Ok(line) if line == "stop" => shutdown.trigger(),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        if !shutdown.is_triggered() {
            tracing::error!("the parent is gone; ending");
            std::process::exit(i32::from(exit::OTHER));
        }
    });
}
