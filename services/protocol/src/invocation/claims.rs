//! Claims: whether an attempt may start, and what may have been started although the state does not say so (M21, I8).

use super::draft::Draft;
use super::{Ignored, Invocation, Phase, Stage, Suspension, effects};
use crate::{AttemptId, CallError, CallId, EffectKey, ErrorClass, Event, Fact, Timestamp, ToolCallDispatched};

/// Why an attempt may not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefusal {
    #[error("the call is settled")]
    Settled,
    #[error("another attempt or another turn is current")]
    Superseded,
    #[error("a live attempt holds it")]
    Held,
    /// Nobody can hold this attempt any more: it is to be reported as unknown, and nothing is sent.
    #[error("its lease has run out")]
    Expired,
    #[error("the lease is revoked")]
    Revoked,
    /// It was released before the shard was rebuilt: an effect may have been started already, so its owner is asked.
    #[error("it was released in an older epoch")]
    StaleEpoch,
}

impl ClaimRefusal {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "claim_settled",
            Self::Superseded => "claim_superseded",
            Self::Held => "claim_held",
            Self::Expired => "claim_expired",
            Self::Revoked => "claim_revoked",
            Self::StaleEpoch => "stale_epoch",
        }
    }
}

/// Whether the dispatched attempt may start now. Claims and reads ask the same question.
fn may_start(invocation: &Invocation, dispatch: &ToolCallDispatched, now: Timestamp) -> Result<(), ClaimRefusal> {
    let execution = match invocation.phase() {
        Some(Phase::Executing(execution) | Phase::Suspended(Suspension::Operator(execution))) => execution,
        Some(Phase::Deciding(_) | Phase::Suspended(Suspension::Approval(_) | Suspension::Clarification(_))) => {
            return Err(ClaimRefusal::Superseded);
        }
        Some(Phase::Cancelling(_) | Phase::Ended(_)) | None => return Err(ClaimRefusal::Revoked),
    };
    let Some((_, state)) = execution.call(dispatch.call_id) else {
        return Err(ClaimRefusal::Superseded);
    };
    match &state.stage {
        Stage::Settled(_) => Err(ClaimRefusal::Settled),
        Stage::Released { epoch, .. } if state.attempt == dispatch.attempt => {
            let over = invocation.run.as_ref().and_then(|run| run.ends_at()).is_some_and(|end| now >= end);
            match over {
                _ if *epoch < invocation.epoch => Err(ClaimRefusal::StaleEpoch),
                true => Err(ClaimRefusal::Revoked),
                false => Ok(()),
            }
        }
        Stage::Claimed(claim) if state.attempt == dispatch.attempt => match now <= claim.lease_until {
            true => Err(ClaimRefusal::Held),
            false => Err(ClaimRefusal::Expired),
        },
        Stage::Waiting
        | Stage::Released { .. }
        | Stage::Claimed(_)
        | Stage::Backoff { .. }
        | Stage::Unknown(_)
        | Stage::Unanswerable { .. } => Err(ClaimRefusal::Superseded),
    }
}

/// Whether a read's attempt may start, or may go on: reads check the lease instead of committing a claim.
pub fn may_start_read(
    invocation: &Invocation,
    dispatch: &ToolCallDispatched,
    now: Timestamp,
) -> Result<(), ClaimRefusal> {
    may_start(invocation, dispatch, now)
}

pub(super) fn claim(draft: &mut Draft, dispatch: &ToolCallDispatched) -> Result<(), Ignored> {
    if draft.state.run.is_none() {
        return Err(Ignored::UnknownInvocation);
    }
    match may_start(&draft.state, dispatch, draft.now) {
        Err(ClaimRefusal::StaleEpoch) if dispatch.effect.is_some() => return strand(draft, dispatch.call_id),
        may => may.map_err(Ignored::Claim)?,
    }
    let superseded = Ignored::Claim(ClaimRefusal::Superseded);
    let planned = draft.state.execution().and_then(|execution| execution.call(dispatch.call_id));
    let (planned, _) = planned.ok_or(superseded.clone())?;
    planned.effect.as_ref().ok_or(superseded.clone())?;
    let (fact, ..) = claimed(draft, dispatch.call_id).ok_or(superseded)?;
    draft.push(fact)
}

/// The claim of a call's current attempt, as of now.
fn claimed(draft: &Draft, call_id: CallId) -> Option<(Fact, EffectKey, AttemptId)> {
    let (planned, state) = draft.state.execution()?.call(call_id)?;
    let key = planned.effect.as_ref()?.key.clone();
    let attempt_id = AttemptId::derive(call_id, state.attempt);
    let lease_until = draft.now.plus_ms(planned.contract.timeout_ms);
    let effect_key = key.clone();
    Some((Fact::CallClaimed { call_id, attempt: state.attempt, attempt_id, effect_key, lease_until }, key, attempt_id))
}

/// Whether the events that a claim caused let its attempt start. A claim that only records what the store may have lost
/// does not.
pub fn grants_claim(events: &[Event]) -> bool {
    let is_unknown = |event: &Event| matches!(event.fact, Fact::EffectUnknown { .. });
    events.iter().any(|event| matches!(event.fact, Fact::CallClaimed { .. })) && !events.iter().any(is_unknown)
}

/// A released effect whose claim the store may have lost: it counts as claimed now, with an unknown outcome, and nothing
/// is sent. Whoever did claim it is past its lease before the owner's "not found" counts.
pub(super) fn strand(draft: &mut Draft, call_id: CallId) -> Result<(), Ignored> {
    let (fact, key, attempt_id) = claimed(draft, call_id).ok_or(Ignored::Stale)?;
    draft.push(fact)?;
    let message = "it was released before the store was rebuilt, and may have been started";
    effects::unknown(draft, call_id, &key, attempt_id, &CallError::new(ErrorClass::OutcomeUnknown, message))
}

/// All that is released and may have been started, whatever its epoch: for a run whose lost commits nobody has.
pub(super) fn strand_released(draft: &mut Draft) -> Result<(), Ignored> {
    draft.state.epoch = draft.state.epoch.next();
    strand_all(draft)
}

/// All that was released in an older epoch.
pub(super) fn strand_all(draft: &mut Draft) -> Result<(), Ignored> {
    stranded(&draft.state).into_iter().try_for_each(|call_id| strand(draft, call_id))
}

/// The released effects that may have been started although the state does not say so.
pub(super) fn stranded(invocation: &Invocation) -> Vec<CallId> {
    let Some(execution) = invocation.execution() else {
        return Vec::new();
    };
    let calls = execution.plan.calls.iter().zip(&execution.calls).filter(|(call, state)| {
        let old = matches!(&state.stage, Stage::Released { epoch, .. } if *epoch < invocation.epoch);
        old && call.effect.is_some()
    });
    calls.map(|(call, _)| call.call_id).collect()
}
