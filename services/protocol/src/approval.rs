//! Approvals and questions (M23): what a person is shown before a run goes on. Who may answer, and how the answer was
//! proven, is not known here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Actor, CallId, Digest, EffectKey, ModelEvidence, Plan, PlanMark, Round, Segment, Step, Timestamp, ToolName,
    canonical_digest,
};

/// The longest time a proposal may wait for its approval, whatever a policy says: a year.
pub const MAX_APPROVAL_TTL_MS: u64 = 366 * 24 * 60 * 60 * 1_000;

/// Why a call waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalReason {
    /// Path in the decision, such as `calls[1]`; a path that names no call stands for the whole batch.
    pub path: String,
    /// The rule that asks for it.
    pub policy: String,
    pub message: String,
}

impl ApprovalReason {
    /// The model itself proposed to ask (`request_approval`).
    pub fn asked_by_model() -> Self {
        let message = "the model asks for an approval of these calls".to_owned();
        Self { path: "calls".to_owned(), policy: "request_approval".to_owned(), message }
    }

    /// Whether this reason is about the call at that position of the batch.
    pub fn gates(&self, position: usize) -> bool {
        let named = self.path.strip_prefix("calls[").and_then(|rest| rest.split_once(']'));
        match named.and_then(|(ordinal, _)| ordinal.parse::<usize>().ok()) {
            Some(ordinal) => ordinal == position,
            None => true,
        }
    }
}

/// What an approval must be for, and how long it may be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    pub reasons: Vec<ApprovalReason>,
    /// The approver must be another than the run's actor (S3).
    pub four_eyes: bool,
    /// Absent: the run's own `approval_ttl_ms`.
    pub ttl_ms: Option<u64>,
}

/// A batch that waits for a person. The plan is kept as it will run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The segment that this ends.
    pub segment: Segment,
    pub round: Round,
    pub plan: Plan,
    pub mark: PlanMark,
    /// What an approval must name.
    pub proposal_digest: Digest,
    pub reasons: Vec<ApprovalReason>,
    pub expires_at: Timestamp,
    pub four_eyes: bool,
    pub evidence: ModelEvidence,
    pub registry_digest: Digest,
    pub policy_digest: Digest,
}

/// Why a proposal did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// A person said no.
    Refused,
    /// Nobody answered in time.
    Expired,
}

/// The exact proposal, as the caller sees it. With the tenant, invocation, step and round of the message that carries it,
/// it holds everything that the digest covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    pub digest: Digest,
    pub calls: Vec<GatedCall>,
    pub reasons: Vec<ApprovalReason>,
    pub expires_at: Timestamp,
    pub four_eyes: bool,
    pub policy_digest: Digest,
}

/// One call of a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatedCall {
    pub call_id: CallId,
    pub tool: ToolName,
    pub arguments: Value,
    /// Absent for a read.
    pub effect_key: Option<EffectKey>,
}

impl ApprovalRequested {
    /// What the caller is shown.
    pub fn proposal(&self) -> Proposal {
        let calls = self.plan.calls.iter().map(|call| GatedCall {
            call_id: call.call_id,
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            effect_key: call.effect.as_ref().map(|effect| effect.key.clone()),
        });
        Proposal {
            digest: self.proposal_digest,
            calls: calls.collect(),
            reasons: self.reasons.clone(),
            expires_at: self.expires_at,
            four_eyes: self.four_eyes,
            policy_digest: self.policy_digest,
        }
    }

    /// Why the run waits, for people.
    pub fn detail(&self) -> String {
        let reasons: Vec<String> =
            self.reasons.iter().map(|reason| format!("{}: {}", reason.path, reason.message)).collect();
        reasons.join("; ")
    }
}

/// A proposal in a person's hands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingApproval {
    pub step: Step,
    pub requested: ApprovalRequested,
    /// Set only inside the commit that consumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ApprovalAnswer>,
}

/// What became of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAnswer {
    Granted,
    Refused,
}

/// A question in a person's hands. One step asks at most one, so that the step names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingClarification {
    pub step: Step,
    pub round: Round,
    pub question: String,
    pub evidence: ModelEvidence,
    /// Set only inside the commit that consumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// The digest of an answer, by which one that names no question is recognised when it comes again.
pub(crate) fn answer_digest(actor: &Actor, answer: &Value) -> Digest {
    canonical_digest("clarification", &serde_json::json!([actor, answer]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_gates_the_call_it_names_and_without_a_name_the_whole_batch() {
        let reason = |path: &str| ApprovalReason { path: path.into(), policy: "p".into(), message: "m".into() };
        assert!(reason("calls[1]").gates(1) && !reason("calls[1]").gates(0));
        assert!(reason("calls[10].arguments.amount").gates(10) && !reason("calls[10].arguments.amount").gates(1));
        assert!(reason("calls").gates(0) && reason("calls").gates(7) && reason("calls[x]").gates(3));
        assert!(ApprovalReason::asked_by_model().gates(0));
    }
}
