//! `dev` in one process, on the in-memory store: for machines without a redis-server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chassis::{Shutdown, Telemetry};
use committer::CommitterConfig;
use schemas::Codec;
use store::{MemoryStore, Store};
use tokio::task::JoinSet;

use super::place::Place;
use crate::error::Error;
use crate::wiring::{Hosted, Service, read_registry, run};
use crate::{client, edge};

const READY: Duration = Duration::from_secs(30);

pub struct Services {
    tasks: JoinSet<Result<(), Error>>,
    telemetry: Telemetry,
}

pub fn start(place: &Place, shutdown: &Shutdown) -> Result<Services, Error> {
    let mut config = client::carried(&place.settings)?;
    place.broker.configure(&mut config.kafka);
    config.http.address = None;
    config.runtime.drain_timeout_ms = 5_000;
    if edge::variable("TURNWRIGHT_LOG").is_none() {
        // Lines of five services at once would bury what the command itself says.
        config.telemetry.log = "error".to_owned();
    }
    let telemetry = Telemetry::start(&config.telemetry, "dev")
        .map_err(|error| Error::setting("TURNWRIGHT_LOG", error, "see tracing's filter syntax"))?;
    let registry = read_registry(&place.config)?;
    let codec = Arc::new(Codec::new(place.settings.codec()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(place.settings.shards, Arc::new(edge::now)));
    let mut tasks = JoinSet::new();
    for service in Service::ALL {
        tasks.spawn(run(Hosted {
            service,
            config: config.clone(),
            codec: codec.clone(),
            registry: registry.clone(),
            store: service.uses_store().then(|| store.clone()),
            committer: CommitterConfig::default(),
            cluster_id: Some(place.broker.cluster_id().to_owned()),
            telemetry: telemetry.clone(),
            http_bound: None,
            shutdown: shutdown.clone(),
        }));
    }
    Ok(Services { tasks, telemetry })
}

impl Services {
    /// Returns once every service has its partitions.
    pub async fn ready(&self) -> Result<(), Error> {
        let start = Instant::now();
        while !Service::ALL.iter().all(|service| self.has_joined(*service)) {
            if start.elapsed() > READY {
                return Err(Error::failed("dev", format!("the services are not ready after {} s", READY.as_secs())));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// An assignment of partitions is counted under the service's name.
    fn has_joined(&self, service: Service) -> bool {
        let label = format!("service=\"{}\"", service.name());
        let text = self.telemetry.scrape();
        text.lines().any(|line| line.starts_with("turnwright_rebalances") && line.contains(&label))
    }

    /// Waits for all; the shutdown is set. The error is why one failed.
    pub async fn stop(mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            let ended = ended.unwrap_or_else(|error| Err(Error::failed("a service", error)));
            result = result.and(ended);
        }
        result
    }
}
