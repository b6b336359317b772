//! What a process remembers of its own commits saves loads, and is never trusted with more than a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use protocol::{
    Budget, Control, Digest, Finding, FindingCode, Ignored, Input, Judgement, MixedBatches, ModelEvidence, Outgoing,
    Phase, Profile, ProgressLimits, Request, Requested, Timestamp, Timing, Verdict,
};
use turnwright_store::{Address, Decided, Decider, Encode, MemoryStore, REMEMBERED_BYTES, Refusal};

struct Silent;

impl Encode for Silent {
    fn encode(&self, _: &Outgoing, _: Timestamp) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }
}

struct World {
    /// The store's clock, in ms.
    store_ms: Arc<AtomicI64>,
    /// The clock of the process that remembers, in ms.
    elapsed_ms: Arc<AtomicU64>,
    remembering: Decider,
    other: Decider,
    address: Address,
}

impl World {
    fn new(bytes: usize) -> Self {
        let (store_ms, elapsed_ms) = (Arc::new(AtomicI64::new(1_000)), Arc::new(AtomicU64::new(0)));
        let (time, elapsed) = (store_ms.clone(), elapsed_ms.clone());
        let store = Arc::new(MemoryStore::new(1, Arc::new(move || Timestamp(time.load(Ordering::SeqCst)))));
        let other = Decider::new(store, Arc::new(Silent));
        let clock = move || Duration::from_millis(elapsed.load(Ordering::SeqCst));
        let remembering = other.clone().remembering(bytes, Arc::new(clock));
        let request: Request = serde_json::from_value(serde_json::json!({
            "invocation_id": "00000000-0000-0000-0000-000000000007", "tenant": "acme", "actor": "ada",
            "task_type": "refund", "agent": "desk", "goal": "g",
        }))
        .unwrap();
        let address = Address { tenant: request.tenant.clone(), id: request.invocation_id };
        let profile = Profile {
            budget: Budget::default(),
            ceiling: Budget::default(),
            timing: Timing::default(),
            tools: Vec::new(),
            mixed_batches: MixedBatches::Order,
            progress: ProgressLimits::default(),
            digest: Digest::default(),
        };
        let digest = request.digest();
        let (requested_at, horizon_ms) = (Timestamp(1_000), u64::MAX);
        let requested = Requested { request, digest, requested_at, profile: Some(profile), horizon_ms };
        let world = Self { store_ms, elapsed_ms, remembering, other, address };
        let admitted = world.decide(&world.remembering, Input::Requested(Box::new(requested)));
        assert!(admitted.outcomes[0].is_ok());
        world
    }

    fn decide(&self, decider: &Decider, input: Input) -> Decided {
        block_on(decider.decide(&self.address, &[input])).unwrap()
    }

    /// A verdict that rejects what the run waits for now.
    fn rejection(&self) -> Input {
        let (state, _) = block_on(self.other.peek(&self.address)).unwrap();
        let Some(Phase::Deciding(deciding)) = state.phase() else { panic!("a turn is asked for") };
        let finding = Finding::new(FindingCode::Malformed, "", "not a decision");
        let evidence = ModelEvidence {
            response_id: "r".into(),
            model: "m".into(),
            usage: Default::default(),
            context_digest: Digest::default(),
        };
        Input::Verdict(Box::new(Verdict {
            scope: state.scope(deciding.basis),
            judgement: Judgement::Rejected { findings: vec![finding], evidence },
            registry_digest: Digest::default(),
            policy_digest: Digest::default(),
        }))
    }

    fn cancel(&self) -> Input {
        Input::Control(Control::Cancel { actor: "ada".into(), reason: "enough".into() })
    }

    fn pass(&self, store_ms: i64, elapsed_ms: u64) {
        self.store_ms.fetch_add(store_ms, Ordering::SeqCst);
        self.elapsed_ms.fetch_add(elapsed_ms, Ordering::SeqCst);
    }

    /// When the first event that a decision caused was decided.
    fn at(decided: &Decided) -> i64 {
        decided.outcomes[0].as_ref().expect("applied")[0].at.0
    }
}

#[test]
fn the_next_input_is_decided_without_a_load_at_the_time_that_has_passed() {
    let world = World::new(REMEMBERED_BYTES);
    let rejection = world.rejection();
    world.pass(900, 400);
    assert_eq!(World::at(&world.decide(&world.remembering, rejection)), 1_400, "the store was asked for its time");
}

#[test]
fn what_is_older_than_ten_seconds_or_does_not_fit_the_memory_is_loaded() {
    let world = World::new(REMEMBERED_BYTES);
    let rejection = world.rejection();
    world.pass(20_000, 10_001);
    assert_eq!(World::at(&world.decide(&world.remembering, rejection)), 21_000);
    let world = World::new(1);
    let rejection = world.rejection();
    world.pass(900, 400);
    assert_eq!(World::at(&world.decide(&world.remembering, rejection)), 1_900);
    assert!(world.remembering.store.stats().remembered_evicted.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_commit_of_another_process_is_met_and_decided_on() {
    let world = World::new(REMEMBERED_BYTES);
    let stale = world.rejection();
    world.decide(&world.other, world.cancel());
    // On the remembered state it would be applied; it is stale, and only a load may say so.
    let decided = world.decide(&world.remembering, stale);
    assert_eq!(decided.outcomes, [Err(Refusal::Ignored(Ignored::Stale))]);
    assert_eq!(decided.conflicts, 0, "a memory that was outdated is no contention");
}

#[test]
fn an_input_that_the_remembered_state_would_ignore_is_decided_on_a_load() {
    let world = World::new(REMEMBERED_BYTES);
    let first = world.rejection();
    // Another process moves on to the repair; what is remembered waits for the first round still.
    world.decide(&world.other, first);
    let second = world.rejection();
    let decided = world.decide(&world.remembering, second);
    let events = decided.outcomes[0].as_ref().expect("the repair's rejection ends the run");
    assert!(events.iter().any(|event| event.fact.name() == "ended"));
    let (state, _) = block_on(world.other.peek(&world.address)).unwrap();
    assert!(state.is_ended());
}
