//! Runs one service on what was opened for it, until its shutdown is set.

use std::net::SocketAddr;
use std::sync::Arc;

use chassis::registry::Registry;
use chassis::{Config, DeadLetters, KafkaBus, KafkaLog, ReadyCheck, ServiceSpec, Shutdown, Telemetry, run_service};
use committer::{ClusterWatch, CommitterConfig};
use futures::FutureExt;
use schemas::{Codec, Topic};
use store::Store;
use tokio::sync::oneshot;

use super::{Parts, Service, build};
use crate::edge;
use crate::error::Error;

/// A service and everything around it.
pub struct Hosted {
    pub service: Service,
    pub config: Config,
    pub codec: Arc<Codec>,
    pub registry: Arc<Registry>,
    /// There for every service that uses one.
    pub store: Option<Arc<dyn Store>>,
    pub committer: CommitterConfig,
    /// There for every service that must know its Kafka cluster.
    pub cluster_id: Option<String>,
    pub telemetry: Telemetry,
    pub http_bound: Option<oneshot::Sender<SocketAddr>>,
    pub shutdown: Shutdown,
}

pub async fn run(hosted: Hosted) -> Result<(), Error> {
    let Hosted { service, config, codec, registry, store, committer, cluster_id, telemetry, http_bound, shutdown } =
        hosted;
    let name = service.name();
    let failed = |error: chassis::Error| Error::failed(format!("the {name} service"), error);
    let metrics = telemetry.metrics(name);
    let bus = KafkaBus::new(&config.kafka, name, config.runtime.retry_policy(), metrics.clone()).map_err(failed)?;
    let bus = Arc::new(bus);
    let log = Arc::new(KafkaLog::new(&config.kafka, name, codec.topic_name(Topic::Events)));
    let owner = edge::unique_name(&config.kafka.pod);
    let parts = Parts {
        codec: codec.clone(),
        registry,
        store: store.clone(),
        bus: bus.clone(),
        metrics,
        committer,
        log,
        owner,
        cluster_id,
    };
    let built = build(service, &parts)?;
    let spec = ServiceSpec {
        name: name.to_owned(),
        topics: built.topics,
        handler: built.handler,
        periodics: built.periodics,
        dead_letters: dead_letters(codec),
        config,
        telemetry,
        ready_check: Some(ready_check(store, built.cluster)),
        http_bound,
        bus: Some(bus),
        shutdown,
    };
    run_service(spec).await.map_err(failed)
}

fn dead_letters(codec: Arc<Codec>) -> DeadLetters {
    Arc::new(move |record, rejection, tries, service| codec.dead_letter(record, rejection, tries, service))
}

fn ready_check(store: Option<Arc<dyn Store>>, cluster: Option<Arc<ClusterWatch>>) -> ReadyCheck {
    Arc::new(move || {
        let (store, cluster) = (store.clone(), cluster.clone());
        async move {
            if let Some(store) = store {
                store.now().await.map_err(|error| error.to_string())?;
            }
            match cluster {
                Some(cluster) if !cluster.is_settled() => {
                    Err("what the store knows is being published to this Kafka cluster".to_owned())
                }
                Some(_) | None => Ok(()),
            }
        }
        .boxed()
    })
}
