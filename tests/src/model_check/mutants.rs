//! Planted bugs, to prove that the checker bites. Each stands around the real core, which is never changed.

use protocol::{
    Answer, AttemptOutcome, CallError, CallId, Cancelling, Control, EffectOutcome, EffectStatus, ErrorClass, Input,
    Invocation, Judgement, Ledger, Phase, Stage, Suspension, TerminalReason, TimerName, Timestamp,
};

use super::invariants::Invariant;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// An executor sends without asking.
    SkipClaim,
    /// An executor takes "revoked" for a grant.
    ClaimAfterCancel,
    /// A result goes to the first call that waits for one.
    MatchByPosition,
    /// An attempt without a certain answer is reported as if nothing had been sent.
    UnknownIsFailed,
    /// The call timer releases an effect of unknown outcome again, instead of asking its owner.
    RetryUnknown,
    /// What a commit says is published when it is decided.
    PublishBeforeCommit,
    /// The store takes a commit whatever it was decided on.
    NoVersionCheck,
    /// The outbox is kept in memory, and dies with its process.
    ForgetOutbox,
    /// The end is forgotten while effects are open: it comes a second time.
    EndTwice,
    /// "Not found" is taken for "it will never be".
    NotFoundIsNever,
    /// What policy wants a person to see first runs at once.
    SkipApproval,
    /// An approval is taken for whatever waits.
    ReuseApproval,
    /// An approval counts until somebody notices that its time is over.
    ApproveExpired,
    /// Budgets are checked when proposed, and not when committed.
    TrustProposal,
}

impl Mutant {
    pub const ALL: [Mutant; 14] = [
        Self::SkipClaim,
        Self::ClaimAfterCancel,
        Self::MatchByPosition,
        Self::UnknownIsFailed,
        Self::RetryUnknown,
        Self::PublishBeforeCommit,
        Self::NoVersionCheck,
        Self::ForgetOutbox,
        Self::EndTwice,
        Self::NotFoundIsNever,
        Self::SkipApproval,
        Self::ReuseApproval,
        Self::ApproveExpired,
        Self::TrustProposal,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::SkipClaim => "skip_claim",
            Self::ClaimAfterCancel => "claim_after_cancel",
            Self::MatchByPosition => "match_by_position",
            Self::UnknownIsFailed => "unknown_is_failed",
            Self::RetryUnknown => "retry_unknown",
            Self::PublishBeforeCommit => "publish_before_commit",
            Self::NoVersionCheck => "no_version_check",
            Self::ForgetOutbox => "forget_outbox",
            Self::EndTwice => "end_twice",
            Self::NotFoundIsNever => "not_found_is_never",
            Self::SkipApproval => "skip_approval",
            Self::ReuseApproval => "reuse_approval",
            Self::ApproveExpired => "approve_expired",
            Self::TrustProposal => "trust_proposal",
        }
    }

    /// What is there to catch it.
    pub fn breaks(self) -> Invariant {
        match self {
            Self::SkipClaim | Self::ClaimAfterCancel => Invariant::I7,
            Self::MatchByPosition => Invariant::I6,
            Self::UnknownIsFailed => Invariant::I1,
            Self::RetryUnknown => Invariant::I8,
            Self::PublishBeforeCommit => Invariant::I2,
            Self::NoVersionCheck => Invariant::I5,
            Self::ForgetOutbox => Invariant::I3,
            Self::EndTwice => Invariant::I4,
            Self::NotFoundIsNever => Invariant::I9,
            Self::SkipApproval | Self::ReuseApproval | Self::ApproveExpired => Invariant::I13,
            Self::TrustProposal => Invariant::I12,
        }
    }

    /// The scenario that is there to show it.
    pub fn shows_in(self) -> &'static str {
        match self {
            Self::SkipClaim
            | Self::ClaimAfterCancel
            | Self::RetryUnknown
            | Self::PublishBeforeCommit
            | Self::ForgetOutbox
            | Self::EndTwice
            | Self::NotFoundIsNever => "two-calls",
            Self::NoVersionCheck | Self::MatchByPosition => "reads",
            Self::UnknownIsFailed => "by-hand",
            Self::SkipApproval | Self::ReuseApproval | Self::ApproveExpired => "approvals",
            Self::TrustProposal => "budgets",
        }
    }

    pub(super) fn sends_unclaimed(self) -> bool {
        matches!(self, Self::SkipClaim | Self::ClaimAfterCancel)
    }

    /// The run and the input as this bug sees them.
    pub(super) fn doctor(self, state: &mut Invocation, input: &mut Input) {
        match (self, &mut *input) {
            (Self::MatchByPosition, Input::CallSettled(settled)) => {
                if let Some(first) = first_waiting(state).filter(|_| settled.effect_key.is_none()) {
                    settled.call_id = first;
                    settled.attempt_id = protocol::AttemptId::derive(first, settled.attempt);
                }
            }
            (Self::UnknownIsFailed, Input::CallSettled(settled)) => {
                if let AttemptOutcome::Unknown { .. } = settled.outcome {
                    let error = CallError::new(ErrorClass::Unavailable, "no answer");
                    settled.outcome = AttemptOutcome::NothingSent { error };
                }
            }
            (Self::RetryUnknown, Input::TimerFired(TimerName::Call(call_id))) => release_unknown(state, *call_id),
            (Self::NotFoundIsNever, Input::EffectAnswered(answered)) if answered.answer == Answer::NotApplied => {
                let error = CallError::new(ErrorClass::NotFound, "not found");
                answered.answer = Answer::Certain { outcome: EffectOutcome::Rejected { error } };
            }
            (Self::SkipApproval, Input::Verdict(verdict)) => {
                if let Judgement::ApprovalRequired { decision, evidence, .. } = verdict.judgement.clone() {
                    verdict.judgement = Judgement::Accepted { decision, evidence };
                }
            }
            (Self::ReuseApproval, Input::Control(Control::Approve { proposal_digest, .. })) => {
                if let Some(Phase::Suspended(Suspension::Approval(pending))) = state.phase() {
                    *proposal_digest = pending.requested.proposal_digest;
                }
            }
            (Self::ApproveExpired, Input::Control(Control::Approve { .. })) => {
                if let Some(Phase::Suspended(Suspension::Approval(pending))) =
                    state.run.as_deref_mut().map(|run| &mut run.phase)
                {
                    pending.requested.expires_at = Timestamp(i64::MAX);
                }
            }
            (Self::EndTwice, _) => forget_the_end(state),
            (Self::TrustProposal, Input::Verdict(_)) => {
                if let Some(run) = state.run.as_deref_mut() {
                    run.budget.max_tool_calls = u32::MAX;
                }
            }
            _ => {}
        }
    }
}

fn first_waiting(state: &Invocation) -> Option<CallId> {
    let execution = state.execution()?;
    let mut calls = execution.plan.calls.iter().zip(&execution.calls);
    calls.find(|(_, call)| !matches!(call.stage, Stage::Settled(_))).map(|(planned, _)| planned.call_id)
}

fn release_unknown(state: &mut Invocation, call_id: CallId) {
    let at = state.at;
    let Some(Phase::Executing(execution)) = state.run.as_deref_mut().map(|run| &mut run.phase) else {
        return;
    };
    let Some(position) = execution.plan.position(call_id) else {
        return;
    };
    if !matches!(execution.calls[position].stage, Stage::Unknown(_)) {
        return;
    }
    let error = CallError::new(ErrorClass::Unavailable, "no answer");
    execution.calls[position].stage = Stage::Backoff { due: at, error };
    let key = execution.plan.calls[position].effect.as_ref().map(|effect| effect.key.clone());
    let entries = state.ledger.entries().cloned().map(|mut entry| {
        if Some(&entry.key) == key.as_ref() {
            entry.status = EffectStatus::Prepared;
        }
        entry
    });
    state.ledger = Ledger::loaded(entries.collect::<Vec<_>>(), None);
}

fn forget_the_end(state: &mut Invocation) {
    let at = state.at;
    let Some(run) = state.run.as_deref_mut() else {
        return;
    };
    let Phase::Ended(ended) = &run.phase else {
        return;
    };
    if let Some(execution) = ended.execution.clone() {
        let (reason, detail) = (TerminalReason::Cancelled, String::new());
        run.phase = Phase::Cancelling(Cancelling { reason, detail, grace_until: at, execution });
    }
}
