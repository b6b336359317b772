//! An in-process broker for `turnwright dev` and fast tests: librdkafka's mock cluster. It is volatile, keeps 5 MiB per
//! partition, and proves nothing about a real broker's durability.

use std::sync::mpsc;
use std::thread;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use uuid::Uuid;

use crate::{Error, KafkaConfig, Property};

/// A topic to create before anyone connects.
#[derive(Debug, Clone)]
pub struct MockTopic {
    pub name: String,
    pub partitions: i32,
}

type Cluster = MockCluster<'static, DefaultProducerContext>;
type Command = Box<dyn FnOnce(&Cluster) + Send>;

/// A running mock cluster; it ends when this is dropped. Its ports are chosen by the system.
pub struct MockBroker {
    bootstrap_servers: String,
    cluster_id: String,
    commands: Option<mpsc::Sender<Command>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl MockBroker {
    /// Starts one broker with these topics. Other topics come into being when they are first used, with four partitions.
    pub fn start(topics: &[MockTopic]) -> Result<Self, Error> {
        let (commands, queue) = mpsc::channel::<Command>();
        let (ready, started) = mpsc::channel();
        let topics = topics.to_vec();
        // The cluster's handle may not leave its thread, so the thread lives as long as the cluster.
        let thread = thread::Builder::new().name("mock-broker".to_owned()).spawn(move || {
            let cluster = Cluster::new(1).and_then(|cluster| {
                for topic in &topics {
                    cluster.create_topic(&topic.name, topic.partitions, 1)?;
                }
                Ok(cluster)
            });
            match cluster {
                Ok(cluster) => {
                    // The starter waits for this, and if it is gone the queue ends at once.
                    let _ = ready.send(Ok(cluster.bootstrap_servers()));
                    queue.into_iter().for_each(|command| command(&cluster));
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        })?;
        let bootstrap_servers =
            started.recv().map_err(|_| Error::Fatal("the mock broker's thread ended at its start".to_owned()))??;
        #[expect(clippy::disallowed_methods, reason = "a volatile broker is another cluster at every start")]
        let cluster_id = format!("mock-{}", Uuid::now_v7().simple());
        Ok(Self { bootstrap_servers, cluster_id, commands: Some(commands), thread: Some(thread) })
    }

    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// Differs on every start, as the log does: what the store remembers of an older one must not be believed.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Runs `command` on the cluster, for instance to inject faults, and returns its answer.
    pub fn with<T: Send + 'static>(&self, command: impl FnOnce(&Cluster) -> T + Send + 'static) -> T {
        let (answer, answered) = mpsc::channel();
        let commands = self.commands.as_ref().expect("commands are there until drop");
        let wrapped: Command = Box::new(move |cluster| {
            let _ = answer.send(command(cluster));
        });
        commands.send(wrapped).expect("the broker's thread ends only with its sender");
        answered.recv().expect("the broker's thread answers every command")
    }

    /// Points `config` at this broker, with the settings under which it is fast. It sleeps the whole fetch wait. The first
    /// member of a group waits 3 s, and with a shorter session it is thrown out while it waits; a later rebalance takes
    /// the session timeout less one second.
    pub fn configure(&self, config: &mut KafkaConfig) {
        config.brokers.clone_from(&self.bootstrap_servers);
        config.fetch_wait_ms = 1;
        config.session_timeout_ms = 4_000;
        let heartbeat = Property { name: "heartbeat.interval.ms".to_owned(), value: "200".to_owned() };
        config.consumer_properties.push(heartbeat);
    }
}

impl Drop for MockBroker {
    fn drop(&mut self) {
        self.commands.take();
        if let Some(thread) = self.thread.take() {
            // A panic in a test's command has been reported there.
            let _ = thread.join();
        }
    }
}
