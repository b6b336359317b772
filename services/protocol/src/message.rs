//! What the services say to each other: the protocol's side of every internal topic and of the terminal event.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AcceptedDecision, Actor, AgentName, Answer, ApprovalReason, AttemptId, AttemptNumber, AttemptOutcome, Basis,
    Budget, CallId, Digest, EffectKey, EffectOutcome, EffectSummary, Epoch, Event, EventId, Finding, InvocationId,
    PlanMark, Probe, Proposal, Round, Segment, Spent, Step, TaskType, Tenant, TerminalReason, Timestamp, ToolName,
    Usage, Version,
};

/// What every internal message carries and every answer echoes: whose it is, which turn, and its basis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    pub tenant: Tenant,
    pub invocation_id: InvocationId,
    pub task_type: TaskType,
    pub step: Step,
    pub round: Round,
    pub basis: Basis,
}

/// `turns`: ask the model for this turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReady {
    pub scope: Scope,
    pub actor: Actor,
    pub agent: AgentName,
    /// What the agent may use in this run.
    pub tools: Vec<ToolName>,
    pub budget: Budget,
    pub spent: Spent,
    /// The effective end of the run, by the store's clock.
    pub deadline: Timestamp,
    /// The last plan's fingerprint, and how often in a row it has stood.
    pub last_plan: Option<PlanMark>,
    pub output_schema: Option<Value>,
    pub profile_digest: Digest,
}

/// `decisions`: the untrusted answer, with the whole turn echoed, so that validation needs no store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionProposed {
    pub turn: TurnReady,
    pub answer: ModelAnswer,
}

/// What came of asking the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ModelAnswer {
    /// The text of a decision, in the union's JSON form, not yet judged.
    Proposed { body: String, evidence: ModelEvidence },
    /// The provider gave no decision within its retry budget.
    Failed { message: String },
}

/// What is kept of a model's answer (M24): no hidden reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEvidence {
    pub response_id: String,
    pub model: String,
    pub usage: Usage,
    pub context_digest: Digest,
}

/// `verdicts`: validation's judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub scope: Scope,
    pub judgement: Judgement,
    pub registry_digest: Digest,
    pub policy_digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Judgement {
    Accepted {
        decision: AcceptedDecision,
        evidence: ModelEvidence,
    },
    /// Valid and allowed, once a person approves exactly this batch.
    ApprovalRequired {
        decision: AcceptedDecision,
        /// Why, per call; never empty.
        reasons: Vec<ApprovalReason>,
        /// The approver must be another than the run's actor (S3).
        four_eyes: bool,
        /// How long the proposal may wait; absent: the run's own `approval_ttl_ms`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_ms: Option<u64>,
        evidence: ModelEvidence,
    },
    Rejected {
        findings: Vec<Finding>,
        evidence: ModelEvidence,
    },
    DecisionFailed {
        message: String,
    },
}

/// `dispatches`: the one instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallDispatched {
    pub scope: Scope,
    pub actor: Actor,
    pub call_id: CallId,
    pub attempt: AttemptNumber,
    pub tool: ToolName,
    pub arguments: Value,
    /// Absent for a read.
    pub effect: Option<DispatchedEffect>,
    pub epoch: Epoch,
    /// How long this attempt may take.
    pub timeout_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchedEffect {
    pub key: EffectKey,
    pub request_fingerprint: Digest,
}

/// `results`: what one attempt came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallSettled {
    pub scope: Scope,
    pub call_id: CallId,
    pub attempt: AttemptNumber,
    pub attempt_id: AttemptId,
    /// Absent for a read.
    pub effect_key: Option<EffectKey>,
    pub outcome: AttemptOutcome,
}

/// `outcome-unknown`: ask the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectQueried {
    pub scope: Scope,
    pub call_id: CallId,
    pub effect_key: EffectKey,
    pub attempt_id: AttemptId,
    pub probe: Probe,
    pub tool: ToolName,
    pub owner: String,
    pub request_fingerprint: Digest,
    pub unknown_since: Timestamp,
    pub lease_until: Timestamp,
    /// No other attempt is to follow, and the owner takes tombstones: where it does not know the key, it is asked to close
    /// it, so that "never applied" is final.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seal: bool,
}

/// `resolutions`: what the owner said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectAnswered {
    pub scope: Scope,
    pub call_id: CallId,
    pub effect_key: EffectKey,
    pub attempt_id: AttemptId,
    pub probe: Probe,
    pub answer: Answer,
}

/// `terminals`: a segment has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    pub scope: Scope,
    pub actor: Actor,
    pub agent: AgentName,
    pub segment: Segment,
    pub reason: TerminalReason,
    /// More segments may follow.
    pub resumable: bool,
    pub answer: Option<Value>,
    /// What waits for an approval, exactly as it would run.
    pub proposal: Option<Proposal>,
    /// What the model asks.
    pub question: Option<String>,
    /// What led here, for people.
    pub detail: String,
    pub effects: Vec<EffectSummary>,
    /// Some effect was started and its outcome is not known: reconcile before asking again.
    pub effects_unresolved: bool,
    pub spent: Spent,
    pub requested_at: Timestamp,
    pub ended_at: Timestamp,
}

/// `events`: all events of one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsCommitted {
    pub scope: Scope,
    pub events: Vec<Event>,
}

impl EventsCommitted {
    /// The version of the first event.
    pub fn first_version(&self) -> Version {
        self.events.first().map(|event| event.version).unwrap_or_default()
    }
}

/// What the outbox must say because of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub event_id: EventId,
    pub message: Message,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    TurnReady(Box<TurnReady>),
    ToolCallDispatched(Box<ToolCallDispatched>),
    EffectQueried(Box<EffectQueried>),
    RunEnded(Box<RunEnded>),
    EventsCommitted(Box<EventsCommitted>),
}

/// `controls`: what callers, approvers and operators say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    Cancel {
        actor: Actor,
        reason: String,
    },
    /// Counts for the proposal with this digest and for no other.
    Approve {
        actor: Actor,
        proposal_digest: Digest,
    },
    Reject {
        actor: Actor,
        proposal_digest: Digest,
        reason: String,
    },
    Clarify {
        actor: Actor,
        answer: Value,
        /// The step whose question is answered. An answer that names none counts once in a run, so that it never answers
        /// the next question when it is delivered again.
        step: Option<Step>,
    },
    ResolveEffect {
        actor: Actor,
        effect_key: EffectKey,
        outcome: EffectOutcome,
        evidence: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fact;

    #[test]
    fn a_record_of_events_starts_at_its_first_events_version() {
        let fact = || Fact::ClarificationGiven { actor: "ada".into(), answer: Value::Null };
        let event = |n| Event::seal(Version(n), Digest::default(), Step(1), Timestamp(0), fact());
        let scope = Scope {
            tenant: "acme".into(),
            invocation_id: InvocationId(uuid::Uuid::nil()),
            task_type: "refund".into(),
            step: Step(1),
            round: Round(0),
            basis: event(6).basis(),
        };
        let committed = EventsCommitted { scope, events: vec![event(5), event(6)] };
        assert_eq!(committed.first_version(), Version(5));
    }
}
