//! The closed vocabularies as Avro enums. Each has the whole vocabulary, and a last symbol that stands for one newer than
//! this build, which is dead-lettered as `unsupported`, never guessed at.

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
    Malformed, Oversize, TooDeep, UnknownVersion, Unsupported, TenantMismatch, SignatureRequired, SignatureInvalid, KeyMismatch, InvalidRequest,
    ExpiredRequest, RequestConflict, UnknownInvocation, QuotaExceeded, NothingWaits, WrongProposal, ApprovalExpired,
    SelfApproval, WrongQuestion, RepeatedAnswer, RetriesExhausted,
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
            p::Fact::ApprovalRequested(_) => Self::ApprovalRequested,
            p::Fact::ApprovalGranted { .. } => Self::ApprovalGranted,
            p::Fact::ApprovalRefused { .. } => Self::ApprovalRefused,
            p::Fact::ClarificationRequested { .. } => Self::ClarificationRequested,
            p::Fact::ClarificationGiven { .. } => Self::ClarificationGiven,
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

    /// Refuses an event newer than this build, before its body is read.
    pub fn known(self, field: &str) -> Result<(), Rejection> {
        if self == Self::Unrecognized { Err(unrecognized(field)) } else { Ok(()) }
    }
}

impl DecisionKind {
    pub fn of(decision: &p::AcceptedDecision) -> Self {
        match decision {
            p::AcceptedDecision::Final { .. } => Self::Final,
            p::AcceptedDecision::ToolCalls { .. } => Self::ToolCalls,
            p::AcceptedDecision::RequestApproval { .. } => Self::RequestApproval,
            p::AcceptedDecision::Clarification { .. } => Self::Clarification,
            p::AcceptedDecision::CannotContinue { .. } => Self::CannotContinue,
        }
    }

    /// Refuses a kind newer than this build, before the decision is read.
    pub fn known(self, field: &str) -> Result<(), Rejection> {
        if self == Self::Unrecognized { Err(unrecognized(field)) } else { Ok(()) }
    }
}

/// A symbol this build does not know.
pub fn unrecognized(field: &str) -> Rejection {
    Rejection::new(DeadLetterCode::Unsupported, field, "is newer than this version; upgrade the service that read it")
}
