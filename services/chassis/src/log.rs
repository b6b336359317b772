//! A topic read back from its beginning: no group, nothing committed, and an end, which is where the topic ended when it
//! was opened.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use schemas::Inbound;

use crate::{Failure, KafkaConfig, LogReader, TopicLog, client, inbound};

/// How long the broker may take for an answer, and for the next record of a partition that has one.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Records handed over at once.
const BATCH: usize = 500;

/// Reads one topic of a Kafka cluster.
pub struct KafkaLog {
    settings: ClientConfig,
    topic: String,
}

impl KafkaLog {
    pub fn new(config: &KafkaConfig, service: &str, topic: String) -> Self {
        Self { settings: client::log_reader(config, service), topic }
    }
}

#[async_trait]
impl TopicLog for KafkaLog {
    async fn open(&self, since_ms: Option<i64>) -> Result<Box<dyn LogReader>, Failure> {
        let (settings, topic) = (self.settings.clone(), self.topic.clone());
        let opened = tokio::task::spawn_blocking(move || open(&settings, &topic, since_ms)).await;
        let reader = opened.map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(Box::new(reader.map_err(|error| unavailable(&error))?))
    }
}

struct Reader {
    consumer: StreamConsumer,
    /// Per partition that is not read to its end: the offset of that end.
    ends: BTreeMap<i32, i64>,
}

fn open(settings: &ClientConfig, topic: &str, since_ms: Option<i64>) -> Result<Reader, KafkaError> {
    let consumer: StreamConsumer = settings.create()?;
    let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT)?;
    let partitions: Vec<i32> =
        metadata.topics().iter().flat_map(|topic| topic.partitions()).map(|partition| partition.id()).collect();
    let mut starts = TopicPartitionList::new();
    for partition in &partitions {
        starts.add_partition_offset(topic, *partition, since_ms.map_or(Offset::Beginning, Offset::Offset))?;
    }
    if since_ms.is_some() {
        // Each offset holds a time here, and is answered with the first record that is not older.
        starts = consumer.offsets_for_times(starts, TIMEOUT)?;
    }
    let mut assigned = TopicPartitionList::new();
    let mut ends = BTreeMap::new();
    for start in starts.elements() {
        let (low, high) = consumer.fetch_watermarks(topic, start.partition(), TIMEOUT)?;
        let from = match start.offset() {
            Offset::Offset(offset) => offset,
            Offset::Beginning => low,
            // No record is as young as that.
            Offset::End | Offset::Invalid | Offset::Stored | Offset::OffsetTail(_) => high,
        };
        if from < high {
            assigned.add_partition_offset(topic, start.partition(), Offset::Offset(from))?;
            ends.insert(start.partition(), high);
        }
    }
    consumer.assign(&assigned)?;
    Ok(Reader { consumer, ends })
}

#[async_trait]
impl LogReader for Reader {
    async fn next(&mut self) -> Result<Vec<Inbound>, Failure> {
        let mut batch = Vec::new();
        while !self.ends.is_empty() && batch.len() < BATCH {
            let received = tokio::time::timeout(TIMEOUT, self.consumer.recv()).await;
            let received = received.map_err(|_| {
                Failure::Unavailable(format!("the broker sent no record of the log for {} s", TIMEOUT.as_secs()))
            })?;
            match received {
                Ok(message) => {
                    let (partition, offset) = (message.partition(), message.offset());
                    if self.ends.get(&partition).is_some_and(|end| offset < *end) {
                        batch.push(inbound(&message));
                    }
                    if self.ends.get(&partition).is_some_and(|end| offset + 1 >= *end) {
                        self.ends.remove(&partition);
                    }
                }
                // The last offsets may hold no record.
                Err(KafkaError::PartitionEOF(partition)) => drop(self.ends.remove(&partition)),
                Err(error) => return Err(unavailable(&error)),
            }
        }
        Ok(batch)
    }
}

fn unavailable(error: &KafkaError) -> Failure {
    Failure::Unavailable(format!("the log cannot be read: {error}"))
}
