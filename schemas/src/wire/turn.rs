//! `turns`, `decisions` and `verdicts`: a turn on its way to a verdict.

use protocol as p;
use serde::{Deserialize, Serialize};

use super::Mapped;
use super::parts::{ApprovalReason, Budget, Finding, ModelEvidence, PlanMark, Spent, needed, scoped, with_scope};
use super::scalars::{Count, Hex, Id, Json, Time};
use super::symbols::{self, DecisionKind, VerdictKind, unrecognized};
use crate::{EncodeError, Limits, Rejection};

scoped!(TurnReady {
    actor: p::Actor,
    agent: p::AgentName,
    tools: Vec<p::ToolName>,
    budget: Budget,
    spent: Spent,
    deadline: Time,
    last_plan: Option<PlanMark>,
    output_schema: Option<Json>,
    profile_digest: Hex,
});

impl Mapped for p::TurnReady {
    type Wire = TurnReady;

    fn to_wire(&self, limits: &Limits) -> Result<TurnReady, EncodeError> {
        let schema = self.output_schema.as_ref();
        Ok(with_scope!(TurnReady, &self.scope, {
            actor: self.actor.clone(),
            agent: self.agent.clone(),
            tools: self.tools.clone(),
            budget: Budget::from(&self.budget),
            spent: Spent::from(&self.spent),
            deadline: Time(self.deadline),
            last_plan: self.last_plan.as_ref().map(PlanMark::from),
            output_schema: schema.map(|schema| Json::of("output_schema", schema, limits.field())).transpose()?,
            profile_digest: Hex(self.profile_digest),
        }))
    }

    fn from_wire(wire: TurnReady, limits: &Limits) -> Result<Self, Rejection> {
        let scope = wire.scope();
        let schema = wire.output_schema.map(|schema| schema.value("output_schema", limits.field()));
        Ok(Self {
            scope,
            actor: wire.actor,
            agent: wire.agent,
            tools: wire.tools,
            budget: wire.budget.into(),
            spent: wire.spent.into(),
            deadline: wire.deadline.0,
            last_plan: wire.last_plan.map(p::PlanMark::from),
            output_schema: schema.transpose()?,
            profile_digest: wire.profile_digest.0,
        })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.scope.invocation_id
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionProposed {
    pub turn: TurnReady,
    pub outcome: symbols::ModelAnswer,
    pub body: Option<String>,
    pub evidence: Option<ModelEvidence>,
    pub message: Option<String>,
}

impl Mapped for p::DecisionProposed {
    type Wire = DecisionProposed;

    fn to_wire(&self, limits: &Limits) -> Result<DecisionProposed, EncodeError> {
        let turn = self.turn.to_wire(limits)?;
        Ok(match &self.answer {
            p::ModelAnswer::Proposed { body, evidence } => DecisionProposed {
                turn,
                outcome: symbols::ModelAnswer::Proposed,
                body: Some(body.clone()),
                evidence: Some(evidence.into()),
                message: None,
            },
            p::ModelAnswer::Failed { message } => DecisionProposed {
                turn,
                outcome: symbols::ModelAnswer::Failed,
                body: None,
                evidence: None,
                message: Some(message.clone()),
            },
        })
    }

    fn from_wire(wire: DecisionProposed, limits: &Limits) -> Result<Self, Rejection> {
        let answer = match wire.outcome {
            symbols::ModelAnswer::Proposed => p::ModelAnswer::Proposed {
                body: needed(wire.body, "body", "proposed")?,
                evidence: needed(wire.evidence, "evidence", "proposed")?.into(),
            },
            symbols::ModelAnswer::Failed => {
                p::ModelAnswer::Failed { message: needed(wire.message, "message", "failed")? }
            }
            symbols::ModelAnswer::Unrecognized => return Err(unrecognized("outcome")),
        };
        Ok(Self { turn: p::TurnReady::from_wire(wire.turn, limits)?, answer })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.turn.scope.invocation_id
    }
}

scoped!(Verdict {
    kind: VerdictKind,
    decision_kind: Option<DecisionKind>,
    decision: Option<Json>,
    reasons: Vec<ApprovalReason>,
    four_eyes: bool,
    ttl_ms: Option<Count>,
    findings: Vec<Finding>,
    evidence: Option<ModelEvidence>,
    message: Option<String>,
    registry_digest: Hex,
    policy_digest: Hex,
});

impl Mapped for p::Verdict {
    type Wire = Verdict;

    fn to_wire(&self, limits: &Limits) -> Result<Verdict, EncodeError> {
        let mut wire = with_scope!(Verdict, &self.scope, {
            kind: VerdictKind::Accepted,
            decision_kind: None,
            decision: None,
            reasons: Vec::new(),
            four_eyes: false,
            ttl_ms: None,
            findings: Vec::new(),
            evidence: None,
            message: None,
            registry_digest: Hex(self.registry_digest),
            policy_digest: Hex(self.policy_digest),
        });
        match &self.judgement {
            p::Judgement::Accepted { decision, evidence } => {
                wire.decision_kind = Some(DecisionKind::of(decision));
                wire.decision = Some(Json::of_structure("decision", decision, limits.envelope())?);
                wire.evidence = Some(evidence.into());
            }
            p::Judgement::ApprovalRequired { decision, reasons, four_eyes, ttl_ms, evidence } => {
                wire.kind = VerdictKind::ApprovalRequired;
                wire.decision_kind = Some(DecisionKind::of(decision));
                wire.decision = Some(Json::of_structure("decision", decision, limits.envelope())?);
                wire.reasons = reasons.iter().map(ApprovalReason::from).collect();
                wire.four_eyes = *four_eyes;
                wire.ttl_ms = ttl_ms.map(Count);
                wire.evidence = Some(evidence.into());
            }
            p::Judgement::Rejected { findings, evidence } => {
                wire.kind = VerdictKind::Rejected;
                wire.findings = findings.iter().map(Finding::from).collect();
                wire.evidence = Some(evidence.into());
            }
            p::Judgement::DecisionFailed { message } => {
                wire.kind = VerdictKind::DecisionFailed;
                wire.message = Some(message.clone());
            }
        }
        Ok(wire)
    }

    fn from_wire(wire: Verdict, limits: &Limits) -> Result<Self, Rejection> {
        let scope = wire.scope();
        let judgement = match wire.kind {
            VerdictKind::Accepted => {
                let decision = decision(wire.decision_kind, wire.decision, "accepted", limits)?;
                p::Judgement::Accepted { decision, evidence: needed(wire.evidence, "evidence", "accepted")?.into() }
            }
            VerdictKind::ApprovalRequired => p::Judgement::ApprovalRequired {
                decision: decision(wire.decision_kind, wire.decision, "approval_required", limits)?,
                reasons: reasons(wire.reasons)?,
                four_eyes: wire.four_eyes,
                ttl_ms: wire.ttl_ms.map(|count| count.0),
                evidence: needed(wire.evidence, "evidence", "approval_required")?.into(),
            },
            VerdictKind::Rejected => p::Judgement::Rejected {
                findings: wire.findings.into_iter().map(Finding::core).collect::<Result<_, _>>()?,
                evidence: needed(wire.evidence, "evidence", "rejected")?.into(),
            },
            VerdictKind::DecisionFailed => {
                p::Judgement::DecisionFailed { message: needed(wire.message, "message", "decision_failed")? }
            }
            VerdictKind::Unrecognized => return Err(unrecognized("kind")),
        };
        Ok(Self { scope, judgement, registry_digest: wire.registry_digest.0, policy_digest: wire.policy_digest.0 })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.scope.invocation_id
    }
}

/// The decision that a verdict accepts or gates.
fn decision(
    kind: Option<DecisionKind>,
    decision: Option<Json>,
    verdict: &str,
    limits: &Limits,
) -> Result<p::AcceptedDecision, Rejection> {
    let kind = needed(kind, "decision_kind", verdict)?;
    kind.known("decision_kind")?;
    let decision = needed(decision, "decision", verdict)?;
    let decision: p::AcceptedDecision = decision.structure("decision", limits.envelope())?;
    if DecisionKind::of(&decision) != kind {
        let message = "is not the kind of `decision`";
        return Err(Rejection::new(crate::DeadLetterCode::Malformed, "decision_kind", message));
    }
    Ok(decision)
}

/// Why a batch is gated: at least one reason, since a refusal is told to the calls that the reasons name.
fn reasons(reasons: Vec<ApprovalReason>) -> Result<Vec<p::ApprovalReason>, Rejection> {
    if reasons.is_empty() {
        let message = "is required for `approval_required`";
        return Err(Rejection::new(crate::DeadLetterCode::Malformed, "reasons", message));
    }
    Ok(reasons.into_iter().map(p::ApprovalReason::from).collect())
}
