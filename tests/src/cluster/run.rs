//! A running cluster, and what a test does to it.

use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use schemas::{Codec, CodecConfig, Topic, WireFormat};
use tempfile::TempDir;

use super::infra::{shared_kafka, shared_redis};
use super::lag::Lag;
use super::spec::topics_plan;
use super::{ClusterSpec, Error, Kafka, Log, Observed, Producer, Reader, Service, ServiceName, Start, edge};

/// How long a service may take to be ready, on a machine that is busy with other things.
pub const READY: Duration = Duration::from_secs(60);

/// The five services on real Kafka and Redis; gone when dropped. One at a time in a test executable: two would measure
/// each other.
pub struct Cluster {
    /// Prefix of topics, groups and keys: what keeps tests on one Kafka and one Redis apart.
    prefix: String,
    brokers: String,
    services: Vec<Service>,
    codec: Codec,
    env: Vec<(&'static str, String)>,
    spec: ClusterSpec,
    directory: TempDir,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Cluster {
    /// On the Kafka that all tests of this executable share.
    pub fn start(spec: ClusterSpec) -> Result<Self, Error> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let brokers = shared_kafka()?.brokers.clone();
        Self::on(turn, spec, brokers)
    }

    /// On a Kafka of its own, which the test may take away.
    pub fn start_on(kafka: &Kafka, spec: ClusterSpec) -> Result<Self, Error> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self::on(turn, spec, kafka.brokers.clone())
    }

    fn on(turn: MutexGuard<'static, ()>, spec: ClusterSpec, brokers: String) -> Result<Self, Error> {
        let prefix = format!("t{}", edge::unique());
        let directory = tempfile::Builder::new()
            .prefix("turnwright-test-")
            .tempdir()
            .map_err(|error| Error::io("a folder for the test", &error))?;
        let config = spec.files.directory(directory.path())?;
        let mut env: Vec<(&'static str, String)> = vec![
            ("TURNWRIGHT_STORE", shared_redis()?.url.clone()),
            ("TURNWRIGHT_STORE_PREFIX", prefix.clone()),
            ("TURNWRIGHT_TOPIC_PREFIX", prefix.clone()),
            ("TURNWRIGHT_GROUP_PREFIX", prefix.clone()),
            ("TURNWRIGHT_CONFIG", config.display().to_string()),
            ("TURNWRIGHT_WIRE_PUBLIC", "json".to_owned()),
            // A killed member is to be replaced within seconds, and a busy machine must not look like a dead member.
            ("TURNWRIGHT_SESSION_TIMEOUT_MS", "3000".to_owned()),
        ];
        env.extend(spec.env.iter().cloned());
        let codec =
            Codec::new(CodecConfig { prefix: prefix.clone(), public: WireFormat::Json, ..CodecConfig::default() });
        let services = Vec::new();
        let mut cluster = Self { prefix, brokers, services, codec, env, spec, directory, _turn: turn };
        cluster.bring_up()?;
        Ok(cluster)
    }

    /// Makes the topics and starts every service.
    fn bring_up(&mut self) -> Result<(), Error> {
        self.apply_topics()?;
        for replica in 1..=self.spec.replicas {
            for name in ServiceName::ALL {
                let service = self.spawn(name, replica)?;
                self.services.push(service);
            }
        }
        self.services.iter_mut().try_for_each(|service| service.wait_ready(READY))
    }

    /// Kills every service, and starts them anew on another Kafka with the same store.
    pub fn move_to(&mut self, kafka: &Kafka) -> Result<(), Error> {
        self.services.clear();
        self.brokers.clone_from(&kafka.brokers);
        self.bring_up()
    }

    fn apply_topics(&self) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::io("topics apply", &error);
        let plan = self.directory.path().join("topics.yaml");
        std::fs::write(&plan, topics_plan(self.spec.partitions)?).map_err(failed)?;
        let output = Command::new(edge::binary()?)
            .args(["topics", "apply", "--file"])
            .arg(&plan)
            .current_dir(self.directory.path())
            .env_clear()
            .envs(edge::inherited())
            .envs(self.service_env())
            .output()
            .map_err(failed)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::failed("topics apply", String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn service_env(&self) -> Vec<(&'static str, String)> {
        let mut env = self.env.clone();
        env.push(("TURNWRIGHT_BROKERS", self.brokers.clone()));
        env
    }

    fn spawn(&self, name: ServiceName, replica: usize) -> Result<Service, Error> {
        Service::spawn(name, replica, self.directory.path(), &self.service_env())
    }

    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    /// The full name of a topic.
    pub fn topic(&self, topic: Topic) -> String {
        topic.name(&self.prefix)
    }

    pub fn producer(&self) -> Result<Producer, Error> {
        Producer::new(&self.brokers)
    }

    pub fn reader(&self, topic: Topic, start: Start) -> Result<Reader, Error> {
        Reader::open(&self.brokers, &[self.topic(topic)], start)
    }

    pub fn lag(&self) -> Result<Lag, Error> {
        Lag::new(&self.brokers, &self.prefix)
    }

    /// Every process of a service.
    pub fn services(&mut self, name: ServiceName) -> impl Iterator<Item = &mut Service> {
        self.services.iter_mut().filter(move |service| service.name == name)
    }

    /// SIGKILL to one process of a service.
    pub fn kill(&mut self, name: ServiceName) -> Result<(), Error> {
        self.services(name).try_for_each(Service::kill)
    }

    /// SIGTERM to a service, and its exit.
    pub fn terminate(&mut self, name: ServiceName, within: Duration) -> Result<Vec<ExitStatus>, Error> {
        self.services(name).try_for_each(|service| service.terminate())?;
        self.services(name).map(|service| service.wait_end(within)).collect()
    }

    /// Starts the processes of a service again, and waits until they are ready.
    pub fn restart(&mut self, name: ServiceName) -> Result<(), Error> {
        let (directory, env) = (self.directory.path().to_owned(), self.service_env());
        for service in self.services(name) {
            *service = Service::spawn(name, service.replica, &directory, &env)?;
        }
        self.services(name).try_for_each(|service| service.wait_ready(READY))
    }

    /// Reads `terminals` into `observed` until that many invocations have a final one.
    pub fn wait_finished(
        &self,
        reader: &mut Reader,
        observed: &mut Observed,
        wanted: usize,
        within: Duration,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        while observed.finished() < wanted {
            if Instant::now() >= deadline {
                let seen = format!("{} ended", observed.finished());
                return Err(Error::Late { what: format!("the end of {wanted} invocations"), within, seen });
            }
            if let Some(record) = reader.next(Duration::from_millis(100))? {
                observed.take(&self.codec, &record)?;
            }
        }
        Ok(())
    }

    /// Everything that `terminals` and `events` hold.
    pub fn read_back(&self) -> Result<(Observed, Log), Error> {
        let mut observed = Observed::default();
        for record in self.reader(Topic::Terminals, Start::Beginning)?.rest()? {
            observed.take(&self.codec, &record)?;
        }
        let mut log = Log::default();
        for record in self.reader(Topic::Events, Start::Beginning)?.rest()? {
            log.take(&self.codec, &record)?;
        }
        Ok((observed, log))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for service in &self.services {
                eprintln!("{}", service.tail());
            }
        }
    }
}
