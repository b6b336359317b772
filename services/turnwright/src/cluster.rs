//! A Kafka cluster, for administration: what it is, which topics it has, and making those that are missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde::Serialize;

use crate::client::{TIMEOUT, kafka};
use crate::commands::topics::Wanted;
use crate::error::Error;
use crate::settings::Settings;

/// How long the cluster may take to make topics.
const MAKING: Duration = Duration::from_secs(30);

/// One topic as it is.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    pub name: String,
    pub partitions: usize,
    pub replication_factor: usize,
    /// Absent where the cluster does not tell.
    pub configs: Option<BTreeMap<String, String>>,
}

/// A cluster, for administration.
pub struct Cluster {
    settings: Settings,
    admin: Arc<AdminClient<DefaultClientContext>>,
    /// librdkafka's mock broker: it makes topics by itself and answers no administration.
    pub is_mock: bool,
    pub id: Option<String>,
    pub brokers: usize,
}

impl Cluster {
    /// Connects and learns what the cluster is.
    pub async fn open(settings: &Settings) -> Result<Self, Error> {
        let admin: AdminClient<DefaultClientContext> =
            kafka(settings).create().map_err(|error| settings.kafka_error(error))?;
        let admin = Arc::new(admin);
        let asking = admin.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let metadata = asking.inner().fetch_metadata(None, TIMEOUT)?;
            Ok::<_, KafkaError>((metadata.brokers().len(), asking.inner().fetch_cluster_id(TIMEOUT)))
        });
        let (brokers, id) = asked
            .await
            .map_err(|error| Error::failed("the Kafka client's thread", error))?
            .map_err(|error| settings.kafka_error(error))?;
        let is_mock = id.as_deref().is_some_and(|id| id.starts_with("mockCluster"));
        Ok(Self { settings: settings.clone(), admin, is_mock, id, brokers })
    }

    /// Those of the wanted topics that are there.
    pub async fn find(&self, wanted: &[Wanted]) -> Result<Vec<Found>, Error> {
        let admin = self.admin.clone();
        let asked = tokio::task::spawn_blocking(move || admin.inner().fetch_metadata(None, TIMEOUT));
        let metadata = asked.await.map_err(|error| Error::failed("the Kafka client's thread", error))?;
        let metadata = metadata.map_err(|error| self.settings.kafka_error(error))?;
        let mut found: Vec<Found> = Vec::new();
        for wanted in wanted {
            let there =
                metadata.topics().iter().find(|topic| topic.name() == wanted.name && !topic.partitions().is_empty());
            if let Some(topic) = there {
                let replicas = topic.partitions().iter().map(|partition| partition.replicas().len()).min();
                found.push(Found {
                    name: wanted.name.clone(),
                    partitions: topic.partitions().len(),
                    replication_factor: replicas.unwrap_or(0),
                    configs: None,
                });
            }
        }
        if !self.is_mock {
            self.read_configs(&mut found).await?;
        }
        Ok(found)
    }

    async fn read_configs(&self, found: &mut [Found]) -> Result<(), Error> {
        if found.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = found.iter().map(|topic| topic.name.clone()).collect();
        let asked: Vec<ResourceSpecifier<'_>> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
        let answers =
            self.admin.describe_configs(&asked, &options).await.map_err(|error| self.settings.kafka_error(error))?;
        for (topic, answer) in found.iter_mut().zip(answers) {
            // Without the right to read settings, everything else still works.
            let Ok(resource) = answer else { continue };
            let values = resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?)));
            topic.configs = Some(values.collect());
        }
        Ok(())
    }

    /// Makes these topics. One that somebody else made meanwhile is as good.
    pub async fn make(&self, missing: &[&Wanted]) -> Result<(), Error> {
        if missing.is_empty() {
            return Ok(());
        }
        if self.is_mock {
            return self.touch(missing).await;
        }
        let topics: Vec<NewTopic<'_>> = missing
            .iter()
            .map(|topic| {
                let fresh =
                    NewTopic::new(&topic.name, topic.partitions, TopicReplication::Fixed(topic.replication_factor));
                topic.configs.iter().fold(fresh, |fresh, (name, value)| fresh.set(name, value))
            })
            .collect();
        let options = AdminOptions::new().operation_timeout(Some(MAKING)).request_timeout(Some(MAKING));
        let made =
            self.admin.create_topics(&topics, &options).await.map_err(|error| self.settings.kafka_error(error))?;
        let refused: Vec<String> = made
            .into_iter()
            .filter_map(|result| result.err())
            .filter(|(_, code)| *code != RDKafkaErrorCode::TopicAlreadyExists)
            .map(|(topic, code)| format!("{topic}: {code}"))
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        Err(self.settings.kafka_error(format!("these topics were not made: {}", refused.join("; "))))
    }

    /// The mock broker makes a topic as soon as somebody asks for it.
    async fn touch(&self, missing: &[&Wanted]) -> Result<(), Error> {
        let names: Vec<String> = missing.iter().map(|topic| topic.name.clone()).collect();
        let admin = self.admin.clone();
        let asked = tokio::task::spawn_blocking(move || {
            names.iter().try_for_each(|name| admin.inner().fetch_metadata(Some(name), TIMEOUT).map(drop))
        });
        asked
            .await
            .map_err(|error| Error::failed("the Kafka client's thread", error))?
            .map_err(|error| self.settings.kafka_error(error))
    }
}
