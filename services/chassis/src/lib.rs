//! The shared consumer runtime, producer, configuration, telemetry, health and life cycle. It knows records and topics,
//! and nothing of what they mean.

mod client;
mod clock;
mod config;
mod consumer;
mod error;
mod health;
mod lifecycle;
mod log;
mod metrics;
mod mock;
mod periodic;
mod producer;
mod properties;
pub mod registry;
mod retry;
mod seams;
mod service;
mod telemetry;
mod trace;

pub use clock::RealClock;
pub use config::*;
pub use consumer::{Consumer, ConsumerParts, DeadLetters, inbound};
pub use error::Error;
pub use health::{Health, ReadyCheck};
pub use lifecycle::Shutdown;
pub use log::KafkaLog;
pub use metrics::{Metrics, names};
pub use mock::{MockBroker, MockTopic};
pub use producer::KafkaBus;
pub use properties::Property;
pub use retry::{Backoff, RetryPolicy};
pub use seams::*;
pub use service::{ServiceSpec, run_service};
pub use telemetry::Telemetry;
