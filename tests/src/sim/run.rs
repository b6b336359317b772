//! One seed: some invocations, all services, faults for a while, and then the checker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::{
    Actor, Basis, Control, Digest, EffectOutcome, Event, EventsCommitted, Fact, InvocationId, LedgerEntry, Receipt,
    Request, RunEnded, Segment, TerminalReason, Timestamp, ToolCallDispatched,
};
use schemas::{Codec, CodecConfig, ControlRecord, Topic, WireFormat};
use serde_json::json;
use store::MemoryStore;
use uuid::Uuid;

use super::services::{Services, permissive};
use super::store::CommitLog;
use super::tools::{TENANT, registry};
use super::{Executor, Faults, SimBus, SimModel, SimOwner, SimStore, World};
use crate::checker::{Applied, Dispatched, History, Violation};

/// A planted bug, to prove that the checker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// What a commit says is published before it is committed.
    PublishBeforeCommit,
    /// Results are matched by the order they come in.
    MatchByPosition,
    /// Effects are sent without a claim.
    SkipLeaseCheck,
}

impl Mutant {
    pub const ALL: [Mutant; 3] = [Self::PublishBeforeCommit, Self::MatchByPosition, Self::SkipLeaseCheck];

    pub fn name(self) -> &'static str {
        match self {
            Self::PublishBeforeCommit => "publish_before_commit",
            Self::MatchByPosition => "match_by_position",
            Self::SkipLeaseCheck => "skip_lease_check",
        }
    }
}

/// How a seed is run.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub faults: Faults,
    pub mutant: Option<Mutant>,
}

impl Default for Setup {
    fn default() -> Self {
        let faults = Faults { crash: 12, delay: 60, duplicate: 100, lost_reply: 30, rollback: 300, until_ms: 8_000 };
        Self { faults, mutant: None }
    }
}

/// What one seed came to.
#[derive(Debug, Default)]
pub struct Report {
    pub violations: Vec<Violation>,
    pub invocations: usize,
    pub events: usize,
    pub effects: usize,
    pub reasons: BTreeMap<TerminalReason, u64>,
    pub injected: BTreeMap<&'static str, u64>,
    /// A digest of the whole history: equal seeds give equal digests.
    pub digest: Digest,
}

const PREFIX: &str = "sim";
const SHARDS: u16 = 2;
/// Virtual time after which a run that has not ended is stuck.
const PATIENCE_MS: u64 = 400_000;
/// How long a person waits before saying the same again.
const SAID_AGAIN_MS: u64 = 5_000;

/// Runs one seed.
pub fn run_seed(seed: u64, setup: Setup) -> Report {
    let world = World::new(seed, setup.faults);
    let clock = world.clone();
    let memory =
        MemoryStore::new(SHARDS, Arc::new(move || Timestamp(i64::try_from(clock.now_ms()).unwrap_or(i64::MAX))));
    let owner = SimOwner::new(world.clone());
    let model = SimModel::new(world.clone());
    let services = Services {
        store: SimStore::new(world.clone(), memory.clone()),
        bus: SimBus::new(world.clone(), PREFIX),
        codec: Arc::new(Codec::new(CodecConfig { prefix: PREFIX.to_owned(), ..CodecConfig::default() })),
        registry: Arc::new(registry()),
        policy: permissive(),
        model: Arc::new(model.clone()),
        tools: Arc::new(owner.clone()),
        owners: Arc::new(owner.clone()),
        mutant: setup.mutant,
        world,
    };
    let parts = Parts { services, owner, model };
    let mut executor = Executor::new(parts.services.world.clone());
    // Two committers and, in a third of the runs, two executors see every record: replicas that race.
    for (group, spawn) in parts.services.processes_with_rivals(seed) {
        let services = parts.services.clone();
        executor.process(Box::new(move |id| spawn(&services, group, id)));
    }
    let wanted = 1 + usize::try_from(parts.services.world.below(3)).unwrap_or(0);
    for n in 0..wanted {
        let id = InvocationId(Uuid::from_u128((u128::from(seed) << 64) | (n as u128 + 1)));
        executor.drive(caller(parts.clone(), id));
    }
    executor.drive(operator(parts.clone()));
    executor.drive(rollbacks(parts.services.world.clone(), memory.clone()));
    let start = parts.services.world.now_ms();
    let mut ended = false;
    while !ended && parts.services.world.now_ms() < start + PATIENCE_MS {
        let before = parts.services.world.now_ms();
        executor.run(before + 1_000, || false);
        let quiet = parts.services.world.now_ms() >= start + setup.faults.until_ms;
        ended = quiet
            && memory.all_pending().is_empty()
            && memory.all_timers().is_empty()
            && memory.all_events().len() >= wanted
            && memory.all_events().values().all(|events| has_ended(events));
        if parts.services.world.now_ms() == before && executor.is_idle() {
            break;
        }
    }
    let history = parts.history(&memory);
    let mut violations = history.check();
    if !ended {
        let what = format!("{wanted} invocations: not everything has ended after {PATIENCE_MS} ms of virtual time");
        violations.push(Violation { invariant: "I18", what });
    }
    parts.report(history, violations)
}

fn has_ended(events: &[store::EventRecord]) -> bool {
    let event = |record| store::read_event(record).ok();
    events.iter().rev().filter_map(event).any(|event| matches!(event.fact, Fact::Ended { .. }))
}

/// The services of one seed, with the ends of their seams that the caller, the operator and the checker look at.
#[derive(Clone)]
struct Parts {
    services: Services,
    owner: SimOwner,
    model: SimModel,
}

/// The store loses what it has committed in the last moments, as a failover to a replica that lags behind makes it.
async fn rollbacks(world: World, memory: MemoryStore) {
    if !world.faults().is_some_and(|faults| world.chance(faults.rollback)) {
        return;
    }
    for _ in 0..=world.below(2) {
        world.sleep(world.below(3_000)).await;
        let image = memory.image();
        world.sleep(1 + world.below(400)).await;
        if world.faults().is_some() {
            world.injected("rollback");
            memory.cut_back(&image);
        }
    }
}

/// A caller: one request, perhaps sent twice, perhaps cancelled, perhaps before it arrives.
async fn caller(parts: Parts, id: InvocationId) {
    let request = Request {
        invocation_id: id,
        tenant: TENANT.into(),
        actor: "ada".into(),
        task_type: "sim".into(),
        agent: "sim".into(),
        goal: json!("do something"),
        tools: None,
        budget: protocol::BudgetRequest::default(),
        deadline: None,
        output_schema: None,
        goal_predicates: Vec::new(),
        labels: BTreeMap::new(),
        requested_at: None,
    };
    parts.services.world.sleep(parts.services.world.below(2_000)).await;
    let early = parts.services.world.chance(60);
    let cancel = parts.services.world.chance(250);
    if early {
        parts.control(id, Control::Cancel { actor: "ada".into(), reason: "never mind".into() });
        parts.services.world.sleep(parts.services.world.below(400)).await;
    }
    let record = parts.services.codec.encode_request(&request, WireFormat::Json).expect("a request has a record");
    parts.services.bus.produce(&record);
    if cancel {
        parts.services.world.sleep(parts.services.world.below(1_500)).await;
        parts.control(id, Control::Cancel { actor: "ada".into(), reason: "changed my mind".into() });
    }
}

/// A person who answers what the runs wait for: approves, refuses or forgets proposals, answers questions, and settles what
/// is handed over by looking into the owner's books. Now and then the same is said twice, and what seems not to have been
/// heard is said again.
async fn operator(parts: Parts) {
    let mut answered: BTreeMap<(InvocationId, Segment), Option<u64>> = BTreeMap::new();
    loop {
        parts.services.world.sleep(500).await;
        let mut newest: BTreeMap<InvocationId, RunEnded> = BTreeMap::new();
        for record in parts.services.bus.records(Topic::Terminals) {
            let Ok(ended) = parts.services.codec.decode::<RunEnded>(&record) else {
                continue;
            };
            let known = newest.get(&ended.scope.invocation_id).map(|known| known.segment);
            if known < Some(ended.segment) {
                newest.insert(ended.scope.invocation_id, ended);
            }
        }
        for (id, ended) in newest.into_iter().filter(|(_, ended)| ended.resumable) {
            let now = parts.services.world.now_ms();
            let said = answered.get(&(id, ended.segment));
            // Whoever forgets a proposal does not remember it later.
            if said.is_some_and(|said| said.is_none_or(|at| at + SAID_AGAIN_MS > now)) {
                continue;
            }
            let said = parts.answer(&ended).await;
            answered.insert((id, ended.segment), said.then_some(now));
        }
    }
}

impl Parts {
    /// What the owner's books say of the effects that a run hands over.
    fn settle(&self, ended: &RunEnded) {
        for effect in ended.effects.iter().filter(|effect| effect.status.is_unresolved()) {
            let outcome = match self.owner.settle_by_hand(&effect.key) {
                Some(effect_id) => EffectOutcome::Committed {
                    receipt: Some(Receipt { effect_id, body_digest: Digest::default() }),
                    output: json!({"found": "in the books"}),
                },
                None => EffectOutcome::Rejected {
                    error: protocol::CallError::new(protocol::ErrorClass::NotFound, "not in the books"),
                },
            };
            let (actor, evidence) = (Actor("grace".to_owned()), "the owner's books".to_owned());
            let control = Control::ResolveEffect { actor, effect_key: effect.key.clone(), outcome, evidence };
            self.control(ended.scope.invocation_id, control);
        }
    }

    /// A person's word on a proposal, a question or the effects that are handed over; false if there is none.
    async fn answer(&self, ended: &RunEnded) -> bool {
        let world = &self.services.world;
        let actor = Actor("grace".to_owned());
        let control = match (&ended.proposal, &ended.question) {
            (Some(proposal), _) => {
                let proposal_digest = proposal.digest;
                match world.below(8) {
                    0..=4 => Control::Approve { actor, proposal_digest },
                    5 | 6 => Control::Reject { actor, proposal_digest, reason: "not today".to_owned() },
                    _ => return false,
                }
            }
            (None, Some(_)) => {
                let step = world.chance(500).then_some(ended.scope.step);
                Control::Clarify { actor, answer: json!(ended.scope.step), step }
            }
            (None, None) => {
                self.settle(ended);
                return true;
            }
        };
        self.control(ended.scope.invocation_id, control.clone());
        if world.chance(300) {
            world.sleep(world.below(3_000)).await;
            self.control(ended.scope.invocation_id, control);
        }
        true
    }

    fn control(&self, invocation_id: InvocationId, control: Control) {
        let record = ControlRecord { tenant: TENANT.into(), invocation_id, control };
        let record = self.services.codec.encode_control(&record, WireFormat::Json).expect("a control has a record");
        self.services.bus.produce(&record);
    }

    fn history(&self, memory: &MemoryStore) -> History {
        let mut history = History::default();
        let commits = self.services.store.commits();
        for (address, records) in memory.all_events() {
            let events = records.iter().map(|record| {
                let event: Event = store::read_event(record).expect("an event reads back");
                let basis = event.basis();
                let commit = commits.iter().find(|c| c.address == address && c.events.contains(&basis));
                (commit.map(|commit| commit.sequence).unwrap_or(u64::MAX), event)
            });
            history.invocations.insert(address.id, events.collect());
        }
        history.accepted = history.invocations.keys().copied().collect();
        // What was lost before anything of it was published is as if it had never been.
        let of = |(id, events): (&InvocationId, &Vec<(u64, Event)>)| {
            (*id, events.iter().map(|(_, it)| it.basis()).collect())
        };
        let kept: BTreeMap<InvocationId, BTreeSet<Basis>> = history.invocations.iter().map(of).collect();
        let stands = |commit: &&CommitLog| {
            let kept = kept.get(&commit.address.id);
            commit.events.iter().all(|basis| kept.is_some_and(|kept| kept.contains(basis)))
        };
        history.outbox = commits.iter().filter(stands).flat_map(|commit| commit.outbox.clone()).collect();
        for ((address, _), (_, bytes)) in memory.all_entries() {
            let entry: LedgerEntry = serde_json::from_slice(&bytes).expect("an entry reads back");
            history.ledger.push((address.id, entry));
        }
        history.applied = self
            .owner
            .applied()
            .into_iter()
            .map(|application| Applied {
                sequence: application.sequence,
                key: application.key,
                attempt_id: application.attempt_id,
                fingerprint: application.fingerprint.map(|digest| digest.to_string()),
            })
            .collect();
        history.refused = self.owner.refused();
        history.model_requests = self.model.journal();
        for published in self.services.bus.journal() {
            history.published.insert(published.record.event_id);
            let inbound = self.services.codec.arrival(published.record.clone());
            match published.record.topic {
                Topic::Dispatches => {
                    let dispatch: ToolCallDispatched =
                        self.services.codec.decode(&inbound).expect("a dispatch reads back");
                    history.dispatches.push(Dispatched {
                        sequence: published.sequence,
                        invocation_id: dispatch.scope.invocation_id,
                        call_id: dispatch.call_id,
                        basis: dispatch.scope.basis,
                    });
                }
                Topic::Events => {
                    let committed: EventsCommitted =
                        self.services.codec.decode(&inbound).expect("a record of the log reads back");
                    let id = committed.scope.invocation_id;
                    history.logged.entry(id).or_default().extend(committed.events.iter().map(Event::basis));
                }
                Topic::Terminals => {
                    let ended: RunEnded = self.services.codec.decode(&inbound).expect("a terminal event reads back");
                    let line = (ended.scope.invocation_id, !ended.resumable, ended.reason);
                    history.terminals.insert(published.record.event_id, line);
                }
                _ => {}
            }
        }
        history
    }

    fn report(&self, history: History, violations: Vec<Violation>) -> Report {
        let mut reasons = BTreeMap::new();
        for (_, _, reason) in history.terminals.values() {
            *reasons.entry(*reason).or_default() += 1;
        }
        let heads: Vec<_> = history.invocations.values().filter_map(|events| events.last()).collect();
        let parts: Vec<&[u8]> = heads.iter().map(|(_, event)| event.hash.0.as_slice()).collect();
        Report {
            violations,
            invocations: history.invocations.len(),
            events: history.invocations.values().map(Vec::len).sum(),
            effects: history.applied.len(),
            reasons,
            injected: self.services.world.injections(),
            digest: Digest::of("history", &parts),
        }
    }
}
