//! Logs, traces and metrics of a process. One per process, whatever number of services runs in it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::metrics::periodic_reader_with_async_runtime::PeriodicReader;
use opentelemetry_sdk::runtime::Tokio;
use opentelemetry_sdk::trace::span_processor_with_async_runtime::BatchSpanProcessor;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use prometheus::{Encoder, TextEncoder};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::{Error, LogFormat, Metrics, TelemetryConfig};

/// How often metrics are pushed when an endpoint is set.
const PUSH_INTERVAL: Duration = Duration::from_secs(15);

/// The process' telemetry. Clones share it.
#[derive(Clone)]
pub struct Telemetry {
    inner: Arc<Inner>,
}

struct Inner {
    registry: prometheus::Registry,
    meters: SdkMeterProvider,
    tracers: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Installs the log subscriber and, where an OTLP endpoint is set, the exporters. Must run inside a tokio runtime. A
    /// subscriber that is installed already stays.
    pub fn start(config: &TelemetryConfig, service: &str) -> Result<Self, Error> {
        let resource = Resource::builder()
            .with_service_name(format!("turnwright-{service}"))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let registry = prometheus::Registry::new();
        let meters = meters(config, &registry, resource.clone())?;
        let tracers = tracers(config, resource)?;
        subscribe(config, tracers.as_ref())?;
        Ok(Self { inner: Arc::new(Inner { registry, meters, tracers }) })
    }

    /// Metrics without logs and exporters: for tests, and for tools that only scrape.
    pub fn quiet() -> Result<Self, Error> {
        let registry = prometheus::Registry::new();
        let reader = prometheus_reader(&registry)?;
        let meters = SdkMeterProvider::builder().with_reader(reader).build();
        Ok(Self { inner: Arc::new(Inner { registry, meters, tracers: None }) })
    }

    /// The metrics of one service of this process.
    pub fn metrics(&self, service: &str) -> Metrics {
        Metrics::new(self.inner.meters.meter("turnwright"), service)
    }

    /// All metrics in the Prometheus text format.
    pub fn scrape(&self) -> String {
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.inner.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics could not be written");
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Pushes what is left. Blocks up to the exporters' timeouts, so call it off the async threads.
    pub fn stop(&self) {
        if let Some(tracers) = &self.inner.tracers
            && let Err(error) = tracers.shutdown()
        {
            tracing::warn!(%error, "the last traces were not exported");
        }
        if let Err(error) = self.inner.meters.shutdown() {
            tracing::warn!(%error, "the last metrics were not exported");
        }
    }
}

fn prometheus_reader(registry: &prometheus::Registry) -> Result<opentelemetry_prometheus::PrometheusExporter, Error> {
    opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .scope_info_enabled(false)
        .build()
        .map_err(|error| Error::Telemetry(error.to_string()))
}

fn meters(
    config: &TelemetryConfig,
    registry: &prometheus::Registry,
    resource: Resource,
) -> Result<SdkMeterProvider, Error> {
    let mut builder = SdkMeterProvider::builder().with_resource(resource).with_reader(prometheus_reader(registry)?);
    if let Some(endpoint) = &config.otlp_endpoint {
        let exporter = MetricExporter::builder()
            .with_http()
            .with_endpoint(signal_url(endpoint, "metrics"))
            .build()
            .map_err(|error| Error::Telemetry(error.to_string()))?;
        builder = builder.with_reader(PeriodicReader::builder(exporter, Tokio).with_interval(PUSH_INTERVAL).build());
    }
    Ok(builder.build())
}

fn tracers(config: &TelemetryConfig, resource: Resource) -> Result<Option<SdkTracerProvider>, Error> {
    let Some(endpoint) = &config.otlp_endpoint else {
        return Ok(None);
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(signal_url(endpoint, "traces"))
        .build()
        .map_err(|error| Error::Telemetry(error.to_string()))?;
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.trace_ratio)));
    let provider = SdkTracerProvider::builder()
        .with_resource(resource)
        .with_sampler(sampler)
        .with_span_processor(BatchSpanProcessor::builder(exporter, Tokio).build())
        .build();
    Ok(Some(provider))
}

/// The endpoint is a base, as OpenTelemetry's variable of that name is; a signal's path is put behind it.
fn signal_url(endpoint: &str, signal: &str) -> String {
    format!("{}/v1/{signal}", endpoint.trim_end_matches('/'))
}

fn subscribe(config: &TelemetryConfig, tracers: Option<&SdkTracerProvider>) -> Result<(), Error> {
    let filter = EnvFilter::try_new(&config.log).map_err(|error| Error::Config(format!("log filter: {error}")))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Colours are for terminals; a file or a log collector would keep them as noise.
    let lines = if std::io::stderr().is_terminal() { lines } else { lines.with_ansi(false) };
    let lines = match config.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let spans = tracers.map(|provider| tracing_opentelemetry::layer().with_tracer(provider.tracer("turnwright")));
    // Several services of one process start telemetry; the first subscriber stays.
    let _ = tracing_subscriber::registry().with(filter).with(lines).with(spans).try_init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    #[test]
    fn counters_show_in_a_scrape_with_service_and_labels() {
        let telemetry = Telemetry::quiet().unwrap();
        let metrics = telemetry.metrics("committer");
        metrics.count(names::IGNORED, &[("reason", "stale_basis"), ("task_type", "refund")]);
        metrics.record(names::HANDLE_SECONDS, 0.0004, &[("topic", "t")]);
        let text = telemetry.scrape();
        let line = text.lines().find(|line| line.starts_with("turnwright_ignored_total")).unwrap();
        for part in ["reason=\"stale_basis\"", "task_type=\"refund\"", "service=\"committer\""] {
            assert!(line.contains(part), "{line}");
        }
        assert!(text.contains("turnwright_handle_duration_seconds_bucket"), "{text}");
        assert_eq!(metrics.total(names::IGNORED), 1);
    }
}
