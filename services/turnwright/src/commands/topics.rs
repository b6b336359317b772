//! `topics`: makes the topics that are missing, and says where the others differ from the plan.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use schemas::Topic;
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, Found};
use crate::error::Error;
use crate::settings::Settings;
use crate::{exit, render};

/// The plan of the repository.
const EMBEDDED: &str = include_str!("../../../../infra/topics.yaml");

/// Makes and lists the topics.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  turnwright topics apply --production\n  turnwright topics list -o json")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes the topics that are missing; names what differs in the others and leaves it as it is.
    #[command(after_help = "Example:\n  turnwright topics apply --file infra/topics.yaml --production")]
    Apply {
        /// The plan; the one of the repository is built in.
        #[arg(long)]
        file: Option<PathBuf>,
        /// Three replicas and two in sync, as a cluster needs that must survive the loss of a broker.
        #[arg(long)]
        production: bool,
    },
    /// Lists the topics as they are.
    #[command(after_help = "Example:\n  turnwright topics list -o json")]
    List,
}

/// The plan as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    defaults: Shape,
    #[serde(default)]
    production: Shape,
    topics: Vec<Named>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    partitions: Option<i32>,
    replication_factor: Option<i32>,
    #[serde(default)]
    configs: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    partitions: Option<i32>,
    replication_factor: Option<i32>,
    #[serde(default)]
    configs: BTreeMap<String, String>,
}

/// One topic as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub partitions: i32,
    pub replication_factor: i32,
    pub configs: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct Outcome {
    topic: String,
    /// `made`, `as planned` or `differs`.
    status: &'static str,
    differences: Vec<String>,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    match arguments.action {
        Action::Apply { file, production } => {
            let wanted = plan(settings, file, production)?;
            apply(settings, &wanted).await
        }
        Action::List => list(settings).await,
    }
}

/// The plan for this prefix.
pub fn plan(settings: &Settings, file: Option<PathBuf>, production: bool) -> Result<Vec<Wanted>, Error> {
    let (place, text) = match file {
        None => ("the built-in plan".to_owned(), EMBEDDED.to_owned()),
        Some(path) => {
            let unreadable = |error| {
                Error::setting(
                    "--file",
                    format!("{}: {error}", path.display()),
                    "name a plan such as infra/topics.yaml",
                )
            };
            (path.display().to_string(), std::fs::read_to_string(&path).map_err(unreadable)?)
        }
    };
    let wrong = |why: String| {
        Error::setting("--file", format!("{place}: {why}"), "infra/topics.yaml of the repository shows the form")
    };
    let plan: Plan = serde_yaml_ng::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let over = if production { plan.production } else { Shape::default() };
    let base = plan.defaults;
    let topics = plan.topics.into_iter().map(|topic| {
        let known = Topic::ALL.into_iter().find(|known| known.short_name() == topic.name);
        let known = known.ok_or_else(|| wrong(format!("`{}` is no topic of Turnwright", topic.name)))?;
        let mut configs = base.configs.clone();
        configs.extend(over.configs.clone());
        configs.extend(topic.configs);
        Ok(Wanted {
            name: known.name(&settings.topic_prefix),
            partitions: topic.partitions.or(over.partitions).or(base.partitions).unwrap_or(1),
            replication_factor: topic
                .replication_factor
                .or(over.replication_factor)
                .or(base.replication_factor)
                .unwrap_or(1),
            configs,
        })
    });
    topics.collect()
}

async fn apply(settings: &Settings, wanted: &[Wanted]) -> Result<u8, Error> {
    let cluster = Cluster::open(settings).await?;
    let before = cluster.find(wanted).await?;
    let missing: Vec<&Wanted> =
        wanted.iter().filter(|topic| !before.iter().any(|found| found.name == topic.name)).collect();
    cluster.make(&missing).await?;
    let after = if missing.is_empty() { before.clone() } else { cluster.find(wanted).await? };
    let outcomes: Vec<Outcome> = wanted.iter().map(|topic| outcome(topic, &before, &after)).collect();
    let differ = outcomes.iter().filter(|outcome| outcome.status == "differs").count();
    if settings.is_json() {
        render::json(&outcomes);
        return Ok(exit::COMPLETED);
    }
    let mut table = render::table(["topic", "status", "differences"]);
    for outcome in &outcomes {
        table.add_row([&outcome.topic, outcome.status, &outcome.differences.join("; ")]);
    }
    render::print(&table);
    if differ > 0 {
        render::line(format!(
            "{differ} topics differ from the plan and were left as they are; kafka-topics.sh and kafka-configs.sh change them"
        ));
    }
    Ok(exit::COMPLETED)
}

fn outcome(wanted: &Wanted, before: &[Found], after: &[Found]) -> Outcome {
    let topic = wanted.name.clone();
    let differences = match after.iter().find(|found| found.name == wanted.name) {
        None => vec!["it is not there".to_owned()],
        Some(found) => differences(wanted, found),
    };
    let status = match (differences.is_empty(), before.iter().any(|found| found.name == wanted.name)) {
        (false, _) => "differs",
        (true, true) => "as planned",
        (true, false) => "made",
    };
    Outcome { topic, status, differences }
}

/// What differs between plan and topic, in words.
pub fn differences(wanted: &Wanted, found: &Found) -> Vec<String> {
    let differs = |name: &str, wanted: &str, found: &str| format!("{name} is {found}, planned {wanted}");
    let mut differences = Vec::new();
    if found.partitions != usize::try_from(wanted.partitions).unwrap_or(0) {
        differences.push(differs("partitions", &wanted.partitions.to_string(), &found.partitions.to_string()));
    }
    if found.replication_factor != usize::try_from(wanted.replication_factor).unwrap_or(0) {
        differences.push(differs(
            "replicas",
            &wanted.replication_factor.to_string(),
            &found.replication_factor.to_string(),
        ));
    }
    for (name, value) in &wanted.configs {
        match found.configs.as_ref().map(|configs| configs.get(name)) {
            Some(Some(is)) if is != value => differences.push(differs(name, value, is)),
            Some(Some(_)) | None => {}
            Some(None) => differences.push(differs(name, value, "not set")),
        }
    }
    differences
}

async fn list(settings: &Settings) -> Result<u8, Error> {
    let wanted = plan(settings, None, false)?;
    let found = Cluster::open(settings).await?.find(&wanted).await?;
    if settings.is_json() {
        render::json(&found);
        return Ok(exit::COMPLETED);
    }
    let mut table = render::table(["topic", "partitions", "replicas", "min in sync", "retention"]);
    for topic in &found {
        let config = |name: &str| topic.configs.as_ref().and_then(|configs| configs.get(name).cloned());
        let retention = config("retention.ms").and_then(|ms| ms.parse().ok()).map_or("–".to_owned(), render::age);
        let (partitions, replicas) = (topic.partitions.to_string(), topic.replication_factor.to_string());
        let min = config("min.insync.replicas").unwrap_or_else(|| "–".to_owned());
        table.add_row([topic.name.clone(), partitions, replicas, min, retention]);
    }
    render::print(&table);
    let missing = wanted.len() - found.len();
    if missing > 0 {
        render::line(format!("{missing} topics are missing; `turnwright topics apply` makes them"));
    }
    Ok(exit::COMPLETED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        use clap::FromArgMatches;
        let matches = crate::cli::command(None).get_matches_from(["turnwright", "env"]);
        crate::cli::Cli::from_arg_matches(&matches).unwrap().settings
    }

    #[test]
    fn the_built_in_plan_names_every_topic_once() {
        let wanted = plan(&settings(), None, false).unwrap();
        let mut names: Vec<String> = wanted.iter().map(|topic| topic.name.clone()).collect();
        let mut all: Vec<String> = Topic::ALL.iter().map(|topic| topic.name("turnwright")).collect();
        names.sort();
        all.sort();
        assert_eq!(names, all);
    }

    #[test]
    fn production_takes_the_place_of_the_defaults() {
        let wanted = plan(&settings(), None, true).unwrap();
        assert!(wanted.iter().all(|topic| topic.replication_factor == 3));
        assert!(wanted.iter().all(|topic| topic.configs["min.insync.replicas"] == "2"));
    }

    #[test]
    fn what_differs_is_named() {
        let wanted = &plan(&settings(), None, false).unwrap()[0];
        let mut found = Found { name: wanted.name.clone(), partitions: 4, replication_factor: 1, configs: None };
        assert_eq!(differences(wanted, &found), [format!("partitions is 4, planned {}", wanted.partitions)]);
        found.partitions = usize::try_from(wanted.partitions).unwrap();
        found.configs = Some(BTreeMap::from([("retention.ms".to_owned(), "1".to_owned())]));
        assert!(differences(wanted, &found).iter().any(|line| line.starts_with("retention.ms is 1")));
    }
}
