//! Where one `dev` is: its broker, its directories, the settings that lead there, and the dev.json that tells others.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chassis::MockBroker;
use chassis::registry::Registry;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer as _};
use schemas::Topic;

use super::Options;
use crate::client::TIMEOUT;
use crate::commands::init;
use crate::edge;
use crate::error::Error;
use crate::settings::{DEV_DIRECTORY, Dev, DevFile, MEMORY_STORE, Settings};
use crate::wiring::read_registry;

pub struct Place {
    pub broker: MockBroker,
    /// Logs and the store's data.
    pub data: PathBuf,
    /// The operator's files.
    pub config: PathBuf,
    /// This cluster's settings, for commands that run inside `dev`.
    pub settings: Settings,
    /// Port of the store, where it is a process.
    pub redis_port: Option<u16>,
    dev: Dev,
    /// The data go with the process.
    temporary: bool,
}

impl Place {
    pub fn make(settings: &Settings, options: &Options, memory: bool) -> Result<Self, Error> {
        let here = std::env::current_dir().map_err(|error| Error::failed("the current directory", error))?;
        let home = here.join(DEV_DIRECTORY);
        let temporary = options.demo && options.data.is_none();
        let data = match &options.data {
            Some(data) => absolute(&here, data),
            None if temporary => std::env::temp_dir().join(edge::unique_name("turnwright-demo")),
            None => home.join("dev"),
        };
        let dev_path = home.join("dev.json");
        if !options.demo {
            refuse_second(&dev_path)?;
            make_directory(&home)?;
        }
        make_directory(&data.join("logs"))?;
        let config = config_directory(settings, options, &here, &data)?;
        let registry = read_registry(&config)?;
        let broker = MockBroker::start(&[]).map_err(|error| Error::failed("the mock broker", error))?;
        make_topics(&broker, &topics(&registry, &settings.topic_prefix))
            .map_err(|error| Error::failed("the topics of the mock broker", error))?;
        let redis_port = if memory { None } else { Some(free_port()?) };
        let store = redis_port.map_or(MEMORY_STORE.to_owned(), |port| format!("redis://127.0.0.1:{port}"));
        let brokers = broker.bootstrap_servers().to_owned();
        let file = DevFile {
            brokers: brokers.clone(),
            store: store.clone(),
            kind: "dev".to_owned(),
            config: config.display().to_string(),
            public_wire: "json".to_owned(),
        };
        let settings = Settings {
            brokers,
            store,
            // What was set for another cluster would keep the clients from this one.
            properties: Vec::new(),
            schema_registry: None,
            wire_public: crate::settings::Wire::Json,
            config: Some(config.clone()),
            dev: None,
            ..settings.clone()
        };
        Ok(Self { broker, data, config, settings, redis_port, dev: Dev { path: dev_path, file }, temporary })
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.data.join("logs").join(format!("{name}.log"))
    }

    /// Tells every other command where this cluster is.
    pub fn announce(&self) -> Result<(), Error> {
        self.dev.write()
    }

    /// Takes back what only this process can answer for.
    pub fn leave(&self) {
        let ours = || Some(std::fs::read_to_string(&self.dev.path).ok()?.contains(&self.dev.file.brokers));
        if ours() == Some(true) {
            // Another command may look at it right now; a file that is gone is what was wanted.
            let _ = std::fs::remove_file(&self.dev.path);
        }
        if self.temporary {
            let _ = std::fs::remove_dir_all(&self.data);
        }
    }

    pub fn banner(&self) -> String {
        let store = match self.redis_port {
            Some(port) => format!("redis://127.0.0.1:{port}, data in {}", self.data.join("redis").display()),
            None => "in memory: nothing survives the exit of this process".to_owned(),
        };
        let logs = match self.redis_port {
            Some(_) => format!("\n  logs     {}", self.data.join("logs").display()),
            None => String::new(),
        };
        format!(
            "Turnwright runs.\n  broker   {} (mock: volatile, keeps 5 MiB per partition, then drops the oldest)\n  store    {store}\n  \
             config   {}{logs}\n\n  ask      turnwright invoke --agent refund-desk --tenant demo --goal '…' --wait\n  \
             follow   turnwright watch\n  stop     Ctrl-C",
            self.dev.file.brokers,
            self.config.display()
        )
    }
}

/// One `dev` per directory: a second one would hide the first from every other command.
fn refuse_second(path: &Path) -> Result<(), Error> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
    let Ok(file) = serde_json::from_str::<DevFile>(&text) else { return Ok(()) };
    let first = file.brokers.split(',').next().and_then(|address| address.parse::<SocketAddr>().ok());
    let answers = first.is_some_and(|address| TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok());
    if answers {
        let why = format!("a cluster runs at {} already", file.brokers);
        return Err(Error::setting(
            path.display().to_string(),
            why,
            "use it, stop it (Ctrl-C, `make down`), or work in another directory",
        ));
    }
    Ok(())
}

/// The files that were named; else those of the demo.
fn config_directory(settings: &Settings, options: &Options, here: &Path, data: &Path) -> Result<PathBuf, Error> {
    if let Some(config) = &settings.config {
        return Ok(absolute(here, config));
    }
    if !options.demo && here.join("agents.yaml").is_file() {
        return Ok(here.to_owned());
    }
    let config = data.join("config");
    init::write(&config, true)?;
    Ok(config)
}

fn absolute(here: &Path, path: &Path) -> PathBuf {
    here.join(path)
}

fn make_directory(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(|error| Error::failed(path.display().to_string(), error))
}

/// Every topic, and those that ingress.yaml names beside them.
fn topics(registry: &Registry, prefix: &str) -> Vec<String> {
    let standard = Topic::ALL.into_iter().map(|topic| topic.name(prefix));
    let mut names: Vec<String> =
        standard.chain(registry.ingress.ingress.iter().map(|entry| entry.topic_name(prefix))).collect();
    names.sort();
    names.dedup();
    names
}

/// Makes the topics by asking for them, with the broker's four partitions each: a hundred times faster than its own call,
/// which waits for its idle thread once a topic.
fn make_topics(broker: &MockBroker, names: &[String]) -> Result<(), KafkaError> {
    let client: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap_servers())
        .set_log_level(RDKafkaLogLevel::Emerg)
        .create()?;
    names.iter().try_for_each(|name| client.client().fetch_metadata(Some(name), TIMEOUT).map(drop))
}

/// A port that is free now. Whoever takes it first keeps it: the taker reports if that was somebody else.
fn free_port() -> Result<u16, Error> {
    let port = || Ok::<_, std::io::Error>(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port());
    port().map_err(|error| Error::failed("a free port", error))
}
