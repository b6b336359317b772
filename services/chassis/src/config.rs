//! What an operator can set. Every default stands here once; flags fall back to the environment, so `--help` documents all.

use std::time::Duration;

use clap::{Args, ValueEnum};
use schemas::DEFAULT_PREFIX;

use crate::{Property, RetryPolicy};

/// Everything a service reads about how it is carried; what it does is its own configuration.
#[derive(Debug, Clone, Args)]
pub struct Config {
    #[command(flatten)]
    pub kafka: KafkaConfig,
    #[command(flatten)]
    pub runtime: RuntimeConfig,
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
    #[command(flatten)]
    pub http: HttpConfig,
}

/// Which group protocol the consumers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GroupProtocol {
    /// Cooperative-sticky assignment by the members.
    Classic,
    /// KIP-848: assignment by the broker, which then also owns session timeout and heartbeat.
    Consumer,
}

/// What to do when records that a group has not consumed are gone from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutOfRange {
    /// Count it, alarm, and go on with the oldest record that is left.
    Earliest,
    /// Count it, drain and exit with an error.
    Stop,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kafka")]
pub struct KafkaConfig {
    /// Bootstrap servers, comma separated.
    #[arg(long, env = "TURNWRIGHT_BROKERS", default_value = "127.0.0.1:9092")]
    pub brokers: String,

    /// Prefix of every topic name.
    #[arg(long, env = "TURNWRIGHT_TOPIC_PREFIX", default_value = DEFAULT_PREFIX)]
    pub topic_prefix: String,

    /// Prefix of the consumer groups; the group is `<prefix>.<service>`.
    #[arg(long, env = "TURNWRIGHT_GROUP_PREFIX", default_value = DEFAULT_PREFIX)]
    pub group_prefix: String,

    /// Prefix of `client.id`, which is `<prefix>-<service>-<pod>`.
    #[arg(long, env = "TURNWRIGHT_CLIENT_ID", default_value = DEFAULT_PREFIX)]
    pub client_id: String,

    /// Names this process in `client.id`; usually the pod's name.
    #[arg(long, env = "HOSTNAME", default_value = "local")]
    pub pod: String,

    /// Group protocol.
    #[arg(long, env = "TURNWRIGHT_GROUP_PROTOCOL", value_enum, default_value = "classic")]
    pub group_protocol: GroupProtocol,

    /// Static membership: a name that survives restarts, unique in the group. Unset means dynamic.
    #[arg(long, env = "TURNWRIGHT_GROUP_INSTANCE_ID")]
    pub group_instance_id: Option<String>,

    /// After this long without a heartbeat a member is dead (classic protocol), in ms.
    #[arg(long, env = "TURNWRIGHT_SESSION_TIMEOUT_MS", default_value_t = 10_000)]
    pub session_timeout_ms: u64,

    /// How long an empty fetch waits at the broker, in ms. New data ends the wait at once on real brokers; librdkafka's
    /// mock broker sleeps all of it.
    #[arg(long, env = "TURNWRIGHT_FETCH_WAIT_MS", default_value_t = 100)]
    pub fetch_wait_ms: u64,

    /// How long one produce may take before it counts as timed out and is repeated, in ms.
    #[arg(long, env = "TURNWRIGHT_PUBLISH_TIMEOUT_MS", default_value_t = 30_000)]
    pub publish_timeout_ms: u64,

    /// How many records may await their acknowledgement; publishing waits above it.
    #[arg(long, env = "TURNWRIGHT_PUBLISH_WINDOW", default_value_t = 10_000)]
    pub publish_window: usize,

    /// Above so many records that await their acknowledgement, publishing gathers records into fewer, larger requests.
    #[arg(long, env = "TURNWRIGHT_GATHER_ABOVE", default_value_t = 8)]
    pub gather_above: usize,

    /// For how long it gathers then, in ms.
    #[arg(long, env = "TURNWRIGHT_GATHER_MS", default_value_t = 10)]
    pub gather_ms: u64,

    /// What to do when records that were not consumed are gone from the log.
    #[arg(long, env = "TURNWRIGHT_OUT_OF_RANGE", value_enum, default_value = "earliest")]
    pub out_of_range: OutOfRange,

    /// librdkafka properties for every client, comma separated name=value.
    #[arg(long = "kafka-property", env = "TURNWRIGHT_KAFKA_PROPERTIES", value_delimiter = ',', hide_env_values = true)]
    pub properties: Vec<Property>,

    /// librdkafka properties for consumers only.
    #[arg(
        long = "consumer-property",
        env = "TURNWRIGHT_CONSUMER_PROPERTIES",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub consumer_properties: Vec<Property>,

    /// librdkafka properties for producers only.
    #[arg(
        long = "producer-property",
        env = "TURNWRIGHT_PRODUCER_PROPERTIES",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub producer_properties: Vec<Property>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Runtime")]
pub struct RuntimeConfig {
    /// How many order keys are handled at the same time.
    #[arg(long, env = "TURNWRIGHT_MAX_IN_FLIGHT", default_value_t = 256)]
    pub max_in_flight: usize,

    /// How many records of one order key are handed over together.
    #[arg(long, env = "TURNWRIGHT_MAX_BATCH", default_value_t = 64)]
    pub max_batch: usize,

    /// A partition with this many unfinished records is paused until half of them are done.
    #[arg(long, env = "TURNWRIGHT_PARTITION_MAX_RECORDS", default_value_t = 2_000)]
    pub partition_max_records: usize,

    /// A partition with this many unfinished bytes is paused until half of them are done.
    #[arg(long, env = "TURNWRIGHT_PARTITION_MAX_BYTES", default_value_t = 16 << 20)]
    pub partition_max_bytes: usize,

    /// A record goes to `dead-letters` after failing this often. An unavailable store or broker does not count.
    #[arg(long, env = "TURNWRIGHT_MAX_TRIES", default_value_t = 20)]
    pub max_tries: u32,

    /// First delay between tries, in ms.
    #[arg(long, env = "TURNWRIGHT_BACKOFF_INITIAL_MS", default_value_t = 20)]
    pub backoff_initial_ms: u64,

    /// Longest delay between tries, in ms.
    #[arg(long, env = "TURNWRIGHT_BACKOFF_MAX_MS", default_value_t = 5_000)]
    pub backoff_max_ms: u64,

    /// How often finished offsets are committed, in ms; beside the polling, so it delays no record.
    #[arg(long, env = "TURNWRIGHT_COMMIT_INTERVAL_MS", default_value_t = 100)]
    pub commit_interval_ms: u64,

    /// How long a stop waits for what is in flight, in ms. Longer than the longest tool call.
    #[arg(long, env = "TURNWRIGHT_DRAIN_TIMEOUT_MS", default_value_t = 25_000)]
    pub drain_timeout_ms: u64,

    /// How long a revoked partition waits for what is in flight, in ms; others of the group wait meanwhile.
    #[arg(long, env = "TURNWRIGHT_REVOKE_TIMEOUT_MS", default_value_t = 5_000)]
    pub revoke_timeout_ms: u64,

    /// A partition with lag but no record for this long is silent: its consumer is rebuilt. In ms.
    #[arg(long, env = "TURNWRIGHT_SILENCE_MS", default_value_t = 30_000)]
    pub silence_ms: u64,

    /// A poll loop without a heartbeat for this long makes `/livez` fail, in ms. Longer than the revoke timeout.
    #[arg(long, env = "TURNWRIGHT_STALL_MS", default_value_t = 30_000)]
    pub stall_ms: u64,
}

impl RuntimeConfig {
    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            initial: Duration::from_millis(self.backoff_initial_ms),
            max: Duration::from_millis(self.backoff_max_ms),
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Telemetry")]
pub struct TelemetryConfig {
    /// Log filter, in `tracing`'s syntax.
    #[arg(long, env = "TURNWRIGHT_LOG", default_value = "info")]
    pub log: String,

    /// Log format.
    #[arg(long, env = "TURNWRIGHT_LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,

    /// Where traces and metrics are pushed (OTLP over HTTP). Unset means nowhere.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// Which part of new traces is recorded, 0 to 1; a caller's decision in `traceparent` wins.
    #[arg(long, env = "TURNWRIGHT_TRACE_RATIO", default_value_t = 1.0)]
    pub trace_ratio: f64,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "HTTP")]
pub struct HttpConfig {
    /// Where /livez, /readyz and /metrics are served, host:port; port 0 takes a free one. Unset means nowhere.
    #[arg(long = "http", env = "TURNWRIGHT_HTTP")]
    pub address: Option<String>,
}

impl Config {
    /// Every default, without reading arguments; the environment still counts.
    pub fn from_env() -> Result<Self, crate::Error> {
        #[derive(clap::Parser)]
        struct Alone {
            #[command(flatten)]
            config: Config,
        }
        <Alone as clap::Parser>::try_parse_from(["turnwright"])
            .map(|alone| alone.config)
            .map_err(|error| crate::Error::Config(error.to_string()))
    }

    /// Reports everything that is wrong together.
    pub fn validate(&self) -> Result<(), crate::Error> {
        let runtime = &self.runtime;
        let mut wrong = Vec::new();
        for (name, value) in [
            ("max-in-flight", runtime.max_in_flight),
            ("max-batch", runtime.max_batch),
            ("partition-max-records", runtime.partition_max_records),
            ("partition-max-bytes", runtime.partition_max_bytes),
            ("max-tries", runtime.max_tries as usize),
            ("publish-window", self.kafka.publish_window),
        ] {
            if value == 0 {
                wrong.push(format!("{name} must be at least 1"));
            }
        }
        if runtime.stall_ms <= runtime.revoke_timeout_ms {
            wrong.push("stall-ms must be longer than revoke-timeout-ms".to_owned());
        }
        if self.kafka.brokers.trim().is_empty() {
            wrong.push("brokers must not be empty".to_owned());
        }
        if wrong.is_empty() { Ok(()) } else { Err(crate::Error::Config(wrong.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bad_settings_are_reported_together() {
        let mut config = Config::from_env().unwrap();
        config.runtime.max_batch = 0;
        config.runtime.stall_ms = 1;
        let message = config.validate().unwrap_err().to_string();
        assert!(message.contains("max-batch") && message.contains("stall-ms"), "{message}");
    }
}
