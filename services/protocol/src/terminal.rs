//! Typed termination (M5): a closed list, never a bare success flag.

use serde::{Deserialize, Serialize};

/// Why a run ended, or why a segment of it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalReason {
    Completed,
    CannotContinue,
    Cancelled,
    DeadlineExceeded,
    MaxSteps,
    ToolBudgetExhausted,
    TokenBudgetExhausted,
    CostBudgetExhausted,
    NoProgress,
    InvalidDecision,
    PermissionDenied,
    ModelError,
    ToolUnavailable,
    CheckpointFailed,
    InvalidRequest,
    /// Resumable: a person must approve or refuse the exact proposal.
    ApprovalRequired,
    /// Resumable: the model needs an answer.
    ClarificationRequired,
    /// Resumable: an unknown outcome is in a person's hands.
    ReconciliationRequired,
}

impl TerminalReason {
    pub const ALL: [TerminalReason; 18] = [
        Self::Completed,
        Self::CannotContinue,
        Self::Cancelled,
        Self::DeadlineExceeded,
        Self::MaxSteps,
        Self::ToolBudgetExhausted,
        Self::TokenBudgetExhausted,
        Self::CostBudgetExhausted,
        Self::NoProgress,
        Self::InvalidDecision,
        Self::PermissionDenied,
        Self::ModelError,
        Self::ToolUnavailable,
        Self::CheckpointFailed,
        Self::InvalidRequest,
        Self::ApprovalRequired,
        Self::ClarificationRequired,
        Self::ReconciliationRequired,
    ];

    /// Whether the run can go on in a further segment.
    pub fn is_resumable(self) -> bool {
        matches!(self, Self::ApprovalRequired | Self::ClarificationRequired | Self::ReconciliationRequired)
    }

    /// The reason as it stands on the wire, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::CannotContinue => "cannot_continue",
            Self::Cancelled => "cancelled",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::MaxSteps => "max_steps",
            Self::ToolBudgetExhausted => "tool_budget_exhausted",
            Self::TokenBudgetExhausted => "token_budget_exhausted",
            Self::CostBudgetExhausted => "cost_budget_exhausted",
            Self::NoProgress => "no_progress",
            Self::InvalidDecision => "invalid_decision",
            Self::PermissionDenied => "permission_denied",
            Self::ModelError => "model_error",
            Self::ToolUnavailable => "tool_unavailable",
            Self::CheckpointFailed => "checkpoint_failed",
            Self::InvalidRequest => "invalid_request",
            Self::ApprovalRequired => "approval_required",
            Self::ClarificationRequired => "clarification_required",
            Self::ReconciliationRequired => "reconciliation_required",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_one_name_everywhere() {
        for reason in TerminalReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
