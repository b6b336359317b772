//! Where the cluster is: one set of settings for every command. A flag wins over the environment, the environment over
//! `.turnwright/dev.json`, and that over the default.

use std::path::{Path, PathBuf};

use chassis::Property;
use clap::{Args, ValueEnum};
use schemas::{CodecConfig, DEFAULT_PREFIX, WireFormat};
use serde::{Deserialize, Serialize};
use store::{Durability, RedisConfig};

use crate::error::Error;

/// How a command prints what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs: standard output holds nothing but JSON.
    Json,
}

/// The format of what callers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    Json,
    Avro,
}

/// What may be taken for granted of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DurabilityMode {
    /// Its settings are read and must be right.
    Strict,
    /// Its settings cannot be read; you vouch for them.
    Attested,
    /// Not checked: tests only.
    Relaxed,
}

impl From<DurabilityMode> for Durability {
    fn from(mode: DurabilityMode) -> Self {
        match mode {
            DurabilityMode::Strict => Self::Strict,
            DurabilityMode::Attested => Self::Attested,
            DurabilityMode::Relaxed => Self::Relaxed,
        }
    }
}

/// Settings that every command shares.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct Settings {
    /// How results are printed.
    #[arg(short, long, global = true, env = "TURNWRIGHT_OUTPUT", value_enum, default_value = "table")]
    pub output: Output,

    /// Bootstrap servers of Kafka, comma separated.
    #[arg(long, global = true, env = "TURNWRIGHT_BROKERS", default_value = "127.0.0.1:9092")]
    pub brokers: String,

    /// Prefix of every topic name.
    #[arg(long, visible_alias = "prefix", global = true, env = "TURNWRIGHT_TOPIC_PREFIX", default_value = DEFAULT_PREFIX)]
    pub topic_prefix: String,

    /// librdkafka properties for every client, comma separated name=value.
    #[arg(
        long = "kafka-property",
        global = true,
        env = "TURNWRIGHT_KAFKA_PROPERTIES",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub properties: Vec<Property>,

    /// The store: redis://, rediss://, redis+cluster:// or rediss+cluster://.
    #[arg(long, global = true, env = "TURNWRIGHT_STORE", default_value = DEFAULT_STORE, hide_env_values = true)]
    pub store: String,

    /// First part of every key in the store.
    #[arg(long, global = true, env = "TURNWRIGHT_STORE_PREFIX", default_value = "turnwright")]
    pub store_prefix: String,

    /// The store's shard count; fixed for the life of its data.
    #[arg(long, global = true, env = "TURNWRIGHT_SHARDS", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub shards: u16,

    /// What may be taken for granted of the store.
    #[arg(long, global = true, env = "TURNWRIGHT_DURABILITY", value_enum, default_value = "strict")]
    pub durability: DurabilityMode,

    /// Format of terminals, events and dead letters.
    #[arg(long, global = true, env = "TURNWRIGHT_WIRE_PUBLIC", value_enum, default_value = "json")]
    pub wire_public: Wire,

    /// A Confluent-compatible schema registry; Avro is then framed with its IDs.
    #[arg(long, global = true, env = "TURNWRIGHT_SCHEMA_REGISTRY", hide_env_values = true)]
    pub schema_registry: Option<String>,

    /// Directory of agents.yaml, tools.yaml, ingress.yaml and scenarios [default: that of dev.json, else .]
    #[arg(long, global = true, env = "TURNWRIGHT_CONFIG", value_name = "DIR")]
    pub config: Option<PathBuf>,

    /// The dev.json that was found, if any.
    #[arg(skip)]
    pub dev: Option<Dev>,
}

pub const DEFAULT_STORE: &str = "redis://127.0.0.1:6379";
/// Stands in dev.json where a store is that only one process can see.
pub const MEMORY_STORE: &str = "memory:";

impl Settings {
    pub fn is_json(&self) -> bool {
        self.output == Output::Json
    }

    /// Where the operator's files are.
    pub fn config_directory(&self) -> PathBuf {
        let of_dev = || self.dev.as_ref().map(|dev| PathBuf::from(&dev.file.config));
        self.config.clone().or_else(of_dev).unwrap_or_else(|| PathBuf::from("."))
    }

    pub fn redis(&self) -> RedisConfig {
        RedisConfig { prefix: self.store_prefix.clone(), shards: self.shards, ..RedisConfig::new(&self.store) }
    }

    pub fn codec(&self) -> CodecConfig {
        let public = match self.wire_public {
            Wire::Json => WireFormat::Json,
            Wire::Avro => WireFormat::Avro,
        };
        CodecConfig {
            prefix: self.topic_prefix.clone(),
            public,
            registry: self.schema_registry.clone(),
            ..CodecConfig::default()
        }
    }

    /// Kafka did not do what was asked of it.
    pub fn kafka_error(&self, why: impl std::fmt::Display) -> Error {
        let fix = match &self.dev {
            Some(dev) if dev.file.brokers == self.brokers => format!(
                "{} names this address; is `turnwright dev` or `make up` still running? If not, remove that file",
                dev.path.display()
            ),
            _ => "start one with `turnwright dev`, or name yours with --brokers or TURNWRIGHT_BROKERS; \
                  `turnwright doctor` looks closer"
                .to_owned(),
        };
        Error::Kafka { brokers: self.brokers.clone(), why: why.to_string(), fix }
    }

    /// The store did not do what was asked of it.
    pub fn store_error(&self, why: impl std::fmt::Display) -> Error {
        let fix = "name yours with --store or TURNWRIGHT_STORE; `turnwright doctor` looks closer".to_owned();
        Error::Store { store: redacted(&self.store), why: why.to_string(), fix }
    }
}

/// The URL without what may be a password.
pub fn redacted(url: &str) -> String {
    let one = |url: &str| {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        match rest.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}://***@{host}"),
            None => url.to_owned(),
        }
    };
    url.split(',').map(one).collect::<Vec<_>>().join(",")
}

/// What `turnwright dev` and `make up` say about the cluster they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevFile {
    pub brokers: String,
    pub store: String,
    /// `dev` or `local`.
    pub kind: String,
    pub config: String,
    pub public_wire: String,
}

/// A dev.json and where it is.
#[derive(Debug, Clone)]
pub struct Dev {
    pub path: PathBuf,
    pub file: DevFile,
}

/// The directory that holds dev.json and the data of `dev`.
pub const DEV_DIRECTORY: &str = ".turnwright";

impl Dev {
    /// The nearest `.turnwright/dev.json`, from `start` upwards.
    pub fn find(start: &Path) -> Result<Option<Self>, Error> {
        let candidates = start.ancestors().map(|directory| directory.join(DEV_DIRECTORY).join("dev.json"));
        let Some(path) = candidates.into_iter().find(|path| path.is_file()) else {
            return Ok(None);
        };
        let unusable = |why: &dyn std::fmt::Display| {
            Error::setting(
                path.display().to_string(),
                why,
                "remove this file; `turnwright dev` and `make up` write it anew",
            )
        };
        let text = std::fs::read_to_string(&path).map_err(|error| unusable(&error))?;
        let file = serde_json::from_str(&text).map_err(|error| unusable(&error))?;
        Ok(Some(Self { path, file }))
    }

    /// Writes the file whole or not at all: a reader never sees half of it.
    pub fn write(&self) -> Result<(), Error> {
        let part = self.path.with_extension("json.part");
        let text = serde_json::to_string(&self.file).map_err(|error| Error::failed("dev.json", error))?;
        std::fs::write(&part, text + "\n")
            .and_then(|()| std::fs::rename(&part, &self.path))
            .map_err(|error| Error::failed(self.path.display().to_string(), error))
    }
}

/// Puts what dev.json says in the place of the defaults, so that `--help` shows it too.
pub fn with_defaults(command: clap::Command, file: &DevFile) -> clap::Command {
    // Clap keeps defaults for the life of the process, and there is one set of them.
    let fixed = |text: &str| -> &'static str { text.to_owned().leak() };
    let (brokers, store) = (fixed(&file.brokers), fixed(&file.store));
    let wire = if file.public_wire == "avro" { "avro" } else { "json" };
    command
        .mut_arg("brokers", |arg| arg.default_value(brokers))
        .mut_arg("store", |arg| arg.default_value(store))
        .mut_arg("wire_public", |arg| arg.default_value(wire))
        .mut_subcommand("serve", |serve| serve.mut_arg("brokers", |arg| arg.default_value(brokers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_dev_file_is_found_from_a_directory_below() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir(root.path().join(DEV_DIRECTORY)).unwrap();
        let file = DevFile {
            brokers: "h:1".into(),
            store: "redis://h:2".into(),
            kind: "dev".into(),
            config: "/c".into(),
            public_wire: "json".into(),
        };
        let dev = Dev { path: root.path().join(DEV_DIRECTORY).join("dev.json"), file };
        dev.write().unwrap();
        assert_eq!(Dev::find(&below).unwrap().unwrap().file, dev.file);
    }

    #[test]
    fn a_password_is_never_printed() {
        assert_eq!(redacted("rediss://u:canary@a:1,redis://b:2"), "rediss://***@a:1,redis://b:2");
    }
}
