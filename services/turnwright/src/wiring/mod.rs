//! How the five services are put together: one table, for one process each and for all in one.

mod open;
mod run;
mod stats;

use std::sync::Arc;

use chassis::registry::Registry;
use chassis::{Bus, Clock, Handler, Metrics, Periodic, RealClock, TopicLog};
use clap::ValueEnum;
use committer::{
    ClusterWatch, CommitterConfig, CommitterHandler, Expiry, Flush, Leases, OutboxEncoder, Rebuilder, Rebuilds,
    Sweeper, Timers,
};
use decision::{DecisionHandler, ScriptedProvider};
use reconciler::{HttpOwner, ReconcilerHandler};
use schemas::{Codec, Topic};
use store::{Decider, Store};
use tool_executor::{ExecutorHandler, RegistryTransport};
use validation::ValidationHandler;
use validation::policy::Policy;

use crate::error::Error;

pub use open::{FILES_FIX, connect_registry, open_store, read_registry, wait_for_cluster};
pub use run::{Hosted, run};

/// The services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Service {
    /// Folds every input of an invocation into committed events and relays the outbox.
    Committer,
    /// Asks the model once per turn.
    Decision,
    /// Judges untrusted decisions.
    Validation,
    /// Claims, calls tools, reports one result per call.
    ToolExecutor,
    /// Asks owning services about effects of unknown outcome.
    Reconciler,
}

impl Service {
    pub const ALL: [Service; 5] =
        [Self::Committer, Self::Decision, Self::Validation, Self::ToolExecutor, Self::Reconciler];

    pub fn name(self) -> &'static str {
        match self {
            Self::Committer => "committer",
            Self::Decision => "decision",
            Self::Validation => "validation",
            Self::ToolExecutor => "tool-executor",
            Self::Reconciler => "reconciler",
        }
    }

    /// Whether it touches state.
    pub fn uses_store(self) -> bool {
        match self {
            Self::Committer | Self::Decision | Self::ToolExecutor => true,
            Self::Validation | Self::Reconciler => false,
        }
    }

    /// Whether it must know which Kafka cluster it is on.
    pub fn needs_cluster_id(self) -> bool {
        self == Self::Committer
    }
}

/// What services are made of.
#[derive(Clone)]
pub struct Parts {
    pub codec: Arc<Codec>,
    pub registry: Arc<Registry>,
    /// There for every service that [`Service::uses_store`].
    pub store: Option<Arc<dyn Store>>,
    pub bus: Arc<dyn Bus>,
    pub metrics: Metrics,
    pub committer: CommitterConfig,
    /// The `events` topic.
    pub log: Arc<dyn TopicLog>,
    /// Unique among running processes.
    pub owner: String,
    /// There for every service that [`Service::needs_cluster_id`].
    pub cluster_id: Option<String>,
}

impl Parts {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().expect("a service that uses the store is given one")
    }

    fn decider(&self) -> Decider {
        Decider::new(self.store(), Arc::new(OutboxEncoder { codec: self.codec.clone() }))
    }
}

/// A service, put together.
pub struct Built {
    pub handler: Arc<dyn Handler>,
    /// Full names of what it consumes.
    pub topics: Vec<String>,
    pub periodics: Vec<Arc<dyn Periodic>>,
    /// The committer is not ready before the store knows this Kafka cluster.
    pub cluster: Option<Arc<ClusterWatch>>,
}

impl Built {
    fn new(handler: impl Handler, topic: Topic, parts: &Parts) -> Self {
        let topics = vec![parts.codec.topic_name(topic)];
        Self { handler: Arc::new(handler), topics, periodics: Vec::new(), cluster: None }
    }
}

/// Puts a service together. The error names the setting at fault.
pub fn build(service: Service, parts: &Parts) -> Result<Built, Error> {
    let (codec, registry, metrics) = (parts.codec.clone(), parts.registry.clone(), parts.metrics.clone());
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let of_files =
        |problems: &dyn std::fmt::Display| Error::setting("--config (TURNWRIGHT_CONFIG)", problems, FILES_FIX);
    let mut built = match service {
        Service::Committer => committer(parts, clock),
        Service::Decision => {
            let provider = ScriptedProvider::read(&registry, clock.clone()).map_err(|problems| of_files(&problems))?;
            let handler = DecisionHandler::new(parts.store(), codec, registry, Arc::new(provider), clock, metrics);
            Built::new(handler, Topic::Turns, parts)
        }
        Service::Validation => {
            let directory = registry.directory.clone();
            let policy = Policy::read(&directory).map_err(|problems| of_files(&problems))?;
            let handler = ValidationHandler::new(codec, &registry, Arc::new(policy), metrics);
            let handler = handler.map_err(|problems| of_files(&problems))?;
            let reload = Arc::new(handler.reload(directory));
            let mut built = Built::new(handler, Topic::Decisions, parts);
            built.periodics.push(reload);
            built
        }
        Service::ToolExecutor => {
            let transport =
                RegistryTransport::new(clock.clone()).map_err(|error| Error::failed("the HTTP client", error))?;
            let bus = parts.bus.clone();
            let handler =
                ExecutorHandler::new(parts.decider(), codec, registry, Arc::new(transport), bus, clock, metrics);
            Built::new(handler, Topic::Dispatches, parts)
        }
        Service::Reconciler => {
            let owner = HttpOwner::new().map_err(|error| Error::failed("the HTTP client", error))?;
            let handler = ReconcilerHandler::new(codec, registry, Arc::new(owner), clock, metrics);
            Built::new(handler, Topic::OutcomeUnknown, parts)
        }
    };
    if let Some(store) = &parts.store {
        built.periodics.push(Arc::new(stats::StoreStats { store: store.clone(), metrics: parts.metrics.clone() }));
    }
    Ok(built)
}

fn committer(parts: &Parts, clock: Arc<dyn Clock>) -> Built {
    let (store, config, metrics) = (parts.store(), parts.committer, parts.metrics.clone());
    let decider = committer::remembering(parts.decider(), clock.clone());
    let leases = Arc::new(Leases::new(store.clone(), clock.clone(), parts.owner.clone(), config.lease_ttl));
    let cluster = Arc::new(ClusterWatch::new(
        store.clone(),
        parts.codec.clone(),
        leases.clone(),
        config,
        metrics.clone(),
        parts.cluster_id.clone().expect("the committer is given the cluster's ID"),
    ));
    let horizon_ms = config.retention.evidence_ms;
    let handler = CommitterHandler::new(
        decider.clone(),
        parts.codec.clone(),
        parts.registry.clone(),
        horizon_ms,
        metrics.clone(),
    );
    let topics = handler.topics();
    let rebuilder = Rebuilder {
        decider: parts.decider(),
        log: parts.log.clone(),
        codec: parts.codec.clone(),
        evidence_ms: horizon_ms,
    };
    let rebuilds = Rebuilds::new(rebuilder, leases.clone(), clock, config, metrics.clone(), Some(cluster.clone()));
    let periodics: Vec<Arc<dyn Periodic>> = vec![
        Arc::new(rebuilds),
        Arc::new(Timers { decider, leases: leases.clone(), config, metrics: metrics.clone() }),
        Arc::new(Sweeper { store: store.clone(), leases: leases.clone(), config, metrics: metrics.clone() }),
        Arc::new(Flush { store: store.clone(), config }),
        Arc::new(Expiry { store, leases, config, metrics }),
        cluster.clone(),
    ];
    Built { handler: Arc::new(handler), topics, periodics, cluster: Some(cluster) }
}
