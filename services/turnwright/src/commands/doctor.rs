//! `doctor`: looks at everything a service needs, and says what to do about what is missing.

use std::path::Path;
use std::sync::Arc;

use chassis::RealClock;
use clap::Args;
use decision::ScriptedProvider;
use schemas::{Codec, Topic};
use serde::Serialize;
use store::{RedisStore, Store};
use validation::policy::Policy;
use validation::{DecisionLimits, Judge};

use crate::client::{self, kafka};
use crate::cluster::{Cluster, Found};
use crate::commands::topics;
use crate::error::Error;
use crate::settings::{DurabilityMode, MEMORY_STORE, Settings, redacted};
use crate::{exit, render};

/// Looks at Kafka, topics, store, schemas, client and files. Exits 1 if anything would keep a service from its work.
///
/// On a store that was never used it records the shard count, as the first service would.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright doctor --brokers kafka:9092 --store redis://redis:6379 --config /etc/turnwright"
)]
pub struct Arguments {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Level {
    Ok,
    Warn,
    Fail,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

/// One finding: what was looked at, what was seen, what to do.
#[derive(Debug, Serialize)]
struct Check {
    level: Level,
    what: String,
    seen: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    fix: String,
}

fn ok(what: &str, seen: impl Into<String>) -> Check {
    Check { level: Level::Ok, what: what.to_owned(), seen: seen.into(), fix: String::new() }
}

fn warn(what: &str, seen: impl Into<String>, fix: impl Into<String>) -> Check {
    Check { level: Level::Warn, what: what.to_owned(), seen: seen.into(), fix: fix.into() }
}

fn fail(what: &str, seen: impl Into<String>, fix: impl Into<String>) -> Check {
    Check { level: Level::Fail, what: what.to_owned(), seen: seen.into(), fix: fix.into() }
}

pub async fn run(settings: &Settings, _: Arguments) -> Result<u8, Error> {
    let (broker, store, schemas) = tokio::join!(of_kafka(settings), of_store(settings), of_schemas(settings));
    let mut checks = broker;
    checks.extend(store);
    checks.extend(schemas);
    checks.extend(of_client(settings));
    checks.extend(of_files(&settings.config_directory()));
    match settings.is_json() {
        true => render::json(&checks),
        false => {
            let mut table = render::table(["", "what", "seen", "what to do"]);
            for check in &checks {
                table.add_row([check.level.as_str(), &check.what, &check.seen, &check.fix]);
            }
            render::print(&table);
        }
    }
    let failed = checks.iter().any(|check| check.level == Level::Fail);
    Ok(if failed { exit::OTHER } else { exit::COMPLETED })
}

async fn of_kafka(settings: &Settings) -> Vec<Check> {
    let what = format!("kafka {}", settings.brokers);
    let cluster = match Cluster::open(settings).await {
        Ok(cluster) => cluster,
        Err(error) => {
            let fix = "start it, or correct --brokers (TURNWRIGHT_BROKERS) and its --kafka-property for TLS and SASL";
            return vec![fail(&what, error.to_string(), fix)];
        }
    };
    let id = cluster.id.clone().unwrap_or_else(|| "no cluster ID".to_owned());
    let seen = format!("cluster {id}, {} brokers", cluster.brokers);
    let mut checks = vec![match cluster.is_mock {
        true => warn(
            &what,
            format!("{seen}: librdkafka's mock cluster"),
            "volatile, 5 MiB per partition: for development only",
        ),
        false => ok(&what, seen),
    }];
    let planned = match topics::plan(settings, None, false) {
        Ok(planned) => planned,
        Err(error) => return vec![fail("topics", error.to_string(), "")],
    };
    match cluster.find(&planned).await {
        Err(error) => {
            checks.push(fail("topics", error.to_string(), "the client needs DESCRIBE on topics and their settings"))
        }
        Ok(found) => checks.extend(planned.iter().map(|topic| of_topic(&cluster, topic, &found))),
    }
    checks
}

fn of_topic(cluster: &Cluster, wanted: &topics::Wanted, found: &[Found]) -> Check {
    let Some(topic) = found.iter().find(|topic| topic.name == wanted.name) else {
        return fail(&wanted.name, "it does not exist", "turnwright topics apply");
    };
    let config = |name: &str| topic.configs.as_ref().and_then(|configs| configs.get(name)).map(String::as_str);
    let min_in_sync = config("min.insync.replicas");
    let at_least = min_in_sync.map(|min| format!(", {min} in sync at least")).unwrap_or_default();
    let seen = format!("{} partitions, {} replicas{at_least}", topic.partitions, topic.replication_factor);
    if config("cleanup.policy").is_some_and(|policy| policy.contains("compact")) {
        return fail(
            &wanted.name,
            format!("{seen}; compacted"),
            "set cleanup.policy to delete: every record is a fact of its own",
        );
    }
    if cluster.is_mock {
        return ok(&wanted.name, seen);
    }
    if topic.partitions < usize::try_from(wanted.partitions).unwrap_or(0) {
        let fix = format!("{} are planned; fewer bound how many processes share the work", wanted.partitions);
        return warn(&wanted.name, seen, fix);
    }
    if topic.replication_factor < 3 || min_in_sync == Some("1") {
        let fix = "in production: three replicas and min.insync.replicas 2 (turnwright topics apply --production)";
        return warn(&wanted.name, seen, fix);
    }
    ok(&wanted.name, seen)
}

async fn of_store(settings: &Settings) -> Vec<Check> {
    let what = format!("store {}", redacted(&settings.store));
    if settings.store == MEMORY_STORE {
        return vec![warn(
            &what,
            "in the memory of `turnwright dev`",
            "install redis-server: nothing survives the exit of that process",
        )];
    }
    let opened = tokio::time::timeout(client::TIMEOUT, RedisStore::open(&settings.redis())).await;
    let store = match opened {
        Ok(Ok(store)) => store,
        Ok(Err(error)) => {
            return vec![fail(&what, error.to_string(), "start it, or correct --store (TURNWRIGHT_STORE)")];
        }
        Err(_) => return vec![fail(&what, "no answer", "start it, or correct --store (TURNWRIGHT_STORE)")],
    };
    match tokio::time::timeout(client::TIMEOUT, store.check(settings.durability.into())).await {
        Err(_) => vec![fail(&what, "no answer", "look at its log")],
        Ok(Err(error)) => {
            vec![fail(&what, error.to_string(), "mend the named settings, in its configuration file as well")]
        }
        Ok(Ok(())) => vec![of_durability(&what, settings)],
    }
}

fn of_durability(what: &str, settings: &Settings) -> Check {
    let shards = format!("{} shards", settings.shards);
    match settings.durability {
        DurabilityMode::Strict => ok(what, format!("keeps what it acknowledges; {shards}")),
        DurabilityMode::Attested => {
            let fix = "you vouch for appendonly yes, appendfsync always and maxmemory-policy noeviction";
            warn(what, format!("durability is attested, not checked; {shards}"), fix)
        }
        DurabilityMode::Relaxed => {
            warn(what, format!("durability is not checked; {shards}"), "for tests only: use --durability strict")
        }
    }
}

async fn of_schemas(settings: &Settings) -> Vec<Check> {
    let unread: Vec<&str> = Topic::ALL
        .into_iter()
        .filter(|topic| serde_json::from_str::<serde_json::Value>(topic.schema_text()).is_err())
        .map(Topic::short_name)
        .collect();
    let mut checks = vec![match unread.is_empty() {
        true => ok("schemas", format!("{} built in", Topic::ALL.len())),
        false => {
            fail("schemas", format!("not readable: {}", unread.join(", ")), "this build is broken; use another one")
        }
    }];
    if let Some(url) = &settings.schema_registry {
        let what = format!("schema registry {}", redacted(url));
        let codec = Codec::new(settings.codec());
        checks.push(match tokio::time::timeout(client::TIMEOUT, codec.connect_registry(false)).await {
            Ok(Ok(())) => ok(&what, "knows every schema of this build"),
            Ok(Err(error)) => {
                fail(&what, error.to_string(), "register the files of schemas/avro, or correct the address")
            }
            Err(_) => fail(&what, "no answer", "start it, or correct --schema-registry (TURNWRIGHT_SCHEMA_REGISTRY)"),
        });
    }
    checks
}

/// What librdkafka was built with.
fn of_client(settings: &Settings) -> Vec<Check> {
    let (_, version) = rdkafka::util::get_rdkafka_version();
    let what = format!("librdkafka {version}");
    let features = kafka(settings).create_native_config().and_then(|native| native.get("builtin.features"));
    let features = match features {
        Ok(features) => features,
        Err(error) => {
            return vec![fail(&what, error.to_string(), "correct --kafka-property (TURNWRIGHT_KAFKA_PROPERTIES)")];
        }
    };
    let wanted = ["ssl", "sasl_scram", "sasl_oauthbearer", "oidc", "zstd", "lz4", "gzip"];
    let has = |feature: &&str| features.split(',').any(|built| built == *feature);
    let missing: Vec<&str> = wanted.iter().copied().filter(|feature| !has(feature)).collect();
    match missing.is_empty() {
        true => vec![ok(&what, features)],
        false => vec![warn(
            &what,
            format!("without {}", missing.join(", ")),
            "build with the workspace's features of rdkafka",
        )],
    }
}

fn of_files(directory: &Path) -> Vec<Check> {
    let what = format!("files in {}", directory.display());
    let all = |problems: &[String]| {
        let fix = "correct this key; `turnwright init DIR` writes a commented set of files";
        problems.iter().map(|problem| fail(&what, problem.clone(), fix)).collect::<Vec<_>>()
    };
    if !directory.join("agents.yaml").exists() {
        let fix = "name the directory with --config (TURNWRIGHT_CONFIG), or write one with `turnwright init DIR`";
        return vec![warn(&what, "there is no agents.yaml", fix)];
    }
    let registry = match chassis::registry::Registry::read(directory) {
        Ok(registry) => registry,
        Err(problems) => return all(&problems.0),
    };
    let mut problems = Vec::new();
    if let Err(found) = ScriptedProvider::read(&registry, Arc::new(RealClock::new())) {
        problems.extend(found.0);
    }
    let judged = Policy::read(directory)
        .map_err(|found| found.0)
        .and_then(|policy| Judge::new(&registry, Arc::new(policy), DecisionLimits::default()).map_err(|found| found.0));
    problems.extend(judged.err().into_iter().flatten());
    if problems.is_empty() {
        let (agents, tools) = (registry.agents.agents.len(), registry.tools.tools.len());
        return vec![ok(&what, format!("{agents} agents, {tools} tools"))];
    }
    all(&problems)
}
