//! The caller's side: a producer of requests and a reader of what comes of them.

use std::time::Duration;

use chassis::inbound;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use schemas::{Codec, Inbound, Outbound, Topic};

use super::Error;

const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Requests {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
}

impl Requests {
    pub fn new(brokers: &str, codec: &Codec) -> Result<Self, Error> {
        let mut settings = settings(brokers);
        settings.set("queue.buffering.max.ms", "0").set("enable.idempotence", "true").set("acks", "all");
        let producer = settings.create().map_err(|error| Error::failed("the producer", error))?;
        Ok(Self { producer, topic: codec.topic_name(Topic::Invocations) })
    }

    /// Hands a request to the producer's queue.
    pub fn send(&self, record: &Outbound) -> Result<(), Error> {
        let message = BaseRecord::to(&self.topic).key(&record.key).payload(&record.value);
        self.producer.send(message).map_err(|(error, _)| Error::failed("a request", error))
    }
}

/// Reads topics from their beginning: they are new.
pub(super) struct Reader {
    consumer: BaseConsumer,
}

impl Reader {
    pub fn new(brokers: &str, codec: &Codec, topics: &[Topic]) -> Result<Self, Error> {
        let failed = |error| Error::failed("the consumer", error);
        let mut settings = settings(brokers);
        settings
            .set("group.id", "turnwright-bench")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "100")
            .set("fetch.queue.backoff.ms", "10");
        let consumer: BaseConsumer = settings.create().map_err(failed)?;
        let mut places = TopicPartitionList::new();
        for topic in topics {
            let name = codec.topic_name(*topic);
            let metadata = consumer.fetch_metadata(Some(&name), TIMEOUT).map_err(failed)?;
            for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
                places.add_partition_offset(&name, partition.id(), Offset::Beginning).map_err(failed)?;
            }
        }
        consumer.assign(&places).map_err(failed)?;
        Ok(Self { consumer })
    }

    /// The next record, if one comes in time.
    pub fn next(&self, within: Duration) -> Result<Option<Inbound>, Error> {
        match self.consumer.poll(within) {
            Some(Ok(message)) => Ok(Some(inbound(&message))),
            Some(Err(error)) => Err(Error::failed("the consumer", error)),
            None => Ok(None),
        }
    }
}

fn settings(brokers: &str) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", brokers).set("client.id", "turnwright-bench").set("socket.nagle.disable", "true");
    settings
}
