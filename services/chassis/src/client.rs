//! librdkafka's settings: what we need, what the operator passes through, and what nobody may change.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use crate::{GroupProtocol, KafkaConfig, Property};

/// Settings for every client of a service.
fn base(config: &KafkaConfig, service: &str) -> ClientConfig {
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", &config.brokers)
        .set("client.id", format!("{}-{service}-{}", config.client_id, config.pod))
        // A record is answered by another at once: a delayed packet is a delayed hop.
        .set("socket.nagle.disable", "true")
        .set("socket.keepalive.enable", "true")
        // The default of 10 s would make a short broker restart an outage.
        .set("reconnect.backoff.max.ms", "1000")
        // A topic made after the service started is found within this time.
        .set("topic.metadata.refresh.interval.ms", "10000")
        .set_log_level(RDKafkaLogLevel::Info);
    client
}

/// Settings of a service's consumer.
pub(crate) fn consumer(config: &KafkaConfig, service: &str) -> ClientConfig {
    let mut client = base(config, service);
    client
        .set("group.id", format!("{}.{service}", config.group_prefix))
        .set("fetch.wait.max.ms", config.fetch_wait_ms.to_string())
        .set("fetch.min.bytes", "1")
        // After a fetch error or a full queue librdkafka rests this long; half a second is an age here.
        .set("fetch.error.backoff.ms", "50")
        .set("fetch.queue.backoff.ms", "10")
        // What is prefetched is thrown away on a pause and counts as memory; the chassis has its own queue.
        .set("queued.min.messages", "1000")
        .set("queued.max.messages.kbytes", "16384")
        .set("allow.auto.create.topics", "false");
    if let Some(instance) = &config.group_instance_id {
        client.set("group.instance.id", instance);
    }
    match config.group_protocol {
        GroupProtocol::Classic => client
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("session.timeout.ms", config.session_timeout_ms.to_string())
            .set("heartbeat.interval.ms", (config.session_timeout_ms / 5).max(1).to_string()),
        // The broker owns session timeout, heartbeat and assignor; setting them is an error.
        GroupProtocol::Consumer => client.set("group.protocol", "consumer"),
    };
    pass_through(&mut client, &config.properties);
    pass_through(&mut client, &config.consumer_properties);
    enforce(
        &mut client,
        &[
            // An offset is committed by the chassis, after what its record caused is acknowledged.
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            // Lost records are reported and counted before anything is skipped.
            ("auto.offset.reset", "error"),
        ],
    );
    client
}

/// Settings of a client that reads a topic from its beginning to its end, outside of any group.
pub(crate) fn log_reader(config: &KafkaConfig, service: &str) -> ClientConfig {
    let mut client = base(config, service);
    // librdkafka wants a group's name; nothing is committed under it and nobody joins it.
    client.set("group.id", format!("{}.{service}.log", config.group_prefix)).set("fetch.error.backoff.ms", "50");
    pass_through(&mut client, &config.properties);
    enforce(
        &mut client,
        &[
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "earliest"),
        ],
    );
    client
}

/// Settings of a producer of a service that gathers records for so long before it sends them.
pub(crate) fn producer(config: &KafkaConfig, service: &str, gather_ms: u64) -> ClientConfig {
    let mut client = base(config, service);
    client
        .set("queue.buffering.max.ms", gather_ms.to_string())
        .set("message.timeout.ms", config.publish_timeout_ms.to_string())
        .set("queue.buffering.max.messages", (config.publish_window.saturating_mul(2)).max(1000).to_string())
        // The Java client's partitioner: equal keys meet where callers in other languages put them.
        .set("partitioner", "murmur2_random")
        .set("compression.type", "none");
    pass_through(&mut client, &config.properties);
    pass_through(&mut client, &config.producer_properties);
    enforce(&mut client, &[("enable.idempotence", "true"), ("acks", "all")]);
    client
}

fn pass_through(client: &mut ClientConfig, properties: &[Property]) {
    for property in properties {
        client.set(&property.name, &property.value);
        if property.name == "debug" {
            // Debug contexts write at the debug level, which is cut off otherwise.
            client.set_log_level(RDKafkaLogLevel::Debug);
        }
    }
}

fn enforce(client: &mut ClientConfig, fixed: &[(&str, &str)]) {
    for (name, value) in fixed {
        if client.get(name).is_some_and(|set| set != *value) {
            tracing::warn!(property = name, value, "this Kafka property is fixed; the configured value is not used");
        }
        client.set(*name, *value);
    }
}

/// Hands a log line of librdkafka to `tracing`.
pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    use RDKafkaLogLevel as Level;
    match level {
        Level::Emerg | Level::Alert | Level::Critical | Level::Error => {
            tracing::error!(target: "librdkafka", facility, "{message}");
        }
        Level::Warning => tracing::warn!(target: "librdkafka", facility, "{message}"),
        Level::Notice | Level::Info => tracing::info!(target: "librdkafka", facility, "{message}"),
        Level::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
    }
}

/// Hands a global error of librdkafka to `tracing`; the client recovers by itself unless it says otherwise elsewhere.
pub(crate) fn log_error(error: &KafkaError, reason: &str) {
    tracing::warn!(target: "librdkafka", %error, "{reason}");
}
