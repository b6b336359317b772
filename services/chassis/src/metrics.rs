//! What is counted and measured. One handle per service; services count their own facts through the same handle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider};

/// The chassis' own metrics. Prometheus shows counters with `_total`, dots as underscores.
pub mod names {
    /// Records that arrived, by topic.
    pub const CONSUMED: &str = "turnwright.consumed";
    /// Records whose handling led to what it should; counted by services.
    pub const APPLIED: &str = "turnwright.applied";
    /// Records that changed nothing, by `reason`; counted by services.
    pub const IGNORED: &str = "turnwright.ignored";
    /// Records sent to `dead-letters`, by `code`.
    pub const DEAD_LETTERED: &str = "turnwright.dead_lettered";
    /// Batches that failed and were handed over again, by `cause`.
    pub const RETRIES: &str = "turnwright.retries";
    /// Records published and acknowledged, by topic.
    pub const PUBLISHED: &str = "turnwright.published";
    /// Produces that failed and were repeated with the same `event_id`.
    pub const REPUBLISHED: &str = "turnwright.republished";
    /// Publishes that had to wait for a place in the window.
    pub const WINDOW_WAITS: &str = "turnwright.publish_window_waits";
    /// Partitions paused because too much was unfinished.
    pub const PAUSES: &str = "turnwright.pauses";
    /// Times a ready key waited for the bound on keys in flight.
    pub const IN_FLIGHT_WAITS: &str = "turnwright.in_flight_waits";
    /// Partitions whose next records were gone from the log.
    pub const OUT_OF_RANGE: &str = "turnwright.out_of_range";
    /// Assignments and revocations, by `kind`.
    pub const REBALANCES: &str = "turnwright.rebalances";
    /// Results that came after their partition was revoked; another member handles the record again.
    pub const LATE_RESULTS: &str = "turnwright.late_results";
    /// Offset commits that failed and are repeated.
    pub const COMMIT_FAILURES: &str = "turnwright.commit_failures";
    /// Consumers rebuilt because an assigned partition with lag delivered nothing.
    pub const SILENT_CONSUMERS: &str = "turnwright.silent_consumers";
    /// Ticks of periodic work, by `periodic` and `outcome`.
    pub const TICKS: &str = "turnwright.ticks";
    /// Seconds from handing a batch over to the acknowledgement of its reply, by topic.
    pub const HANDLE_SECONDS: &str = "turnwright.handle.duration";
    /// Records per batch.
    pub const BATCH_RECORDS: &str = "turnwright.batch.records";
    /// Records accepted and not finished.
    pub const QUEUE_DEPTH: &str = "turnwright.queue.depth";
    /// Order keys in flight.
    pub const IN_FLIGHT: &str = "turnwright.keys.in_flight";
}

/// Counts, histograms and gauges of one service. Clones share everything.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    meter: Meter,
    service: String,
    counters: Mutex<HashMap<&'static str, (Counter<u64>, u64)>>,
    histograms: Mutex<HashMap<&'static str, Histogram<f64>>>,
    gauges: Mutex<HashMap<&'static str, Gauge<u64>>>,
}

impl Metrics {
    pub fn new(meter: Meter, service: &str) -> Self {
        let inner = Inner {
            meter,
            service: service.to_owned(),
            counters: Mutex::default(),
            histograms: Mutex::default(),
            gauges: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Counts for [`total`](Self::total) and exports nothing.
    pub fn silent(service: &str) -> Self {
        Self::new(opentelemetry::metrics::noop::NoopMeterProvider::new().meter("turnwright"), service)
    }

    /// The service that counts.
    pub fn service(&self) -> &str {
        &self.inner.service
    }

    /// Adds one.
    pub fn count(&self, name: &'static str, labels: &[(&'static str, &str)]) {
        self.add(name, 1, labels);
    }

    /// Adds `n`. Labels must come from small closed sets (topic, code, reason, task type), never from IDs.
    pub fn add(&self, name: &'static str, n: u64, labels: &[(&'static str, &str)]) {
        let attributes = self.attributes(labels);
        let mut counters = self.inner.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let (counter, total) = counters.entry(name).or_insert_with(|| (self.inner.meter.u64_counter(name).build(), 0));
        *total += n;
        counter.add(n, &attributes);
    }

    /// Records a measurement; durations in seconds.
    pub fn record(&self, name: &'static str, value: f64, labels: &[(&'static str, &str)]) {
        let attributes = self.attributes(labels);
        let mut histograms = self.inner.histograms.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = histograms.entry(name).or_insert_with(|| {
            let builder = self.inner.meter.f64_histogram(name);
            if name.ends_with(".duration") {
                builder.with_unit("s").with_boundaries(SECONDS.to_vec()).build()
            } else {
                builder.with_boundaries(COUNTS.to_vec()).build()
            }
        });
        histogram.record(value, &attributes);
    }

    /// Sets a current value.
    pub fn set(&self, name: &'static str, value: u64, labels: &[(&'static str, &str)]) {
        let attributes = self.attributes(labels);
        let mut gauges = self.inner.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.entry(name).or_insert_with(|| self.inner.meter.u64_gauge(name).build()).record(value, &attributes);
    }

    /// What was counted under this name by this process, over all labels.
    pub fn total(&self, name: &str) -> u64 {
        let counters = self.inner.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.get(name).map_or(0, |(_, total)| *total)
    }

    fn attributes(&self, labels: &[(&'static str, &str)]) -> Vec<KeyValue> {
        let own = KeyValue::new("service", self.inner.service.clone());
        std::iter::once(own)
            .chain(labels.iter().map(|(name, value)| KeyValue::new(*name, (*value).to_owned())))
            .collect()
    }
}

/// From a tenth of a millisecond, because a hop takes half of one.
const SECONDS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
const COUNTS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
