//! The state of an invocation: a fold over its events, bounded by its current turn. Finished turns live in the event
//! list only.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Actor, AgentName, AttemptId, AttemptNumber, Basis, Budget, CallError, CallId, CallOutcome, Digest, EffectKey,
    Epoch, InvocationId, Ledger, MixedBatches, ModelEvidence, PendingApproval, PendingClarification, Plan, PlanMark,
    PlanPlace, PlannedCall, Probe, Progress, Round, Scope, Segment, Spent, Step, TaskType, Tenant, TerminalReason,
    Timestamp, Timing, ToolName, Version,
};

/// One invocation, or the place where one may come to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    pub tenant: Tenant,
    pub id: InvocationId,
    /// The number of events.
    pub version: Version,
    /// The newest event's hash.
    pub head: Digest,
    /// The newest event's time.
    pub at: Timestamp,
    /// A Cancel that overtook its request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stub: Option<Stub>,
    /// Absent until admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<Run>>,
    /// What was loaded of the effect ledger; not a part of the snapshot.
    #[serde(skip)]
    pub ledger: Ledger,
    /// The shard's epoch, as loaded.
    #[serde(skip)]
    pub epoch: Epoch,
    /// The hash of the event at the version that [`crate::needs`] asked for, if it is still kept.
    #[serde(skip)]
    pub hash_at: Option<(Version, Digest)>,
}

/// A Cancel that came before its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stub {
    pub actor: Actor,
    pub detail: String,
}

/// An admitted run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub actor: Actor,
    pub agent: AgentName,
    pub task_type: TaskType,
    pub request_digest: Digest,
    pub requested_at: Timestamp,
    pub deadline: Option<Timestamp>,
    pub tools: Vec<ToolName>,
    pub budget: Budget,
    pub timing: Timing,
    pub mixed_batches: MixedBatches,
    pub output_schema: Option<Value>,
    pub profile_digest: Digest,
    pub spent: Spent,
    pub segment: Segment,
    /// Active time of the segments before this one, in milliseconds.
    pub active_ms: u64,
    /// Since when the run is active; absent while it is suspended or ended.
    pub active_since: Option<Timestamp>,
    pub progress: Progress,
    /// Effects this run has in its ledger.
    pub effects: u32,
    /// The answers given so far, by digest: one that names no question counts once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Digest>,
    pub phase: Phase,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Deciding(Deciding),
    Executing(Execution),
    Suspended(Suspension),
    Cancelling(Cancelling),
    Ended(Ended),
}

/// In a person's hands: nothing runs, the active time stands still, and the caller has a terminal event that says what is
/// waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspension {
    /// A proposal waits for its approval.
    Approval(Box<PendingApproval>),
    /// The model waits for an answer.
    Clarification(PendingClarification),
    /// Some call is unanswerable, and every other one is settled or waits for it.
    Operator(Execution),
}

/// The model is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deciding {
    pub step: Step,
    pub round: Round,
    /// The event that opened this round; kept when the turn is asked for again.
    pub basis: Basis,
    pub reissues: u32,
    pub asked_at: Timestamp,
}

/// A plan runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    pub step: Step,
    pub round: Round,
    pub plan: Plan,
    /// One per call of the plan, at the same position.
    pub calls: Vec<CallState>,
    pub evidence: ModelEvidence,
    pub mark: PlanMark,
}

/// Nothing new starts; what is in flight is waited for, up to the grace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelling {
    pub reason: TerminalReason,
    pub detail: String,
    pub grace_until: Timestamp,
    pub execution: Execution,
}

/// Over. Only the ledger moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub reason: TerminalReason,
    pub step: Step,
    pub round: Round,
    /// Kept while some effect of the last turn has no certain outcome.
    pub execution: Option<Execution>,
}

/// Where one call of the current plan stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallState {
    pub stage: Stage,
    /// The current attempt; 0 before the first release.
    pub attempt: AttemptNumber,
    /// Attempts that nobody started.
    pub unclaimed: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its wave has not come.
    Waiting,
    /// Dispatched; an effect is not claimed yet, a read may be running.
    Released {
        at: Timestamp,
        /// Where it is older than the shard's, the store may have lost the claim.
        #[serde(default)]
        epoch: Epoch,
    },
    /// An effect's attempt may be at its owner.
    Claimed(Claim),
    /// The attempt failed without doing anything; the next one comes when due.
    Backoff {
        due: Timestamp,
        error: CallError,
    },
    /// The attempt left no certain answer; its owner is asked.
    Unknown(Unknown),
    /// The owner cannot say; a person must.
    Unanswerable {
        unknown: Unknown,
        why: String,
    },
    Settled(CallOutcome),
}

/// A claimed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub attempt_id: AttemptId,
    pub lease_until: Timestamp,
}

/// An attempt of unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    pub claim: Claim,
    pub since: Timestamp,
    /// The newest question.
    pub probe: Probe,
    pub probed_at: Timestamp,
    /// Set while the owner's last word was "pending": when to ask again.
    pub next_probe_at: Option<Timestamp>,
    /// The newest question asks the owner to close the key where it does not know it: no other attempt is to follow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seal: bool,
}

impl Invocation {
    /// The place of an invocation that nothing is known of.
    pub fn absent(tenant: Tenant, id: InvocationId) -> Self {
        Self {
            tenant,
            id,
            version: Version(0),
            head: Digest::default(),
            at: Timestamp::default(),
            stub: None,
            run: None,
            ledger: Ledger::default(),
            epoch: Epoch::default(),
            hash_at: None,
        }
    }

    pub fn phase(&self) -> Option<&Phase> {
        self.run.as_deref().map(|run| &run.phase)
    }

    /// The plan that runs, waits, or has left effects open; in whichever phase.
    pub fn execution(&self) -> Option<&Execution> {
        match self.phase()? {
            Phase::Executing(execution) | Phase::Suspended(Suspension::Operator(execution)) => Some(execution),
            Phase::Cancelling(cancelling) => Some(&cancelling.execution),
            Phase::Ended(ended) => ended.execution.as_ref(),
            Phase::Deciding(_) | Phase::Suspended(Suspension::Approval(_) | Suspension::Clarification(_)) => None,
        }
    }

    pub(crate) fn execution_mut(&mut self) -> Option<&mut Execution> {
        match &mut self.run.as_deref_mut()?.phase {
            Phase::Executing(execution) | Phase::Suspended(Suspension::Operator(execution)) => Some(execution),
            Phase::Cancelling(cancelling) => Some(&mut cancelling.execution),
            Phase::Ended(ended) => ended.execution.as_mut(),
            Phase::Deciding(_) | Phase::Suspended(Suspension::Approval(_) | Suspension::Clarification(_)) => None,
        }
    }

    /// The current turn.
    pub fn turn(&self) -> (Step, Round) {
        match self.phase() {
            None => (Step(0), Round(0)),
            Some(Phase::Deciding(deciding)) => (deciding.step, deciding.round),
            Some(Phase::Executing(execution) | Phase::Suspended(Suspension::Operator(execution))) => {
                (execution.step, execution.round)
            }
            Some(Phase::Suspended(Suspension::Approval(pending))) => (pending.step, pending.requested.round),
            Some(Phase::Suspended(Suspension::Clarification(pending))) => (pending.step, pending.round),
            Some(Phase::Cancelling(cancelling)) => (cancelling.execution.step, cancelling.execution.round),
            Some(Phase::Ended(ended)) => (ended.step, ended.round),
        }
    }

    /// What a message caused by the event at `basis` carries.
    pub fn scope(&self, basis: Basis) -> Scope {
        let (step, round) = self.turn();
        let task_type = self.run.as_ref().map(|run| run.task_type.clone()).unwrap_or_else(|| "".into());
        Scope { tenant: self.tenant.clone(), invocation_id: self.id, task_type, step, round, basis }
    }

    pub(crate) fn place(&self, step: Step, round: Round) -> PlanPlace<'_> {
        PlanPlace { tenant: &self.tenant, invocation_id: self.id, step, round }
    }

    /// Whether some started effect has no certain outcome.
    pub fn has_unresolved_effects(&self) -> bool {
        self.execution().is_some_and(|execution| execution.calls.iter().any(|call| call.stage.is_unresolved()))
    }
}

impl Suspension {
    /// The reason of the terminal event that announced it.
    pub fn reason(&self) -> TerminalReason {
        match self {
            Self::Approval(_) => TerminalReason::ApprovalRequired,
            Self::Clarification(_) => TerminalReason::ClarificationRequired,
            Self::Operator(_) => TerminalReason::ReconciliationRequired,
        }
    }
}

impl Run {
    /// When this run's time is over: the deadline, or what is left of its active time, whichever comes first.
    pub fn ends_at(&self) -> Option<Timestamp> {
        let left = self.timing.max_runtime_ms.saturating_sub(self.active_ms);
        let runtime = self.active_since.map(|since| since.plus_ms(left));
        match (self.deadline, runtime) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Leaves a suspension: the next segment begins, and the active time runs again.
    pub(crate) fn resume(&mut self, at: Timestamp) {
        self.segment = self.segment.next();
        self.active_since = Some(at);
    }

    pub(crate) fn stop_clock(&mut self, at: Timestamp) {
        if let Some(since) = self.active_since.take() {
            self.active_ms = self.active_ms.saturating_add(at.ms_since(since));
        }
    }
}

impl Execution {
    pub(crate) fn call(&self, call_id: CallId) -> Option<(&PlannedCall, &CallState)> {
        let position = self.plan.position(call_id)?;
        Some((self.plan.calls.get(position)?, self.calls.get(position)?))
    }

    pub(crate) fn state_mut(&mut self, call_id: CallId) -> Option<&mut CallState> {
        let position = self.plan.position(call_id)?;
        self.calls.get_mut(position)
    }

    /// The call of this plan that was released under that key and is not settled, if any. There is at most one: calls
    /// with one key are in different waves.
    pub(crate) fn open_call(&self, key: &EffectKey) -> Option<CallId> {
        let mut calls = self.plan.calls.iter().zip(&self.calls);
        let open = calls.find(|(call, state)| {
            let released = !matches!(state.stage, Stage::Waiting | Stage::Settled(_));
            released && call.effect.as_ref().is_some_and(|effect| &effect.key == key)
        });
        open.map(|(call, _)| call.call_id)
    }
}

impl Stage {
    /// A started effect without a certain outcome.
    pub fn is_unresolved(&self) -> bool {
        matches!(self, Stage::Claimed(_) | Stage::Unknown(_) | Stage::Unanswerable { .. })
    }

    /// Something will still come of it by itself.
    pub(crate) fn is_in_flight(&self) -> bool {
        match self {
            Stage::Released { .. } | Stage::Claimed(_) | Stage::Backoff { .. } | Stage::Unknown(_) => true,
            Stage::Waiting | Stage::Unanswerable { .. } | Stage::Settled(_) => false,
        }
    }
}
