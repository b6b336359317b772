//! The closed vocabularies as Avro enums. Each has the whole vocabulary, what the core does not do yet included, and
//! a last symbol that stands for one newer than this build: both are dead-lettered as `unsupported`, never guessed at.

use protocol as p;
use serde::{Deserialize, Serialize};

use crate::{DeadLetterCode, Rejection};

macro_rules! symbols {
    ($(#[$doc:meta])* $name:ident { $($symbol:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($symbol,)*
            #[serde(other)]
            Unrecognized,
        }

        impl $name {
            /// Every symbol that may be written, in the schema's order.
            #[cfg(test)]
            pub const ALL: &[Self] = &[$(Self::$symbol),*];
        }
    };
}

/// A vocabulary whose symbols are exactly the core's variants.
macro_rules! mirrored {
    ($(#[$doc:meta])* $name:ident of $core:path { $($symbol:ident),* $(,)? }) => {
        symbols!($(#[$doc])* $name { $($symbol),* });

        impl From<$core> for $name {
            fn from(core: $core) -> Self {
                match core {
                    $(<$core>::$symbol => Self::$symbol,)*
                }
            }
        }

        impl $name {
            /// The core's variant.
            pub fn core(self, field: &str) -> Result<$core, Rejection> {
                match self {
                    $(Self::$symbol => Ok(<$core>::$symbol),)*
                    Self::Unrecognized => Err(unrecognized(field)),
                }
            }
        }
    };
}

mirrored!(TerminalReason of p::TerminalReason {
    Completed, CannotContinue, Cancelled, DeadlineExceeded, MaxSteps, ToolBudgetExhausted, TokenBudgetExhausted,
    CostBudgetExhausted, NoProgress, InvalidDecision, PermissionDenied, ModelError, ToolUnavailable, CheckpointFailed,
    InvalidRequest, ApprovalRequired, ClarificationRequired, ReconciliationRequired,
});

mirrored!(ErrorClass of p::ErrorClass {
    InvalidArguments, Unauthorized, NotFound, Conflict, BusinessRejected, RateLimited, Timeout, Unavailable,
    OutcomeUnknown, Cancelled, Skipped, OutputInvalid, OutputTooLarge, Internal,
});

mirrored!(EffectStatus of p::EffectStatus {
    Prepared, Dispatched, OutcomeUnknown, Reconciling, Committed, Rejected,
});

mirrored!(FindingCode of p::FindingCode {
    Malformed, UnknownKind, UnknownField, UnknownVersion, Unsupported, EmptyBatch, TooManyCalls, MissingCallId,
    DuplicateCallId, UnknownTool, ToolNotAllowed, InvalidArguments, TooLarge, TooDeep, Unauthorized, BudgetExceeded,
    InvalidAnswer, PlanRefused, NoProgress, NoDecision,
});

mirrored!(LetterCode of DeadLetterCode {
    Malformed, Oversize, TooDeep, UnknownVersion, Unsupported, TenantMismatch, KeyMismatch, InvalidRequest,
    ExpiredRequest, RequestConflict, UnknownInvocation, QuotaExceeded, RetriesExhausted,
});

symbols!(
    /// The closed decision union.
    DecisionKind { Final, ToolCalls, RequestApproval, Clarification, CannotContinue }
);

symbols!(ControlKind { Cancel, Approve, Reject, Clarify, ResolveEffect });

symbols!(
    /// What the owner of an effect said.
    OwnerAnswer { Committed, Rejected, NotApplied, Pending, Unanswerable }
);

symbols!(
    /// How an effect stands for certain, by a person's word.
    ResolvedOutcome { Committed, Rejected }
);

symbols!(VerdictKind { Accepted, ApprovalRequired, Rejected, DecisionFailed });

symbols!(AttemptResult { Succeeded, Failed, NothingSent, Unknown });

symbols!(ModelAnswer { Proposed, Failed });

symbols!(
    /// Every event of the vocabulary.
    EventType {
        Admitted, TurnPlanned, DecisionRejected, ApprovalRequested, ApprovalGranted, ApprovalRefused,
        ClarificationRequested, ClarificationGiven, WaveReleased, CallReleased, CallClaimed, AttemptFailed, CallSettled,
        EffectUnknown, ProbeRequested, EffectResolved, EffectConflict, TurnReissued, TurnCommitted, CancelRequested,
        ReconciliationRequired, Ended, EffectSettledLate,
    }
);

impl EventType {
    pub fn of(fact: &p::Fact) -> Self {
        match fact {
            p::Fact::Admitted(_) => Self::Admitted,
            p::Fact::TurnPlanned(_) => Self::TurnPlanned,
            p::Fact::DecisionRejected { .. } => Self::DecisionRejected,
            p::Fact::WaveReleased { .. } => Self::WaveReleased,
            p::Fact::CallReleased { .. } => Self::CallReleased,
            p::Fact::CallClaimed { .. } => Self::CallClaimed,
            p::Fact::AttemptFailed { .. } => Self::AttemptFailed,
            p::Fact::CallSettled { .. } => Self::CallSettled,
            p::Fact::EffectUnknown { .. } => Self::EffectUnknown,
            p::Fact::ProbeRequested { .. } => Self::ProbeRequested,
            p::Fact::EffectResolved { .. } => Self::EffectResolved,
            p::Fact::EffectConflict { .. } => Self::EffectConflict,
            p::Fact::TurnReissued { .. } => Self::TurnReissued,
            p::Fact::TurnCommitted(_) => Self::TurnCommitted,
            p::Fact::CancelRequested { .. } => Self::CancelRequested,
            p::Fact::ReconciliationRequired { .. } => Self::ReconciliationRequired,
            p::Fact::Ended { .. } => Self::Ended,
            p::Fact::EffectSettledLate { .. } => Self::EffectSettledLate,
        }
    }

    /// Refuses an event that the core has no behaviour for, before its body is read.
    pub fn supported(self, field: &str) -> Result<(), Rejection> {
        match self {
            Self::Admitted
            | Self::TurnPlanned
            | Self::DecisionRejected
            | Self::WaveReleased
            | Self::CallReleased
            | Self::CallClaimed
            | Self::AttemptFailed
            | Self::CallSettled
            | Self::EffectUnknown
            | Self::ProbeRequested
            | Self::EffectResolved
            | Self::EffectConflict
            | Self::TurnReissued
            | Self::TurnCommitted
            | Self::CancelRequested
            | Self::ReconciliationRequired
            | Self::Ended
            | Self::EffectSettledLate => Ok(()),
            Self::ApprovalRequested => Err(unsupported(field, "approval_requested")),
            Self::ApprovalGranted => Err(unsupported(field, "approval_granted")),
            Self::ApprovalRefused => Err(unsupported(field, "approval_refused")),
            Self::ClarificationRequested => Err(unsupported(field, "clarification_requested")),
            Self::ClarificationGiven => Err(unsupported(field, "clarification_given")),
            Self::Unrecognized => Err(unrecognized(field)),
        }
    }
}

impl DecisionKind {
    pub fn of(decision: &p::AcceptedDecision) -> Self {
        match decision {
            p::AcceptedDecision::Final { .. } => Self::Final,
            p::AcceptedDecision::ToolCalls { .. } => Self::ToolCalls,
            p::AcceptedDecision::CannotContinue { .. } => Self::CannotContinue,
        }
    }

    /// Refuses a kind that the core cannot accept yet.
    pub fn supported(self, field: &str) -> Result<(), Rejection> {
        match self {
            Self::Final | Self::ToolCalls | Self::CannotContinue => Ok(()),
            Self::RequestApproval => Err(unsupported(field, "request_approval")),
            Self::Clarification => Err(unsupported(field, "clarification")),
            Self::Unrecognized => Err(unrecognized(field)),
        }
    }
}

/// A known symbol whose behaviour this build does not have.
pub fn unsupported(field: &str, symbol: &str) -> Rejection {
    Rejection::new(DeadLetterCode::Unsupported, field, format!("`{symbol}` is not supported by this version"))
}

/// A symbol this build does not know.
pub fn unrecognized(field: &str) -> Rejection {
    Rejection::new(DeadLetterCode::Unsupported, field, "is newer than this version; upgrade the service that read it")
}
