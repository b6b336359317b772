//! A scenario: what the model proposes, what the tools are, what may go wrong and how often. Each is small enough that
//! everything that can happen in it is looked at.

use std::collections::BTreeMap;

use protocol::{
    AcceptedDecision, Budget, Dedupe, Digest, EffectKey, InvocationId, Judgement, MixedBatches, Plan, PlanPlace,
    Profile, ProgressLimits, Request, Round, Step, Tenant, TerminalReason, Timestamp, Timing,
};
use serde_json::json;
use uuid::Uuid;

use super::answers::finish;
use super::model::Situation;

/// When the run is asked for. Far from every other number of the model, so that a number near it is a time.
pub const START: Timestamp = Timestamp(1_000_000_000);
/// What is due later than this many ticks after an event is never due: no scenario lasts that long.
pub const HORIZON: u64 = 10_000;

/// How often what may go wrong does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Faults {
    /// A process dies, and what it had loaded or not yet published is gone.
    pub crash: u8,
    /// An executor gives up on an answer before its lease is over.
    pub unknown: u8,
    /// An executor cannot send.
    pub unsent: u8,
    /// A read fails so that another attempt may mend it.
    pub transient: u8,
    /// An owner asks for patience.
    pub pending: u8,
}

/// One bounded world.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: &'static str,
    /// What it is there for.
    pub purpose: &'static str,
    /// What the model may answer, by step; the last entry stands for every further step.
    pub turns: Vec<Vec<Judgement>>,
    /// What it may answer when it is asked for a repair.
    pub repairs: Vec<Judgement>,
    pub budget: Budget,
    /// How often the model is asked again for a turn; without it, it always answers in time.
    pub reissues: Option<u32>,
    /// How often a call that nobody starts is released again.
    pub rereleases: u32,
    /// Ticks after the start.
    pub deadline: Option<u64>,
    /// Ticks that the run may be active.
    pub max_runtime: Option<u64>,
    /// Whether the agent is configured.
    pub known_agent: bool,
    /// Whether a Cancel is on its way, from the beginning.
    pub cancel: bool,
    /// Whether owners may reject.
    pub rejects: bool,
    pub faults: Faults,
    /// Decisions that replicas may have loaded and not yet committed, all together; 0 commits each at once.
    pub racing: usize,
    /// Executors.
    pub executors: usize,
    /// The ways to end that must be reachable.
    pub reasons: Vec<TerminalReason>,
    /// What else must come up.
    pub meets: Vec<Situation>,
}

/// Ticks that no scenario lives to see.
const NEVER: u64 = 100 * HORIZON;

/// One tick is the unit of every time of the model.
pub const TICK: u64 = 1;

pub fn tenant() -> Tenant {
    "acme".into()
}

pub fn invocation() -> InvocationId {
    InvocationId(Uuid::from_u128(7))
}

impl Scenario {
    pub fn new(name: &'static str, purpose: &'static str) -> Self {
        Self {
            name,
            purpose,
            turns: vec![vec![finish()]],
            repairs: vec![finish()],
            budget: Budget {
                max_steps: 3,
                max_tool_calls: 6,
                max_tokens: 1_000,
                max_cost_micros: 1_000,
                max_repeated_plan: 1,
            },
            reissues: None,
            rereleases: 0,
            deadline: None,
            max_runtime: None,
            known_agent: true,
            cancel: false,
            rejects: false,
            faults: Faults::default(),
            racing: 0,
            executors: 1,
            reasons: Vec::new(),
            meets: Vec::new(),
        }
    }

    pub fn request(&self) -> Request {
        Request {
            invocation_id: invocation(),
            tenant: tenant(),
            actor: "ada".into(),
            task_type: "check".into(),
            agent: "checked".into(),
            goal: json!("do it"),
            tools: None,
            budget: protocol::BudgetRequest::default(),
            deadline: self.deadline.map(|ticks| START.plus_ms(ticks)),
            output_schema: None,
            goal_predicates: Vec::new(),
            labels: BTreeMap::new(),
            requested_at: None,
        }
    }

    pub fn profile(&self) -> Option<Profile> {
        let timing = Timing {
            max_runtime_ms: self.max_runtime.unwrap_or(NEVER),
            decide_timeout_ms: self.reissues.map_or(NEVER, |_| TICK),
            max_reissues: self.reissues.unwrap_or(0),
            call_slack_ms: 0,
            max_rereleases: self.rereleases,
            approval_ttl_ms: TICK,
            cancel_grace_ms: TICK,
        };
        let tools = ["lookup", "read_order", "refund", "wire"].map(Into::into).to_vec();
        let profile = Profile {
            budget: self.budget,
            ceiling: self.budget,
            timing,
            tools,
            digest: Digest::of("profile", &[]),
            mixed_batches: MixedBatches::Order,
            progress: ProgressLimits::default(),
        };
        self.known_agent.then_some(profile)
    }

    /// The names of what must be reached: ends, and situations.
    pub fn must_reach(&self) -> impl Iterator<Item = &'static str> {
        let reasons = self.reasons.iter().map(|reason| reason.as_str());
        reasons.chain(self.meets.iter().map(|situation| situation.name()))
    }

    /// What the model may answer in that turn.
    pub fn answers(&self, step: u8, round: u8) -> &[Judgement] {
        let turn = self.turns.get(usize::from(step).saturating_sub(1)).or(self.turns.last());
        if round > 0 { &self.repairs } else { turn.map(Vec::as_slice).unwrap_or_default() }
    }

    /// Every Effect Key that can come up, and whether its owner enforces it.
    pub fn effects(&self) -> Vec<(EffectKey, Dedupe)> {
        let mut keys: BTreeMap<EffectKey, Dedupe> = BTreeMap::new();
        let tenant = tenant();
        for judgement in self.turns.iter().flatten().chain(&self.repairs) {
            let (Judgement::Accepted { decision, .. } | Judgement::ApprovalRequired { decision, .. }) = judgement
            else {
                continue;
            };
            if let AcceptedDecision::ToolCalls { calls } | AcceptedDecision::RequestApproval { calls } = decision {
                let place = PlanPlace { tenant: &tenant, invocation_id: invocation(), step: Step(1), round: Round(0) };
                let planned = Plan::build(place, calls).map(|plan| plan.calls).unwrap_or_default();
                let effects =
                    planned.into_iter().filter_map(|call| Some((call.effect?.key, call.contract.effect?.dedupe)));
                keys.extend(effects);
            }
        }
        keys.into_iter().collect()
    }
}
