//! What is measured, and how long.

use std::path::PathBuf;
use std::time::Duration;

/// One of each service is measured: one partition for each.
pub const DEFAULT_PARTITIONS: u32 = 1;

/// A measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// The `turnwright` binary whose services are measured.
    pub binary: PathBuf,
    /// Invocations in flight, one level after the other.
    pub concurrency: Vec<usize>,
    /// Partitions per topic. They bound how many processes of a service share the work, not how much of it one process
    /// does at once; every partition more means more, smaller requests for the same records.
    pub partitions: u32,
    /// How long each level is measured.
    pub measure: Duration,
    /// How long each level runs before it is measured.
    pub warm_up: Duration,
    /// How long the highest level runs before the first one: a broker that has just started compiles its own code first.
    pub start_up: Duration,
    /// How long an invocation may take before it counts as lost.
    pub patience: Duration,
    /// Also follow every topic and say how long each hop takes; this costs some of what is measured.
    pub stages: bool,
    /// Further variables of the services' environment, to try a setting.
    pub environment: Vec<(String, String)>,
}

impl Options {
    /// The standard sweep.
    pub fn new(binary: PathBuf) -> Self {
        Self {
            binary,
            concurrency: vec![1, 16, 64, 256],
            partitions: DEFAULT_PARTITIONS,
            measure: Duration::from_secs(12),
            warm_up: Duration::from_secs(3),
            start_up: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            stages: false,
            environment: Vec::new(),
        }
    }
}
