//! The effect ledger (M16, M19): one entry per Effect Key, its moves, and what an owner's word does to it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AttemptId, AttemptNumber, CallError, CallId, CallOutcome, Digest, EffectKey, EffectStatus, Receipt, Timestamp,
    ToolName,
};

/// What the ledger keeps of one business change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    pub key: EffectKey,
    pub call_ids: Vec<CallId>,
    pub tool: ToolName,
    pub owner: String,
    /// Digest of the request's canonical arguments: one key has one request (I1).
    pub request_fingerprint: Digest,
    pub status: EffectStatus,
    pub attempts: Vec<AttemptRecord>,
    /// The recorded outcome, once settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EffectOutcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<ResolvedBy>,
    /// The owner said so at least once: "not applied as of then" (never final without a tombstone).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applied_at: Option<Timestamp>,
    /// A certain answer contradicted the recorded one.
    #[serde(default)]
    pub conflicting: bool,
}

/// One claimed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    pub attempt_id: AttemptId,
    pub number: AttemptNumber,
    pub claimed_at: Timestamp,
    pub lease_until: Timestamp,
}

/// The most attempts the ledger lists per effect; older ones are dropped first.
pub const MAX_ATTEMPT_RECORDS: usize = 16;

/// A certain answer about an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum EffectOutcome {
    Committed {
        #[serde(default)]
        receipt: Option<Receipt>,
        output: Value,
    },
    Rejected {
        error: CallError,
    },
}

impl EffectOutcome {
    pub fn status(&self) -> EffectStatus {
        match self {
            Self::Committed { .. } => EffectStatus::Committed,
            Self::Rejected { .. } => EffectStatus::Rejected,
        }
    }

    /// Whether two answers say the same of the effect. The owner's ID decides where both name one.
    pub fn agrees_with(&self, other: &EffectOutcome) -> bool {
        match (self, other) {
            (Self::Committed { receipt: a, .. }, Self::Committed { receipt: b, .. }) => match (a, b) {
                (Some(a), Some(b)) => a.effect_id == b.effect_id,
                _ => true,
            },
            (Self::Rejected { .. }, Self::Rejected { .. }) => true,
            (Self::Committed { .. }, Self::Rejected { .. }) | (Self::Rejected { .. }, Self::Committed { .. }) => false,
        }
    }

    /// The outcome of a call that this answer settles.
    pub fn call_outcome(&self, attempt_id: Option<AttemptId>, attempts: u32) -> CallOutcome {
        let (result, receipt) = match self {
            Self::Committed { receipt, output } => (crate::CallResult::Output(output.clone()), receipt.clone()),
            Self::Rejected { error } => (crate::CallResult::Error(error.clone()), None),
        };
        CallOutcome { result, attempt_id, attempts, effect_status: Some(self.status()), receipt }
    }
}

/// Who brought the certain answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ResolvedBy {
    Executor,
    Reconciler,
    Operator { actor: crate::Actor, evidence: String },
}

/// An owner's answer, by the reconciler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Answer {
    Certain {
        outcome: EffectOutcome,
    },
    /// The owner does not know the key.
    NotApplied,
    Pending {
        retry_after_ms: u64,
    },
    Unanswerable {
        why: String,
    },
}

/// One line of a terminal event's list of effects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectSummary {
    pub key: EffectKey,
    pub tool: ToolName,
    pub owner: String,
    pub status: EffectStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// "Not applied as of": the owner's last such word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applied_at: Option<Timestamp>,
}

impl LedgerEntry {
    pub fn summary(&self) -> EffectSummary {
        let receipt = match &self.outcome {
            Some(EffectOutcome::Committed { receipt, .. }) => receipt.clone(),
            Some(EffectOutcome::Rejected { .. }) | None => None,
        };
        EffectSummary {
            key: self.key.clone(),
            tool: self.tool.clone(),
            owner: self.owner.clone(),
            status: self.status,
            receipt,
            not_applied_at: self.not_applied_at,
        }
    }

    /// Moves to `next`; an error is an illegal move of M16.
    pub fn move_to(&mut self, next: EffectStatus) -> Result<(), IllegalMove> {
        use EffectStatus::{Committed, Dispatched, OutcomeUnknown, Prepared, Reconciling, Rejected};
        let legal = match (self.status, next) {
            (Prepared, Dispatched)
            | (Dispatched, Prepared | Committed | Rejected | OutcomeUnknown)
            | (OutcomeUnknown, Reconciling)
            | (Reconciling, Prepared | OutcomeUnknown)
            | (Prepared | OutcomeUnknown | Reconciling, Committed | Rejected) => true,
            (Prepared | Dispatched | OutcomeUnknown | Reconciling | Committed | Rejected, _) => false,
        };
        if !legal {
            return Err(IllegalMove { from: self.status, to: next });
        }
        self.status = next;
        Ok(())
    }
}

/// A move that M16 does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an effect does not move from {from:?} to {to:?}")]
pub struct IllegalMove {
    pub from: EffectStatus,
    pub to: EffectStatus,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn entry(key: &str) -> LedgerEntry {
        LedgerEntry {
            key: key.into(),
            call_ids: Vec::new(),
            tool: "refund".into(),
            owner: "payments".into(),
            request_fingerprint: Digest::default(),
            status: EffectStatus::Prepared,
            attempts: Vec::new(),
            outcome: None,
            resolved_by: None,
            not_applied_at: None,
            conflicting: false,
        }
    }

    #[test]
    fn an_effect_is_settled_exactly_where_no_move_leads_on() {
        use EffectStatus::{Committed, Dispatched, OutcomeUnknown, Prepared, Reconciling, Rejected};
        let all = [Prepared, Dispatched, OutcomeUnknown, Reconciling, Committed, Rejected];
        for status in all {
            let moves = |next| LedgerEntry { status, ..entry("k") }.move_to(next).is_ok();
            assert_eq!(status.is_settled(), !all.into_iter().any(moves), "{status:?}");
        }
    }
}
