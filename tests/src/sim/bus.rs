//! The bus in memory: partitioned logs that keep order per partition, duplicates and delays on the way in, and a
//! journal of everything that was published.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use async_trait::async_trait;
use chassis::{Bus, Failure, LogReader, TopicLog};
use protocol::Digest;
use schemas::{Inbound, Outbound};

use super::{ProcessId, World};

/// Partitions per topic.
pub const PARTITIONS: usize = 3;

/// One publish, as the world saw it.
#[derive(Debug, Clone)]
pub struct Published {
    pub sequence: u64,
    pub record: Outbound,
}

#[derive(Default)]
struct Logs {
    topics: BTreeMap<String, Vec<Vec<Inbound>>>,
    committed: BTreeMap<(String, String, usize), usize>,
    journal: Vec<Published>,
    waiting: Vec<Waker>,
}

/// The broker. Its clones are the clients of one process each.
#[derive(Clone)]
pub struct SimBus {
    world: World,
    prefix: String,
    logs: Arc<Mutex<Logs>>,
    process: Option<ProcessId>,
}

impl SimBus {
    pub fn new(world: World, prefix: &str) -> Self {
        Self { world, prefix: prefix.to_owned(), logs: Arc::default(), process: None }
    }

    pub fn of(&self, process: ProcessId) -> Self {
        Self { process: Some(process), ..self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything published so far.
    pub fn journal(&self) -> Vec<Published> {
        self.lock().journal.clone()
    }

    /// All records of a topic, partition by partition.
    pub fn records(&self, topic: schemas::Topic) -> Vec<Inbound> {
        let name = topic.name(&self.prefix);
        self.lock().topics.get(&name).map(|partitions| partitions.concat()).unwrap_or_default()
    }

    /// The records of a topic that are not to be kept are gone, as after a lost cluster.
    pub(super) fn forget(&self, topic: schemas::Topic, keep: impl Fn(&Inbound) -> bool) {
        let name = topic.name(&self.prefix);
        let mut logs = self.lock();
        logs.topics.get_mut(&name).into_iter().flatten().for_each(|partition| partition.retain(&keep));
    }

    /// Delivers every record of a topic again, as a consumer sees it whose offsets were lost.
    pub(super) fn redeliver(&self, topic: schemas::Topic) {
        let record = |record: Inbound| Outbound {
            topic,
            key: record.key.unwrap_or_default(),
            value: record.value.unwrap_or_default(),
            headers: record.headers,
            event_id: protocol::EventId(uuid::Uuid::nil()),
        };
        self.records(topic).into_iter().map(record).for_each(|record| self.append(&record));
    }

    /// Records of one partition from an offset on.
    pub(super) fn fetch(&self, topic: &str, partition: usize, from: usize) -> Vec<Inbound> {
        let logs = self.lock();
        let partitions = logs.topics.get(topic);
        partitions.and_then(|all| all[partition].get(from..)).map(<[_]>::to_vec).unwrap_or_default()
    }

    pub(super) fn committed(&self, group: &str, topic: &str, partition: usize) -> usize {
        let key = (group.to_owned(), topic.to_owned(), partition);
        self.lock().committed.get(&key).copied().unwrap_or(0)
    }

    pub(super) fn commit(&self, group: &str, topic: &str, partition: usize, offset: usize) {
        self.lock().committed.insert((group.to_owned(), topic.to_owned(), partition), offset);
    }

    /// Wakes when something is appended.
    pub(super) fn wait(&self, waker: Waker) {
        self.lock().waiting.push(waker);
    }

    fn append(&self, record: &Outbound) {
        let name = record.topic.name(&self.prefix);
        let hash = Digest::of("partition", &[&record.key]);
        let partition = usize::from(hash.0[0]) % PARTITIONS;
        let timestamp_ms = i64::try_from(self.world.now_ms()).unwrap_or(i64::MAX);
        let mut logs = self.lock();
        let partitions = logs.topics.entry(name.clone()).or_insert_with(|| vec![Vec::new(); PARTITIONS]);
        let log = &mut partitions[partition];
        log.push(Inbound {
            topic: name,
            partition: i32::try_from(partition).unwrap_or(0),
            offset: i64::try_from(log.len()).unwrap_or(0),
            timestamp_ms,
            key: Some(record.key.clone()),
            value: Some(record.value.clone()),
            headers: record.headers.clone(),
        });
        let waiting = std::mem::take(&mut logs.waiting);
        drop(logs);
        waiting.into_iter().for_each(Waker::wake);
    }

    async fn point(&self) {
        if let Some(process) = self.process {
            self.world.point(process).await;
        }
    }

    /// Appends a record now, as a caller or a handler's publish does: perhaps twice.
    pub fn produce(&self, record: &Outbound) {
        let sequence = self.world.next_sequence();
        self.lock().journal.push(Published { sequence, record: record.clone() });
        self.append(record);
        if self.world.faults().is_some_and(|faults| self.world.chance(faults.duplicate)) {
            self.world.injected("duplicate");
            self.append(record);
        }
    }
}

#[async_trait]
impl Bus for SimBus {
    async fn publish(&self, records: Vec<Outbound>) -> Result<(), Failure> {
        for record in records {
            self.point().await;
            self.produce(&record);
        }
        self.point().await;
        if self.world.faults().is_some_and(|faults| self.world.chance(faults.lost_reply)) {
            self.world.injected("lost_acknowledgement");
            return Err(Failure::Unavailable("the acknowledgement was lost".to_owned()));
        }
        Ok(())
    }
}

/// The `events` topic of a broker.
pub struct SimLog(pub SimBus);

struct SimReader(Vec<Inbound>);

#[async_trait]
impl TopicLog for SimLog {
    async fn open(&self, since_ms: Option<i64>) -> Result<Box<dyn LogReader>, Failure> {
        self.0.point().await;
        let mut records = self.0.records(schemas::Topic::Events);
        records.retain(|record| since_ms.is_none_or(|since| record.timestamp_ms >= since));
        Ok(Box::new(SimReader(records)))
    }
}

#[async_trait]
impl LogReader for SimReader {
    async fn next(&mut self) -> Result<Vec<Inbound>, Failure> {
        Ok(self.0.drain(..self.0.len().min(7)).collect())
    }
}
