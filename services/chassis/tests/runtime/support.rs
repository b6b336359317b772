//! A broker, a scripted handler, a running consumer, and questions with deadlines.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::BoxFuture;
use protocol::EventId;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Header, Headers as _, Message as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use schemas::{Inbound, Outbound, Topic};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use turnwright_chassis::{
    Bus, Config, Consumer, ConsumerParts, DeadLetters, Error, Failure, Handler, Health, KafkaBus, Metrics, MockBroker,
    MockTopic, Reply, Shutdown,
};
use uuid::Uuid;

pub const INPUT: &str = "turnwright.turns.v1";
pub const OUTPUT: &str = "turnwright.decisions.v1";
pub const LETTERS: &str = "turnwright.dead-letters.v1";
pub const GROUP: &str = "turnwright.test";
/// Longer than anything takes on a busy machine; a test that needs it has failed.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub struct World {
    pub broker: MockBroker,
    producer: FutureProducer,
}

/// Everything a handler was given and what it answers.
type Answer = Box<dyn Fn(Vec<Inbound>) -> BoxFuture<'static, Result<Reply, Failure>> + Send + Sync>;

pub struct Scripted {
    answer: Answer,
    /// The values of every batch, in the order of hand-over.
    pub batches: Mutex<Vec<Vec<String>>>,
    pub acknowledged: Mutex<Vec<String>>,
}

pub struct Running {
    pub shutdown: Shutdown,
    pub metrics: Metrics,
    pub health: Health,
    pub handler: Arc<Scripted>,
    task: JoinHandle<Result<(), Error>>,
}

impl World {
    /// A broker whose input topic has this many partitions.
    pub fn new(partitions: i32) -> Self {
        // Lines show for a failed test only; the first test installs it.
        let filter = tracing_subscriber::EnvFilter::new("info");
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let topics = [(INPUT, partitions), (OUTPUT, 1), (LETTERS, 1)];
        let topics = topics.map(|(name, partitions)| MockTopic { name: name.to_owned(), partitions });
        let broker = MockBroker::start(&topics).unwrap();
        let producer = ClientConfig::new()
            .set("bootstrap.servers", broker.bootstrap_servers())
            .set("queue.buffering.max.ms", "0")
            .create()
            .unwrap();
        Self { broker, producer }
    }

    pub fn config(&self) -> Config {
        let mut config = Config::from_env().unwrap();
        self.broker.configure(&mut config.kafka);
        config.runtime.backoff_initial_ms = 1;
        config.runtime.backoff_max_ms = 20;
        config.runtime.commit_interval_ms = 10;
        config
    }

    pub async fn produce(&self, partition: i32, key: &str, value: &str) {
        self.produce_with(partition, key, value.as_bytes(), &[]).await;
    }

    pub async fn produce_with(&self, partition: i32, key: &str, value: &[u8], headers: &[(&str, &str)]) {
        let mut own = OwnedHeaders::new();
        for (key, value) in headers {
            own = own.insert(Header { key, value: Some(*value) });
        }
        let record = FutureRecord::to(INPUT).partition(partition).key(key).payload(value).headers(own);
        self.producer.send(record, Duration::from_secs(10)).await.unwrap();
    }

    /// Starts a member of the group with the real bus.
    pub fn run(&self, config: Config, answer: Answer) -> Running {
        let metrics = Metrics::silent("test");
        let bus = KafkaBus::new(&config.kafka, "test", config.runtime.retry_policy(), metrics.clone()).unwrap();
        self.run_with(config, Arc::new(bus), metrics, answer)
    }

    pub fn run_with(&self, config: Config, bus: Arc<dyn Bus>, metrics: Metrics, answer: Answer) -> Running {
        let handler = Arc::new(Scripted { answer, batches: Mutex::default(), acknowledged: Mutex::default() });
        let health = Health::new(Duration::from_secs(30));
        let shutdown = Shutdown::new();
        let consumer = Consumer::new(ConsumerParts {
            service: "test".to_owned(),
            topics: vec![INPUT.to_owned()],
            handler: handler.clone(),
            bus,
            dead_letters: dead_letters(),
            config,
            metrics: metrics.clone(),
            health: health.clone(),
        });
        let task = tokio::spawn(consumer.run(shutdown.clone()));
        Running { shutdown, metrics, health, handler, task }
    }

    /// The group's committed offset of an input partition.
    pub async fn committed(&self, partition: i32) -> Option<i64> {
        let servers = self.broker.bootstrap_servers().to_owned();
        tokio::task::spawn_blocking(move || {
            let consumer = client(&servers);
            let mut list = TopicPartitionList::new();
            list.add_partition(INPUT, partition);
            let found = consumer.committed_offsets(list, Duration::from_secs(5)).unwrap();
            match found.elements()[0].offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            }
        })
        .await
        .unwrap()
    }

    pub async fn until_committed(&self, partition: i32, offset: i64) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let committed = self.committed(partition).await;
            if committed == Some(offset) {
                return;
            }
            assert!(Instant::now() < deadline, "committed {committed:?}, waited for {offset}");
        }
    }

    /// Waits until a topic's first partition holds `count` records, and returns all it holds.
    pub async fn read(&self, topic: &'static str, count: usize) -> Vec<Inbound> {
        let servers = self.broker.bootstrap_servers().to_owned();
        tokio::task::spawn_blocking(move || {
            let consumer = client(&servers);
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
            consumer.assign(&list).unwrap();
            let deadline = Instant::now() + DEADLINE;
            let mut found = Vec::new();
            while found.len() < count {
                assert!(Instant::now() < deadline, "{topic} holds {} of {count}", found.len());
                if let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) {
                    let headers = message.headers().map_or_else(Vec::new, |headers| {
                        let all = headers.iter();
                        all.map(|h| (h.key.to_owned(), h.value.unwrap_or_default().to_vec())).collect()
                    });
                    found.push(Inbound {
                        topic: topic.to_owned(),
                        partition: 0,
                        offset: message.offset(),
                        timestamp_ms: 0,
                        key: message.key().map(<[u8]>::to_vec),
                        value: message.payload().map(<[u8]>::to_vec),
                        headers,
                    });
                }
            }
            found
        })
        .await
        .unwrap()
    }
}

fn client(servers: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", GROUP)
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "1")
        .create()
        .unwrap()
}

impl Running {
    /// Waits until `done` says so.
    pub async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !done(self) {
            assert!(!self.task.is_finished(), "the consumer ended while waiting for: {what}");
            assert!(Instant::now() < deadline, "waited too long for: {what}; batches {:?}", self.handler.batches());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub async fn stop(self) -> Result<(), Error> {
        self.shutdown.trigger();
        self.end().await
    }

    /// Waits for an end that comes by itself.
    pub async fn end(self) -> Result<(), Error> {
        tokio::time::timeout(DEADLINE, self.task).await.expect("it ends in time").unwrap()
    }
}

impl Scripted {
    pub fn batches(&self) -> Vec<Vec<String>> {
        self.batches.lock().unwrap().clone()
    }

    pub fn values(&self) -> Vec<String> {
        self.batches().concat()
    }

    pub fn saw(&self, value: &str) -> bool {
        self.values().iter().any(|seen| seen == value)
    }
}

#[async_trait]
impl Handler for Scripted {
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        record.key.clone().unwrap_or_default()
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        self.batches.lock().unwrap().push(batch.iter().map(text).collect());
        (self.answer)(batch.to_vec()).await
    }

    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        self.acknowledged.lock().unwrap().push(*receipt.downcast::<String>().unwrap());
    }
}

pub fn text(record: &Inbound) -> String {
    String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned()
}

/// A handler that answers at once, by the batch's values.
pub fn answer(reply: impl Fn(&[Inbound]) -> Result<Reply, Failure> + Send + Sync + 'static) -> Answer {
    Box::new(move |batch| {
        let reply = reply(&batch);
        Box::pin(async move { reply })
    })
}

pub fn nothing() -> Answer {
    answer(|_| Ok(Reply::default()))
}

/// Gates by value: a record whose value has a gate is handled only once the gate is open.
#[derive(Clone, Default)]
pub struct Gates(Arc<Mutex<HashMap<String, Arc<Semaphore>>>>);

impl Gates {
    pub fn closed(values: &[&str]) -> Self {
        let gates = values.iter().map(|value| ((*value).to_owned(), Arc::new(Semaphore::new(0))));
        Self(Arc::new(Mutex::new(gates.collect())))
    }

    pub fn open(&self, value: &str) {
        self.0.lock().unwrap()[value].add_permits(1_000_000);
    }

    pub fn answer(&self) -> Answer {
        let gates = self.clone();
        Box::new(move |batch| {
            let waits: Vec<_> =
                batch.iter().filter_map(|record| gates.0.lock().unwrap().get(&text(record)).cloned()).collect();
            Box::pin(async move {
                for gate in waits {
                    drop(gate.acquire().await.unwrap());
                }
                Ok(Reply::default())
            })
        })
    }
}

/// A reply to `record` on the output topic.
pub fn output(value: &str) -> Outbound {
    Outbound {
        topic: Topic::Decisions,
        key: value.as_bytes().to_vec(),
        value: value.as_bytes().to_vec(),
        headers: Vec::new(),
        event_id: EventId(Uuid::nil()),
    }
}

/// The real encoder lives in `schemas`; here a letter's value is the code, the field and the number of tries.
pub fn dead_letters() -> DeadLetters {
    Arc::new(|record, rejection, tries, service| Outbound {
        topic: Topic::DeadLetters,
        key: record.key.clone().unwrap_or_default(),
        value: format!("{} {} {tries} {service}", rejection.code.as_str(), rejection.field).into_bytes(),
        headers: record.headers.clone(),
        event_id: EventId(Uuid::nil()),
    })
}
