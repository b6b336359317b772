//! The consumer runtime over librdkafka's mock broker: what a user of Kafka expects, fault by fault.

mod failures;
mod flow;
mod losses;
mod membership;
mod offsets;
mod order;
mod service;
mod support;
