//! Reads whole topics without a group: every partition, from a known place, so that nothing is missed and nobody waits
//! for a rebalance.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use schemas::Inbound;

use super::service::LOOK;
use super::{Error, unique};
use chassis::inbound;

/// Where a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Beginning,
    /// What is produced after the reader was opened, all of it.
    Now,
}

pub struct Reader {
    consumer: BaseConsumer,
    /// The next offset of every partition.
    next: BTreeMap<(String, i32), i64>,
}

/// How long one question to the broker may take.
pub(super) const ASK: Duration = Duration::from_secs(20);

/// Repeats a question: a partition that was just made may have no leader yet, a group no coordinator.
pub(super) fn asked<T>(question: impl Fn() -> KafkaResult<T>) -> Result<T, Error> {
    let deadline = Instant::now() + ASK;
    loop {
        match question() {
            Ok(answer) => return Ok(answer),
            Err(error) if Instant::now() >= deadline => return Err(error.into()),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// The first offset of a partition, and the one that its next record gets.
pub(super) fn watermarks(consumer: &BaseConsumer, topic: &str, partition: i32) -> Result<(i64, i64), Error> {
    asked(|| consumer.fetch_watermarks(topic, partition, ASK))
}

impl Reader {
    pub fn open(brokers: &str, topics: &[String], start: Start) -> Result<Self, Error> {
        let consumer = consumer(brokers, &format!("tests-{}", unique()))?;
        let mut next = BTreeMap::new();
        let mut assignment = TopicPartitionList::new();
        for topic in topics {
            for partition in partitions(&consumer, topic)? {
                let (first, end) = watermarks(&consumer, topic, partition)?;
                let from = match start {
                    Start::Beginning => first,
                    Start::Now => end,
                };
                assignment.add_partition_offset(topic, partition, Offset::Offset(from))?;
                next.insert((topic.clone(), partition), from);
            }
        }
        consumer.assign(&assignment)?;
        Ok(Self { consumer, next })
    }

    /// The next record, if one comes within that time.
    pub fn next(&mut self, within: Duration) -> Result<Option<Inbound>, Error> {
        let Some(message) = self.consumer.poll(within) else { return Ok(None) };
        let record = match message {
            Ok(message) => inbound(&message),
            // The client connects again by itself, and goes on where it was.
            Err(error) if error.rdkafka_error_code().is_some_and(is_passing) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        self.next.insert((record.topic.clone(), record.partition), record.offset + 1);
        Ok(Some(record))
    }

    /// Hands over records until `done` says so of one; what it is waiting for and what it has seen go into the error.
    pub fn until(&mut self, what: &str, within: Duration, mut done: impl FnMut(Inbound) -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        let mut seen = 0;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.next(left)? {
                Some(record) => {
                    seen += 1;
                    if done(record) {
                        return Ok(());
                    }
                }
                None if left.is_zero() => {
                    return Err(Error::Late { what: what.to_owned(), within, seen: format!("{seen} other records") });
                }
                None => {}
            }
        }
    }

    /// Everything that is in the topics by now and was not read yet.
    pub fn rest(&mut self) -> Result<Vec<Inbound>, Error> {
        let mut ends = BTreeMap::new();
        for (topic, partition) in self.next.keys() {
            let (_, end) = watermarks(&self.consumer, topic, *partition)?;
            ends.insert((topic.clone(), *partition), end);
        }
        let deadline = Instant::now() + ASK;
        let mut records = Vec::new();
        while self.next.iter().any(|(place, next)| *next < ends[place]) {
            records.extend(self.next(Duration::from_millis(200))?);
            if Instant::now() > deadline {
                let seen = format!("{} records", records.len());
                return Err(Error::Late { what: "the end of the topics".to_owned(), within: ASK, seen });
            }
        }
        Ok(records)
    }
}

fn is_passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::BrokerTransportFailure | Code::AllBrokersDown | Code::OperationTimedOut)
}

/// A consumer that commits nothing by itself.
pub(super) fn consumer(brokers: &str, group: &str) -> Result<BaseConsumer, Error> {
    let consumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .set("fetch.wait.max.ms", "50")
        .create()?;
    Ok(consumer)
}

pub(super) fn partitions(consumer: &BaseConsumer, topic: &str) -> Result<Vec<i32>, Error> {
    let metadata = asked(|| consumer.fetch_metadata(Some(topic), ASK))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let partitions: Vec<i32> =
        found.map(|topic| topic.partitions().iter().map(|partition| partition.id()).collect()).unwrap_or_default();
    match partitions.is_empty() {
        true => Err(Error::failed(format!("the topic {topic}"), "has no partitions")),
        false => Ok(partitions),
    }
}
