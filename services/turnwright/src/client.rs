//! What a command needs to talk to a cluster: the codec, a producer, an open store.

use std::sync::Arc;
use std::time::Duration;

use chassis::{Bus, Config, KafkaBus, Metrics};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use schemas::{Codec, Outbound};
use store::{RedisStore, Store};

use crate::error::Error;
use crate::settings::{MEMORY_STORE, Settings};

/// How long one answer of a broker may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The codec, with what the registry knows.
pub async fn codec(settings: &Settings) -> Result<Codec, Error> {
    let codec = Codec::new(settings.codec());
    codec.connect_registry(false).await.map_err(|error| {
        let fix =
            "check the address, or run `turnwright schema register` first; without --schema-registry none is asked";
        Error::setting("--schema-registry (TURNWRIGHT_SCHEMA_REGISTRY)", error, fix)
    })?;
    Ok(codec)
}

/// The carrying settings of a command: the chassis' own, at this cluster.
pub fn carried(settings: &Settings) -> Result<Config, Error> {
    let mut config = Config::from_env().map_err(|error| Error::failed("the environment", error))?;
    config.kafka.brokers.clone_from(&settings.brokers);
    config.kafka.topic_prefix.clone_from(&settings.topic_prefix);
    config.kafka.properties.clone_from(&settings.properties);
    config.kafka.publish_timeout_ms = crate::duration::millis(TIMEOUT);
    Ok(config)
}

/// Publishes one record and waits for its acknowledgement.
pub async fn publish(settings: &Settings, record: Outbound) -> Result<(), Error> {
    let config = carried(settings)?;
    let bus = KafkaBus::new(&config.kafka, "cli", config.runtime.retry_policy(), Metrics::silent("cli"))
        .map_err(|error| settings.kafka_error(error))?;
    let published = tokio::time::timeout(TIMEOUT, bus.publish(vec![record])).await;
    match published {
        Ok(result) => result.map_err(|failure| settings.kafka_error(failure)),
        Err(_) => Err(settings.kafka_error(format!("no acknowledgement within {} s", TIMEOUT.as_secs()))),
    }
}

/// A plain client of librdkafka, for reading and for administration.
pub fn kafka(settings: &Settings) -> ClientConfig {
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", &settings.brokers)
        .set("client.id", "turnwright-cli")
        // A mock broker sleeps all of it, and a person waits for the answer.
        .set("fetch.wait.max.ms", "10")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.nagle.disable", "true")
        // Problems are reported as errors of the call that meets them.
        .set_log_level(RDKafkaLogLevel::Emerg);
    for property in &settings.properties {
        client.set(&property.name, &property.value);
    }
    client
}

/// Opens the store for reading.
pub async fn store(settings: &Settings) -> Result<Arc<dyn Store>, Error> {
    if settings.store == MEMORY_STORE {
        return Err(settings.store_error(
            "it is in the memory of `turnwright dev`, where no other process can read it; \
             install redis-server and start `turnwright dev` again, or use `turnwright watch`",
        ));
    }
    let store = RedisStore::open(&settings.redis()).await.map_err(|error| settings.store_error(error))?;
    Ok(Arc::new(store))
}
