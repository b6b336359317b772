//! `handle`: the table of phases and inputs. Every input is answered with events, or with the reason why there are
//! none.

use super::calls;
use super::claims::{self, ClaimRefusal};
use super::draft::Draft;
use super::{IllegalTransition, Invocation, Phase, TimerName, admission, effects, suspend, turn};
use crate::{
    Basis, Control, Digest, EffectAnswered, Event, Fact, NotLoaded, Profile, Request, Scope, TerminalReason, Timestamp,
    ToolCallDispatched, ToolCallSettled, Verdict,
};

/// What may come to an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Requested(Box<Requested>),
    Control(Control),
    Verdict(Box<Verdict>),
    CallSettled(Box<ToolCallSettled>),
    EffectAnswered(Box<EffectAnswered>),
    ClaimRequested(Box<ToolCallDispatched>),
    TimerFired(TimerName),
}

/// A request, with what the committer's configuration says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    pub request: Request,
    pub digest: Digest,
    /// The request's own time, or its record's.
    pub requested_at: Timestamp,
    /// Absent when no agent of that name is configured for the tenant.
    pub profile: Option<Profile>,
    /// How long a request stays known after its run: an older one might be running for the second time.
    pub horizon_ms: u64,
}

impl Input {
    /// The scope of an internal message.
    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Verdict(verdict) => Some(&verdict.scope),
            Self::CallSettled(settled) => Some(&settled.scope),
            Self::EffectAnswered(answered) => Some(&answered.scope),
            Self::ClaimRequested(dispatch) => Some(&dispatch.scope),
            Self::Requested(_) | Self::Control(_) | Self::TimerFired(_) => None,
        }
    }
}

/// Why an input changes nothing. Counted by reason, never an error, never silent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    #[error("the same was applied before")]
    Duplicate,
    #[error("another request has this invocation ID")]
    Conflict,
    /// Older than the dedupe horizon: whether it ran before cannot be known any more.
    #[error("the request is older than the horizon in which requests are remembered")]
    ExpiredRequest,
    #[error("the request comes from the future")]
    FutureRequest,
    #[error("it belongs to what is over")]
    Stale,
    #[error("it is not due yet")]
    NotYet,
    #[error("no such invocation")]
    UnknownInvocation,
    /// To be kept as a version-0 stub: see [`Invocation::with_stub`].
    #[error("the cancel is kept until its request comes")]
    OvertakesRequest,
    /// The store has lost a commit before; only a rebuild goes on.
    #[error("the invocation is frozen")]
    Frozen,
    /// The store lost a commit: freeze.
    #[error("its basis is version {}, which the store does not have", .0.version)]
    LostCommit(Basis),
    #[error("the claim is refused: {0}")]
    Claim(ClaimRefusal),
    /// It was granted, refused or expired before, or the run never asked.
    #[error("no proposal waits for an approval")]
    NoApprovalWaiting,
    #[error("another proposal waits for an approval")]
    WrongProposal,
    #[error("the time for an approval is over")]
    ApprovalExpired,
    /// Four eyes: the approver must be another than the run's actor.
    #[error("the run's own actor may not approve this proposal")]
    SelfApproval,
    /// It was answered before, or the run never asked.
    #[error("no question waits for an answer")]
    NoQuestionWaiting,
    #[error("the question of another step waits for an answer")]
    WrongQuestion,
    /// It might be the old answer, delivered again: only one that names its question is taken for a new one.
    #[error("the same answer was given before, and it names no question")]
    RepeatedAnswer,
    /// Reading what `needs` did not name: a bug.
    #[error(transparent)]
    NotLoaded(#[from] NotLoaded),
    /// A decision that the transition table refuses: a bug.
    #[error(transparent)]
    Refused(IllegalTransition),
}

impl Ignored {
    /// The reason as a metric label.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::ExpiredRequest => "expired_request",
            Self::FutureRequest => "future_request",
            Self::Stale => "stale",
            Self::NotYet => "not_yet",
            Self::UnknownInvocation => "unknown_invocation",
            Self::OvertakesRequest => "overtakes_request",
            Self::Frozen => "frozen",
            Self::LostCommit(_) => "lost_commit",
            Self::Claim(refusal) => refusal.as_str(),
            Self::NoApprovalWaiting => "no_approval_waiting",
            Self::WrongProposal => "wrong_proposal",
            Self::ApprovalExpired => "approval_expired",
            Self::SelfApproval => "self_approval",
            Self::NoQuestionWaiting => "no_question_waiting",
            Self::WrongQuestion => "wrong_question",
            Self::RepeatedAnswer => "repeated_answer",
            Self::NotLoaded(_) => "not_loaded",
            Self::Refused(_) => "refused",
        }
    }
}

/// Decides what an input does. `now` is the store's time; it never counts as earlier than the last event's.
pub fn handle(invocation: &Invocation, input: &Input, now: Timestamp) -> Result<Vec<Event>, Ignored> {
    handle_and_apply(invocation, input, now).map(|(events, _)| events)
}

/// What [`handle`] answers, and the state after these events: `apply` has been over each of them already.
pub fn handle_and_apply(
    invocation: &Invocation,
    input: &Input,
    now: Timestamp,
) -> Result<(Vec<Event>, Invocation), Ignored> {
    let mut draft = Draft::new(invocation, now.max(invocation.at));
    if let Some(scope) = input.scope() {
        check_basis(invocation, scope.basis)?;
    }
    match input {
        Input::Requested(requested) => admission::requested(&mut draft, requested)?,
        Input::Control(Control::Cancel { actor, reason }) => cancel(&mut draft, actor, reason)?,
        Input::Control(Control::Approve { actor, proposal_digest }) => {
            suspend::approve(&mut draft, actor, *proposal_digest)?;
        }
        Input::Control(Control::Reject { actor, proposal_digest, reason }) => {
            suspend::reject(&mut draft, actor, *proposal_digest, reason)?;
        }
        Input::Control(Control::Clarify { actor, answer, step }) => {
            suspend::clarify(&mut draft, actor, answer, *step)?;
        }
        Input::Control(Control::ResolveEffect { actor, effect_key, outcome, evidence }) => {
            if invocation.run.is_none() {
                return Err(Ignored::UnknownInvocation);
            }
            effects::resolve(&mut draft, actor, effect_key, outcome, evidence)?;
        }
        Input::Verdict(verdict) => turn::verdict(&mut draft, verdict)?,
        Input::CallSettled(settled) => effects::settled(&mut draft, settled)?,
        Input::EffectAnswered(answered) => effects::answered(&mut draft, answered)?,
        Input::ClaimRequested(dispatch) => claims::claim(&mut draft, dispatch)?,
        Input::TimerFired(name) => timer(&mut draft, *name)?,
    }
    Ok(draft.finish())
}

/// A basis that is newer than the state, or that has another hash, proves that the store lost a commit (I10).
fn check_basis(invocation: &Invocation, basis: Basis) -> Result<(), Ignored> {
    let newer = basis.version > invocation.version;
    let other = match invocation.hash_at {
        Some((version, hash)) => version == basis.version && hash != basis.hash,
        None => basis.version == invocation.version && invocation.head != basis.hash,
    };
    if newer || other { Err(Ignored::LostCommit(basis)) } else { Ok(()) }
}

fn cancel(draft: &mut Draft, actor: &crate::Actor, reason: &str) -> Result<(), Ignored> {
    match draft.state.phase() {
        None if draft.state.stub.is_some() => Err(Ignored::Duplicate),
        None => Err(Ignored::OvertakesRequest),
        Some(Phase::Cancelling(_) | Phase::Ended(_)) => Err(Ignored::Duplicate),
        Some(Phase::Deciding(_) | Phase::Executing(_) | Phase::Suspended(_)) => {
            calls::stop(draft, TerminalReason::Cancelled, Some(actor.clone()), reason.to_owned())
        }
    }
}

fn timer(draft: &mut Draft, name: TimerName) -> Result<(), Ignored> {
    let wanted = super::timers(&draft.state);
    let due = wanted.iter().find(|timer| timer.name == name).map(|timer| timer.due);
    match due {
        None => return Err(Ignored::Stale),
        Some(due) if draft.now < due => return Err(Ignored::NotYet),
        Some(_) => {}
    }
    match name {
        TimerName::Deadline => calls::time_is_over(draft),
        TimerName::Decide => turn::decide_timer(draft),
        TimerName::Approval => suspend::expire(draft),
        TimerName::Call(call_id) => calls::timer(draft, call_id),
        TimerName::Grace => calls::end_cancelled(draft),
    }
}

impl Draft {
    /// Ends the run: the current segment, or the one that leaving a suspension opens.
    pub(super) fn end(
        &mut self,
        reason: TerminalReason,
        answer: Option<serde_json::Value>,
        detail: impl Into<String>,
    ) -> Result<(), Ignored> {
        let segment = match &self.state.run {
            Some(run) if matches!(run.phase, Phase::Suspended(_)) => run.segment.next(),
            Some(run) => run.segment,
            None => crate::Segment(1),
        };
        self.push(Fact::Ended { segment, reason, answer, detail: detail.into() })
    }
}
