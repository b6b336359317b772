//! The whole pipeline in one process without faults, for tests that say what goes in and look at what comes out. Time is
//! virtual: a call of ten seconds takes no time to test.

use std::collections::BTreeMap;
use std::sync::Arc;

use chassis::registry::Registry;
use decision::ModelProvider;
use protocol::{Event, EventsCommitted, InvocationId, Request, RunEnded, Tenant, Timestamp, Version};
use reconciler::OwnerQuery;
use schemas::{
    Codec, CodecConfig, ControlRecord, DeadLetter, Inbound, Outbound, SigningKey, Topic, WireFormat, WireMessage,
};
use store::{Address, Image, MemoryStore, Store};
use tool_executor::ToolTransport;
use validation::policy::Policy;

use super::services::{Services, permissive};
use super::{Executor, Faults, SimBus, SimStore, World};

/// What a test plugs in.
pub struct Edges {
    pub model: Arc<dyn ModelProvider>,
    pub tools: Arc<dyn ToolTransport>,
    pub owners: Arc<dyn OwnerQuery>,
}

/// The five services, one process each.
pub struct Pipeline {
    executor: Executor,
    services: Services,
    memory: MemoryStore,
    /// The services by name, in the order of their processes.
    names: Vec<&'static str>,
    produced: u64,
    signer: Option<SigningKey>,
}

const SHARDS: u16 = 2;
const NO_FAULTS: Faults = Faults { crash: 0, delay: 0, duplicate: 0, lost_reply: 0, rollback: 0, until_ms: 0 };

impl Pipeline {
    /// Starts the services. `edges` gets the world, so that what it makes can sleep and tell the time. `seed` decides which
    /// of the tasks that are ready runs first. Every call is allowed; [`Pipeline::with_policy`] says otherwise.
    pub fn new(seed: u64, registry: Arc<Registry>, edges: impl FnOnce(&World) -> Edges) -> Self {
        Self::with_policy(seed, registry, permissive(), edges)
    }

    /// The same under a policy.
    pub fn with_policy(
        seed: u64,
        registry: Arc<Registry>,
        policy: Arc<Policy>,
        edges: impl FnOnce(&World) -> Edges,
    ) -> Self {
        let world = World::new(seed, NO_FAULTS);
        let clock = world.clone();
        let now = move || Timestamp(i64::try_from(clock.now_ms()).unwrap_or(i64::MAX));
        let memory = MemoryStore::new(SHARDS, Arc::new(now));
        let Edges { model, tools, owners } = edges(&world);
        let config = CodecConfig::default();
        let services = Services {
            store: SimStore::new(world.clone(), memory.clone()),
            bus: SimBus::new(world.clone(), &config.prefix),
            codec: Arc::new(Codec::new(config)),
            registry,
            policy,
            model,
            tools,
            owners,
            mutant: None,
            world: world.clone(),
        };
        let mut executor = Executor::new(world);
        let processes = services.processes();
        let names = processes.iter().map(|(group, _)| *group).collect();
        for (group, spawn) in processes {
            let services = services.clone();
            executor.process(Box::new(move |id| spawn(&services, group, id)));
        }
        Self { executor, services, memory, names, produced: 0, signer: None }
    }

    /// Signs every control from now on.
    pub fn sign_with(&mut self, key: Option<SigningKey>) {
        self.signer = key;
    }

    pub fn now_ms(&self) -> u64 {
        self.services.world.now_ms()
    }

    /// Produces a request, as JSON.
    pub fn request(&self, request: &Request) {
        let record = self.services.codec.encode_request(request, WireFormat::Json).expect("a request has a record");
        self.services.bus.produce(&record);
    }

    /// Produces a control, as JSON.
    pub fn control(&self, control: &ControlRecord) {
        self.put(&self.signed(control));
    }

    /// Produces any bytes, as kcat would.
    pub fn produce(&mut self, topic: Topic, key: &str, value: impl Into<Vec<u8>>) {
        self.produced += 1;
        let event_id = protocol::EventId(uuid::Uuid::from_u128(u128::from(self.produced)));
        let (key, value) = (key.as_bytes().to_vec(), value.into());
        let mut record = Outbound { topic, key, value, headers: Vec::new(), event_id };
        if topic == Topic::Controls {
            self.sign(&mut record);
        }
        self.put(&record);
    }

    /// A control as [`Pipeline::control`] produces it.
    pub fn signed(&self, control: &ControlRecord) -> Outbound {
        let record = self.services.codec.encode_control(control, WireFormat::Json);
        let mut record = record.expect("a control has a record");
        self.sign(&mut record);
        record
    }

    /// Produces a record as it is.
    pub fn put(&self, record: &Outbound) {
        self.services.bus.produce(record);
    }

    fn sign(&self, record: &mut Outbound) {
        if let Some(key) = &self.signer {
            key.sign(record);
        }
    }

    /// Kills every service: handlers are built anew, only the store and the topics stay.
    pub fn restart(&mut self) {
        self.names.clone().into_iter().for_each(|service| self.kill(service));
    }

    /// Kills a service where it stands; it starts again at once and knows what the store and the topics know.
    pub fn kill(&mut self, service: &str) {
        let process = self.names.iter().position(|name| *name == service);
        let process = process.unwrap_or_else(|| panic!("no service is called {service}: {:?}", self.names));
        self.services.world.crash(self.executor.current(process));
    }

    /// Whichever service comes to the `n`-th step at which a process can die, dies there.
    pub fn crash_at(&self, n: u64) {
        self.services.world.crash_at(n);
    }

    /// How many services have died so far.
    pub fn crashes(&self) -> u64 {
        self.services.world.injections().get("crash").copied().unwrap_or(0)
    }

    /// Delivers every record of a topic again.
    pub fn redeliver(&self, topic: Topic) {
        self.services.bus.redeliver(topic);
    }

    /// All that the store holds now.
    pub fn image(&self) -> Image {
        self.memory.image()
    }

    /// The store loses what it has committed since then, as a failover or a power loss may make it.
    pub fn cut_back(&self, image: &Image) {
        self.memory.cut_back(image);
    }

    /// Another server answers for the store; it has lost nothing.
    pub fn raise_epochs(&self) {
        self.memory.cut_back(&self.memory.image());
    }

    /// The log loses every commit that came after that virtual time.
    pub fn cut_log_back(&self, ms: u64) {
        let keep = |record: &Inbound| u64::try_from(record.timestamp_ms).is_ok_and(|at| at <= ms);
        self.services.bus.forget(Topic::Events, keep);
    }

    /// Runs until `done`, for at most that much virtual time; whether `done` came true.
    pub fn run_until(&mut self, at_most_ms: u64, done: impl Fn(&Seen) -> bool) -> bool {
        let seen = self.seen();
        let limit = self.now_ms() + at_most_ms;
        self.executor.run(limit, || done(&seen))
    }

    /// Runs for that much virtual time.
    pub fn run_for(&mut self, ms: u64) {
        self.run_until(ms, |_| false);
    }

    /// What can be seen from outside.
    pub fn seen(&self) -> Seen {
        let Services { bus, codec, .. } = &self.services;
        Seen { bus: bus.clone(), codec: codec.clone() }
    }

    /// The committed events of a run, as the store has them.
    pub fn stored(&self, tenant: &Tenant, id: InvocationId) -> Vec<Event> {
        let address = Address { tenant: tenant.clone(), id };
        let records = futures::executor::block_on(self.memory.events(&address, Version(1), Version(u64::MAX)));
        let records = records.expect("the in-memory store answers");
        records.iter().map(|record| store::read_event(record).expect("an event reads back")).collect()
    }

    /// The snapshot of a run, as the store has it.
    pub fn snapshot(&self, tenant: &Tenant, id: InvocationId) -> protocol::Invocation {
        let address = Address { tenant: tenant.clone(), id };
        let store: Arc<dyn Store> = Arc::new(self.memory.clone());
        let encode = Arc::new(committer::OutboxEncoder { codec: self.services.codec.clone() });
        let loaded = futures::executor::block_on(store::Decider::new(store, encode).peek(&address));
        loaded.expect("the in-memory store answers").0
    }
}

/// The topics, as a consumer from the beginning sees them. What stands twice is read once.
pub struct Seen {
    bus: SimBus,
    codec: Arc<Codec>,
}

impl Seen {
    fn read<T: WireMessage>(&self, topic: Topic) -> Vec<(Inbound, T)> {
        let mut records = self.bus.records(topic);
        let mut known = std::collections::BTreeSet::new();
        records.retain(|record| known.insert(record.header("ce_id").map(str::to_owned)));
        let read = |record: Inbound| {
            let message = self.codec.decode(&record).expect("what a service publishes reads back");
            (record, message)
        };
        records.into_iter().map(read).collect()
    }

    /// The terminal events of a run, and the virtual time at which each was published.
    pub fn terminals(&self, id: InvocationId) -> Vec<(i64, RunEnded)> {
        let all = self.read::<RunEnded>(Topic::Terminals).into_iter();
        all.filter(|(_, ended)| ended.scope.invocation_id == id).map(|(at, ended)| (at.timestamp_ms, ended)).collect()
    }

    /// The events of a run from the `events` topic, in order of version.
    pub fn log(&self, id: InvocationId) -> Vec<Event> {
        let all = self.read::<EventsCommitted>(Topic::Events).into_iter();
        let of_run = all.filter(|(_, committed)| committed.scope.invocation_id == id);
        let by_version: BTreeMap<_, _> =
            of_run.flat_map(|(_, committed)| committed.events).map(|event| (event.version, event)).collect();
        by_version.into_values().collect()
    }

    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        let records = self.bus.records(Topic::DeadLetters);
        records.iter().map(|record| self.codec.decode_dead_letter(record).expect("a dead letter reads back")).collect()
    }

    /// How many records a topic has.
    pub fn count(&self, topic: Topic) -> usize {
        self.bus.records(topic).len()
    }
}
