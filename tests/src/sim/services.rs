//! The five services as processes of a simulated run: wired as in production, around whatever registry, model, tools and
//! owners the run is given.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chassis::registry::Registry;
use chassis::{Metrics, Periodic};
use committer::{CommitterConfig, CommitterHandler, Leases, OutboxEncoder, Rebuilder, Rebuilds, Sweeper, Timers};
use decision::ModelProvider;
use reconciler::OwnerQuery;
use schemas::{Codec, Topic};
use store::{Decider, Store};
use tool_executor::ToolTransport;
use validation::policy::{Policy, PolicyFiles};

use super::bus::SimLog;
use super::mutants::{MatchesByPosition, SkipsTheLease};
use super::process::{Service, job, tick};
use super::{Mutant, ProcessId, SimBus, SimClock, SimStore, World};

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts one process.
type Spawn = fn(&Services, &'static str, ProcessId) -> Vec<Job>;

/// What the processes of one run share, and what is plugged into them.
#[derive(Clone)]
pub(super) struct Services {
    pub world: World,
    pub store: SimStore,
    pub bus: SimBus,
    pub codec: Arc<Codec>,
    pub registry: Arc<Registry>,
    pub policy: Arc<Policy>,
    pub model: Arc<dyn ModelProvider>,
    pub tools: Arc<dyn ToolTransport>,
    pub owners: Arc<dyn OwnerQuery>,
    pub mutant: Option<Mutant>,
}

/// A policy that allows everything.
pub(super) fn permissive() -> Arc<Policy> {
    let files = PolicyFiles::of("permit(principal, action, resource);");
    Arc::new(Policy::compile(&files).expect("the policy is well-formed"))
}

impl Services {
    /// One process of each service, with this group.
    pub fn processes(&self) -> Vec<(&'static str, Spawn)> {
        vec![
            ("committer", spawn_committer),
            ("decision", spawn_decision),
            ("validation", spawn_validation),
            ("tool-executor", spawn_executor),
            ("reconciler", spawn_reconciler),
        ]
    }

    /// The same with replicas that see every record too: of the committer in half of the seeds, of executor and decision in
    /// a third of them.
    pub fn processes_with_rivals(&self, seed: u64) -> Vec<(&'static str, Spawn)> {
        let mut all = self.processes();
        if seed.is_multiple_of(2) {
            all.push(("committer-b", spawn_committer as Spawn));
        }
        if seed.is_multiple_of(3) {
            all.push(("tool-executor-b", spawn_executor));
            all.push(("decision-b", spawn_decision));
        }
        all
    }

    fn decider(&self, id: ProcessId) -> Decider {
        let mutant = self.mutant == Some(Mutant::PublishBeforeCommit);
        let store: Arc<dyn Store> = Arc::new(self.store.of(id, mutant.then(|| self.bus.clone())));
        Decider::new(store, Arc::new(OutboxEncoder { codec: self.codec.clone() }))
    }

    fn service(
        &self,
        group: &'static str,
        id: ProcessId,
        handler: Arc<dyn chassis::Handler>,
        topics: Vec<String>,
    ) -> Service {
        let (world, codec) = (self.world.clone(), self.codec.clone());
        Service { name: group, world, bus: self.bus.of(id), codec, handler, topics }
    }

    fn topic(&self, topic: Topic) -> Vec<String> {
        vec![self.codec.topic_name(topic)]
    }
}

fn spawn_committer(services: &Services, group: &'static str, id: ProcessId) -> Vec<Job> {
    let metrics = Metrics::silent(group);
    let clock = Arc::new(SimClock(services.world.clone()));
    let decider = committer::remembering(services.decider(id), clock.clone());
    let config = CommitterConfig {
        timer_interval: Duration::from_millis(100),
        sweep_interval: Duration::from_millis(400),
        sweep_after: Duration::from_millis(700),
        lease_ttl: Duration::from_secs(2),
        rebuild_after: Duration::from_millis(500),
        ..CommitterConfig::default()
    };
    let owner = format!("{group}-{}", id.incarnation);
    let store = decider.store.clone();
    let leases = Arc::new(Leases::new(store.clone(), clock.clone(), owner, config.lease_ttl));
    let handler = CommitterHandler::new(
        decider.clone(),
        services.codec.clone(),
        services.registry.clone(),
        config.retention.evidence_ms,
        metrics.clone(),
    );
    let topics = handler.topics();
    let handler: Arc<dyn chassis::Handler> = Arc::new(handler);
    let handler: Arc<dyn chassis::Handler> = match services.mutant {
        Some(Mutant::MatchByPosition) => Arc::new(MatchesByPosition::new(handler, services.codec.clone())),
        _ => handler,
    };
    let rebuilder = Rebuilder {
        decider: services.decider(id),
        log: Arc::new(SimLog(services.bus.of(id))),
        codec: services.codec.clone(),
        evidence_ms: config.retention.evidence_ms,
    };
    let rebuilds = Rebuilds::new(rebuilder, leases.clone(), clock, config, metrics.clone(), None);
    let timers = Timers { decider, leases: leases.clone(), config, metrics: metrics.clone() };
    let sweeper = Sweeper { store: store.clone(), leases, config, metrics };
    let flush =
        committer::Flush { store, config: CommitterConfig { flush_interval: Duration::from_millis(300), ..config } };
    let periodics: Vec<Arc<dyn Periodic>> =
        vec![Arc::new(timers), Arc::new(sweeper), Arc::new(flush), Arc::new(rebuilds)];
    let mut jobs = vec![job(services.service(group, id, handler, topics).consume())];
    for periodic in periodics {
        jobs.push(job(tick(services.world.clone(), services.bus.of(id), periodic)));
    }
    jobs
}

fn spawn_decision(services: &Services, group: &'static str, id: ProcessId) -> Vec<Job> {
    let handler = decision::DecisionHandler::new(
        services.decider(id).store,
        services.codec.clone(),
        services.registry.clone(),
        services.model.clone(),
        Arc::new(SimClock(services.world.clone())),
        Metrics::silent(group),
    );
    vec![job(services.service(group, id, Arc::new(handler), services.topic(Topic::Turns)).consume())]
}

fn spawn_validation(services: &Services, group: &'static str, id: ProcessId) -> Vec<Job> {
    let (codec, policy) = (services.codec.clone(), services.policy.clone());
    let handler = validation::ValidationHandler::new(codec, &services.registry, policy, Metrics::silent(group))
        .expect("the simulated tools' schemas compile");
    vec![job(services.service(group, id, Arc::new(handler), services.topic(Topic::Decisions)).consume())]
}

fn spawn_executor(services: &Services, group: &'static str, id: ProcessId) -> Vec<Job> {
    let handler = tool_executor::ExecutorHandler::new(
        services.decider(id),
        services.codec.clone(),
        services.registry.clone(),
        services.tools.clone(),
        Arc::new(services.bus.of(id)),
        Arc::new(SimClock(services.world.clone())),
        Metrics::silent(group),
    );
    let handler: Arc<dyn chassis::Handler> = match services.mutant {
        Some(Mutant::SkipLeaseCheck) => Arc::new(SkipsTheLease::new(
            Arc::new(handler),
            services.tools.clone(),
            services.codec.clone(),
            services.registry.clone(),
        )),
        _ => Arc::new(handler),
    };
    vec![job(services.service(group, id, handler, services.topic(Topic::Dispatches)).consume())]
}

fn spawn_reconciler(services: &Services, group: &'static str, id: ProcessId) -> Vec<Job> {
    let handler = reconciler::ReconcilerHandler::new(
        services.codec.clone(),
        services.registry.clone(),
        services.owners.clone(),
        Arc::new(SimClock(services.world.clone())),
        Metrics::silent(group),
    );
    vec![job(services.service(group, id, Arc::new(handler), services.topic(Topic::OutcomeUnknown)).consume())]
}
