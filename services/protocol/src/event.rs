//! Events: the only facts. Hash-chained, so that a basis proves what a message was based on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AcceptedDecision, Actor, AgentName, ApprovalRequested, AttemptId, AttemptNumber, Basis, Budget, CallError, CallId,
    CallOutcome, Digest, EffectKey, EffectOutcome, EffectStatus, Epoch, Finding, InvocationId, MixedBatches,
    ModelEvidence, Plan, PlanMark, Probe, ProgressLimits, RefusalReason, Request, ResolvedBy, Round, Segment, Spent,
    Step, TerminalReason, Timestamp, Timing, ToolName, TurnProgress, Version,
};

/// One committed fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The state version this event makes: 1 for the first.
    pub version: Version,
    /// The predecessor's hash; all zero for the first.
    pub previous: Digest,
    pub hash: Digest,
    pub step: Step,
    /// The store's time of the decision.
    pub at: Timestamp,
    pub fact: Fact,
}

/// What happened. Whatever a bound or a fold counts has a fact here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Fact {
    Admitted(Box<Admitted>),
    TurnPlanned(Box<TurnPlanned>),
    DecisionRejected {
        round: Round,
        findings: Vec<Finding>,
        evidence: ModelEvidence,
        repair: bool,
    },
    /// The segment ends; the run waits for a person.
    ApprovalRequested(Box<ApprovalRequested>),
    /// Consumes the approval: exactly this proposal is planned by the same commit.
    ApprovalGranted {
        proposal_digest: Digest,
        actor: Actor,
    },
    /// Nobody is named where it expired.
    ApprovalRefused {
        proposal_digest: Digest,
        actor: Option<Actor>,
        why: RefusalReason,
        detail: String,
    },
    /// The segment ends; the run waits for an answer.
    ClarificationRequested {
        segment: Segment,
        round: Round,
        question: String,
        evidence: ModelEvidence,
    },
    ClarificationGiven {
        actor: Actor,
        answer: Value,
    },
    WaveReleased {
        wave: u32,
        calls: Vec<CallId>,
        /// The shard's epoch at the release.
        #[serde(default, skip_serializing_if = "Epoch::is_first")]
        epoch: Epoch,
    },
    CallReleased {
        call_id: CallId,
        attempt: AttemptNumber,
        why: ReleaseReason,
        #[serde(default, skip_serializing_if = "Epoch::is_first")]
        epoch: Epoch,
    },
    CallClaimed {
        call_id: CallId,
        attempt: AttemptNumber,
        attempt_id: AttemptId,
        effect_key: EffectKey,
        lease_until: Timestamp,
    },
    AttemptFailed {
        call_id: CallId,
        attempt: AttemptNumber,
        error: CallError,
        retry_at: Timestamp,
    },
    /// `by` is absent where the protocol itself settled it: skipped, cancelled, timed out, recorded before.
    CallSettled {
        call_id: CallId,
        outcome: CallOutcome,
        by: Option<ResolvedBy>,
    },
    EffectUnknown {
        call_id: CallId,
        effect_key: EffectKey,
        attempt_id: AttemptId,
        error: CallError,
    },
    ProbeRequested {
        call_id: CallId,
        effect_key: EffectKey,
        attempt_id: AttemptId,
        probe: Probe,
    },
    EffectResolved {
        call_id: CallId,
        effect_key: EffectKey,
        attempt_id: AttemptId,
        probe: Probe,
        resolution: Resolution,
    },
    EffectConflict {
        effect_key: EffectKey,
        recorded: EffectStatus,
        claimed: EffectOutcome,
        by: ResolvedBy,
    },
    TurnReissued {
        round: Round,
        count: u32,
    },
    TurnCommitted(Box<TurnCommitted>),
    CancelRequested {
        reason: TerminalReason,
        actor: Option<Actor>,
        detail: String,
    },
    ReconciliationRequired {
        segment: Segment,
        effects: Vec<EffectKey>,
        detail: String,
    },
    Ended {
        segment: Segment,
        reason: TerminalReason,
        answer: Option<Value>,
        detail: String,
    },
    EffectSettledLate {
        call_id: CallId,
        effect_key: EffectKey,
        outcome: EffectOutcome,
        by: ResolvedBy,
    },
}

impl Fact {
    /// The fact's name, as it stands on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Admitted(_) => "admitted",
            Self::TurnPlanned(_) => "turn_planned",
            Self::DecisionRejected { .. } => "decision_rejected",
            Self::ApprovalRequested(_) => "approval_requested",
            Self::ApprovalGranted { .. } => "approval_granted",
            Self::ApprovalRefused { .. } => "approval_refused",
            Self::ClarificationRequested { .. } => "clarification_requested",
            Self::ClarificationGiven { .. } => "clarification_given",
            Self::WaveReleased { .. } => "wave_released",
            Self::CallReleased { .. } => "call_released",
            Self::CallClaimed { .. } => "call_claimed",
            Self::AttemptFailed { .. } => "attempt_failed",
            Self::CallSettled { .. } => "call_settled",
            Self::EffectUnknown { .. } => "effect_unknown",
            Self::ProbeRequested { .. } => "probe_requested",
            Self::EffectResolved { .. } => "effect_resolved",
            Self::EffectConflict { .. } => "effect_conflict",
            Self::TurnReissued { .. } => "turn_reissued",
            Self::TurnCommitted(_) => "turn_committed",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::ReconciliationRequired { .. } => "reconciliation_required",
            Self::Ended { .. } => "ended",
            Self::EffectSettledLate { .. } => "effect_settled_late",
        }
    }
}

/// The request as accepted, with everything that must not move under the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    pub invocation_id: InvocationId,
    pub request: Request,
    pub request_digest: Digest,
    /// The request's own time, or its record's.
    pub requested_at: Timestamp,
    pub agent: AgentName,
    pub tools: Vec<ToolName>,
    pub budget: Budget,
    pub timing: Timing,
    pub mixed_batches: MixedBatches,
    pub progress: ProgressLimits,
    pub profile_digest: Digest,
}

/// A batch accepted for execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnPlanned {
    pub round: Round,
    pub plan: Plan,
    pub mark: PlanMark,
    pub proposal_digest: Digest,
    pub evidence: ModelEvidence,
    pub registry_digest: Digest,
    pub policy_digest: Digest,
}

/// A turn is over: decision, complete results in proposal order, usage, evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCommitted {
    pub round: Round,
    pub decision: AcceptedDecision,
    pub results: Vec<TurnResult>,
    pub evidence: ModelEvidence,
    pub mark: Option<PlanMark>,
    /// Spending after this turn.
    pub spent: Spent,
    /// What the turn has moved, and where the signals of no progress stand after it.
    pub progress: TurnProgress,
}

/// One call's outcome, at its place in the proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnResult {
    pub call_id: CallId,
    pub provider_call_id: String,
    pub tool: ToolName,
    pub outcome: CallOutcome,
}

/// Why a call was released again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseReason {
    /// The retry timer of a failed attempt.
    Retry,
    /// Nobody started the attempt before.
    Unclaimed,
    /// The owner says the attempt before was not applied.
    NotApplied,
}

/// What a probe brought that settles nothing for certain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Resolution {
    NotApplied,
    Pending { next_probe_at: Timestamp },
    Unanswerable { why: String },
}

impl Event {
    /// The event that follows `previous` at `version`.
    pub fn seal(version: Version, previous: Digest, step: Step, at: Timestamp, fact: Fact) -> Self {
        let hash = Self::hash_of(version, &previous, step, at, &fact);
        Self { version, previous, hash, step, at, fact }
    }

    /// What a message caused by this event carries.
    pub fn basis(&self) -> Basis {
        Basis { version: self.version, hash: self.hash }
    }

    /// Whether the hash is the one its own content and predecessor give.
    pub fn is_authentic(&self) -> bool {
        self.hash == Self::hash_of(self.version, &self.previous, self.step, self.at, &self.fact)
    }

    /// Over the predecessor's hash, the event's place and the fact's JSON, exactly as it is stored and published, so that
    /// a reader in any language can check the chain without a canonical form.
    fn hash_of(version: Version, previous: &Digest, step: Step, at: Timestamp, fact: &Fact) -> Digest {
        let fact = serde_json::to_vec(fact).expect("a fact is always JSON");
        let place = format!("{version}/{step}/{at}");
        Digest::of("event", &[&previous.0, place.as_bytes(), &fact])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Event {
        let fact = Fact::CancelRequested { reason: TerminalReason::Cancelled, actor: None, detail: "enough".into() };
        Event::seal(Version(3), Digest::of("before", &[]), Step(2), Timestamp(1_700_000_000_000), fact)
    }

    #[test]
    fn a_hash_is_made_of_the_predecessors_the_place_and_the_facts_json() {
        let event = sealed();
        let fact = r#"{"type":"cancel_requested","reason":"cancelled","actor":null,"detail":"enough"}"#;
        let parts = [&event.previous.0[..], b"3/2/1700000000000", fact.as_bytes()];
        assert_eq!(event.hash, Digest::of("event", &parts));
    }

    #[test]
    fn an_event_of_which_anything_was_changed_is_not_authentic() {
        let changes: [fn(&mut Event); 6] = [
            |event| event.version = event.version.next(),
            |event| event.previous = Digest::of("another", &[]),
            |event| event.hash = Digest::default(),
            |event| event.step = event.step.next(),
            |event| event.at = event.at.plus_ms(1),
            |event| event.fact = Fact::ClarificationGiven { actor: "ada".into(), answer: Value::Null },
        ];
        assert!(sealed().is_authentic());
        for change in changes {
            let mut changed = sealed();
            change(&mut changed);
            assert!(!changed.is_authentic(), "{changed:?}");
        }
    }
}
