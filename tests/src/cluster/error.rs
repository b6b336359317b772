//! What can keep the harness from doing its work.

use std::path::PathBuf;
use std::time::Duration;

use rdkafka::error::KafkaError;

#[derive(Clone, thiserror::Error)]
pub enum Error {
    #[error(
        "no turnwright binary at {}; `cargo build -p turnwright` makes it, `make test` does so by itself, or set \
         TURNWRIGHT_BIN",
        .0.display()
    )]
    NoBinary(PathBuf),
    #[error("{what}: {why}")]
    Failed { what: String, why: String },
    #[error("{what} was not so within {:.1} s: {seen}", .within.as_secs_f64())]
    Late { what: String, within: Duration, seen: String },
    #[error("Kafka: {0}")]
    Kafka(#[from] KafkaError),
}

impl Error {
    pub fn failed(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Failed { what: what.into(), why: why.to_string() }
    }

    pub fn io(what: &str, error: &std::io::Error) -> Self {
        Self::failed(what, error)
    }
}

/// Tests unwrap, so what `Debug` prints is what a person reads.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}
