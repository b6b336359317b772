//! Reads topics as they grow, without a consumer group: a reader that leaves no trace.

use std::time::Duration;

use chassis::inbound;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset};
use schemas::Inbound;

use crate::client::{TIMEOUT, kafka};
use crate::error::Error;
use crate::settings::Settings;

/// Where to start in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Start,
    /// What comes after this call.
    Now,
}

/// An open reader.
pub struct Tail {
    consumer: StreamConsumer,
    settings: Settings,
}

impl Tail {
    /// Opens all partitions of these topics. What is published after this returns is seen.
    pub async fn open(settings: &Settings, topics: Vec<(String, From)>) -> Result<Self, Error> {
        let client = config(settings);
        let owned = settings.clone();
        let opened = tokio::task::spawn_blocking(move || open(&owned, &client, &topics)).await;
        let consumer = opened.map_err(|error| Error::failed("the reader's thread", error))??;
        Ok(Self { consumer, settings: settings.clone() })
    }

    /// The next record. Waits out a broker that is gone for a while.
    pub async fn next(&self) -> Result<Inbound, Error> {
        loop {
            match self.consumer.recv().await {
                Ok(message) => return Ok(inbound(&message)),
                Err(error) if is_passing(&error) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(error) => return Err(self.settings.kafka_error(error)),
            }
        }
    }
}

fn config(settings: &Settings) -> ClientConfig {
    let mut client = kafka(settings);
    client
        // librdkafka wants a group's name; nothing is committed under it and nobody joins it.
        .set("group.id", "turnwright-cli")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("fetch.error.backoff.ms", "50");
    client
}

fn open(settings: &Settings, client: &ClientConfig, topics: &[(String, From)]) -> Result<StreamConsumer, Error> {
    let failed = |error: KafkaError| settings.kafka_error(error);
    let consumer: StreamConsumer = client.create().map_err(failed)?;
    let mut list = TopicPartitionList::new();
    for (topic, from) in topics {
        let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT).map_err(failed)?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let partitions = found.map(|found| found.partitions()).unwrap_or_default();
        if partitions.is_empty() {
            let why = format!("the topic {topic} does not exist; `turnwright topics apply` makes it");
            return Err(settings.kafka_error(why));
        }
        for partition in partitions {
            let offset = match from {
                From::Start => Offset::Beginning,
                // `Offset::End` is looked up later, and would lose what is published until then.
                From::Now => {
                    let (_, end) = consumer.fetch_watermarks(topic, partition.id(), TIMEOUT).map_err(failed)?;
                    Offset::Offset(end)
                }
            };
            list.add_partition_offset(topic, partition.id(), offset).map_err(failed)?;
        }
    }
    consumer.assign(&list).map_err(failed)?;
    Ok(consumer)
}

/// Errors after which the client goes on by itself.
fn is_passing(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::PartitionEOF
                | RDKafkaErrorCode::NotLeaderForPartition
                | RDKafkaErrorCode::LeaderNotAvailable
                | RDKafkaErrorCode::RequestTimedOut
        )
    )
}
