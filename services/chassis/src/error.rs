//! Why a service could not start or could not go on.

use rdkafka::error::KafkaError;

/// The chassis' only error: what the process exits with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("configuration: {0}")]
    Config(String),
    #[error("kafka client: {0}")]
    Kafka(#[from] KafkaError),
    #[error("telemetry: {0}")]
    Telemetry(String),
    #[error("http address {address}: {source}")]
    Http { address: String, source: std::io::Error },
    #[error("thread: {0}")]
    Thread(#[from] std::io::Error),
    /// A handler, a periodic or the client declared that the process cannot go on; it was drained first.
    #[error("fatal: {0}")]
    Fatal(String),
}
