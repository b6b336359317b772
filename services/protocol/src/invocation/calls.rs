//! Calls of the current plan: waves, claims, retries, timers, and the stop that revokes the lease (M8, M11, M21).

use super::claims::{strand, strand_all, stranded};
use super::draft::Draft;
use super::{Cancelling, Claim, Execution, Ignored, Phase, Stage, effects, turn};
use crate::{
    Actor, CallError, CallId, CallOutcome, EffectStatus, ErrorClass, Fact, MAX_BATCH_CALLS, ReleaseReason,
    TerminalReason, backoff_ms,
};

/// Goes on as far as the state lets it: releases the next wave, commits the turn, or hands over to a person.
pub(super) fn advance(draft: &mut Draft) -> Result<(), Ignored> {
    // Each round releases or settles a wave, and there are no more waves than calls.
    for _ in 0..=MAX_BATCH_CALLS {
        release_due(draft)?;
        let Some(Phase::Executing(execution)) = draft.state.phase() else {
            return Ok(());
        };
        if execution.calls.iter().any(|call| call.stage.is_in_flight()) {
            return Ok(());
        }
        if execution.calls.iter().any(|call| matches!(call.stage, Stage::Unanswerable { .. })) {
            return hand_over(draft);
        }
        let waiting = execution.plan.calls.iter().zip(&execution.calls).filter(|(_, s)| s.stage == Stage::Waiting);
        match waiting.map(|(call, _)| call.wave).min() {
            Some(wave) => release_wave(draft, wave)?,
            None => return turn::finish(draft),
        }
    }
    Err(Ignored::Stale)
}

fn release_wave(draft: &mut Draft, wave: u32) -> Result<(), Ignored> {
    let Some(execution) = draft.state.execution() else {
        return Ok(());
    };
    let succeeded = |id: &CallId| matches!(execution.call(*id), Some((_, state)) if matches!(&state.stage, Stage::Settled(o) if o.succeeded()));
    let mut released = Vec::new();
    let mut settled = Vec::new();
    let calls = execution.plan.calls.iter().zip(&execution.calls);
    for (call, _) in calls.filter(|(call, state)| call.wave == wave && state.stage == Stage::Waiting) {
        if !call.after.iter().all(succeeded) {
            let message = "a call that it had to wait for did not succeed";
            settled.push((call.call_id, CallOutcome::without_attempt(ErrorClass::Skipped, message)));
            continue;
        }
        match &call.effect {
            Some(effect) => match effects::recorded(&draft.state.ledger, effect)? {
                Some(outcome) => settled.push((call.call_id, outcome)),
                None => released.push(call.call_id),
            },
            None => released.push(call.call_id),
        }
    }
    for (call_id, outcome) in settled {
        draft.push(Fact::CallSettled { call_id, outcome, by: None })?;
    }
    if !released.is_empty() {
        draft.push(Fact::WaveReleased { wave, calls: released, epoch: draft.state.epoch })?;
    }
    Ok(())
}

/// Releases what waits only for its time: after a suspension, or when a retry is due at once.
fn release_due(draft: &mut Draft) -> Result<(), Ignored> {
    let Some(Phase::Executing(execution)) = draft.state.phase() else {
        return Ok(());
    };
    let due: Vec<CallId> = execution
        .plan
        .calls
        .iter()
        .zip(&execution.calls)
        .filter(|(_, state)| matches!(&state.stage, Stage::Backoff { due, .. } if *due <= draft.now))
        .map(|(call, _)| call.call_id)
        .collect();
    due.into_iter().try_for_each(|call_id| retry(draft, call_id))
}

/// Releases the next attempt of a call that backs off, if the budget still has room for it; else settles it.
fn retry(draft: &mut Draft, call_id: CallId) -> Result<(), Ignored> {
    let Some((planned, state)) = draft.state.execution().and_then(|execution| execution.call(call_id)) else {
        return Err(Ignored::Stale);
    };
    let Stage::Backoff { error, .. } = &state.stage else {
        return Err(Ignored::Stale);
    };
    let run = draft.state.run.as_deref().ok_or(Ignored::UnknownInvocation)?;
    let attempt = state.attempt.next();
    if run.spent.tool_calls >= run.budget.max_tool_calls {
        let outcome = failed(error.clone(), state.attempt.0, planned.effect.is_some());
        return draft.push(Fact::CallSettled { call_id, outcome, by: None });
    }
    draft.push(Fact::CallReleased { call_id, attempt, why: ReleaseReason::Retry, epoch: draft.state.epoch })
}

/// The outcome of a call whose attempts did nothing for certain.
pub(super) fn failed(error: CallError, attempts: u32, is_effect: bool) -> CallOutcome {
    CallOutcome {
        result: crate::CallResult::Error(error),
        attempt_id: None,
        attempts,
        effect_status: is_effect.then_some(EffectStatus::Prepared),
        receipt: None,
    }
}

/// An attempt that did nothing for certain: the next one, within policy, deadline and budget; else the end of the call.
pub(super) fn attempt_failed(draft: &mut Draft, call_id: CallId, error: &CallError) -> Result<(), Ignored> {
    let Some((planned, state)) = draft.state.execution().and_then(|execution| execution.call(call_id)) else {
        return Err(Ignored::Stale);
    };
    let run = draft.state.run.as_deref().ok_or(Ignored::UnknownInvocation)?;
    let (attempt, is_effect, policy) = (state.attempt, planned.effect.is_some(), planned.contract.retry);
    let wait = backoff_ms(policy.base_ms, policy.cap_ms, attempt.0, call_id.0.as_bytes());
    let retry_at = draft.now.plus_ms(wait.max(error.retry_after_ms.unwrap_or(0)));
    let again = matches!(run.phase, Phase::Executing(_))
        && error.class.is_transient()
        && attempt.0 < policy.max_attempts
        && run.spent.tool_calls < run.budget.max_tool_calls
        && run.ends_at().is_none_or(|end| retry_at < end);
    if again || is_effect {
        draft.push(Fact::AttemptFailed { call_id, attempt, error: error.clone(), retry_at })?;
    }
    if !again && !draft.state.is_ended() {
        let outcome = failed(error.clone(), attempt.0, is_effect);
        draft.push(Fact::CallSettled { call_id, outcome, by: None })?;
    }
    after_settling(draft)
}

/// What a settled call leads to, by phase.
pub(super) fn after_settling(draft: &mut Draft) -> Result<(), Ignored> {
    match draft.state.phase() {
        Some(Phase::Executing(_)) => advance(draft),
        Some(Phase::Cancelling(cancelling)) => match in_flight(&cancelling.execution) {
            true => Ok(()),
            false => end_cancelled(draft),
        },
        Some(Phase::Deciding(_) | Phase::Suspended(_) | Phase::Ended(_)) | None => Ok(()),
    }
}

fn in_flight(execution: &Execution) -> bool {
    execution.calls.iter().any(|call| call.stage.is_in_flight())
}

fn hand_over(draft: &mut Draft) -> Result<(), Ignored> {
    let Some(run) = draft.state.run.as_deref() else {
        return Ok(());
    };
    let Phase::Executing(execution) = &run.phase else {
        return Ok(());
    };
    let mut reasons = Vec::new();
    let mut keys = Vec::new();
    for (call, state) in execution.plan.calls.iter().zip(&execution.calls) {
        if let (Stage::Unanswerable { why, .. }, Some(effect)) = (&state.stage, &call.effect) {
            keys.push(effect.key.clone());
            reasons.push(format!("{}: {why}", call.tool));
        }
    }
    let segment = run.segment;
    draft.push(Fact::ReconciliationRequired { segment, effects: keys, detail: reasons.join("; ") })
}

/// Cancel, deadline, `max_runtime`: from this commit on no new effect starts. Ends at once when nothing is in flight.
pub(super) fn stop(
    draft: &mut Draft,
    reason: TerminalReason,
    actor: Option<Actor>,
    detail: String,
) -> Result<(), Ignored> {
    match draft.state.phase() {
        None => Err(Ignored::UnknownInvocation),
        Some(Phase::Cancelling(_) | Phase::Ended(_)) => Err(Ignored::Stale),
        Some(Phase::Deciding(_) | Phase::Suspended(_)) => {
            draft.push(Fact::CancelRequested { reason, actor, detail: detail.clone() })?;
            draft.end(reason, None, detail)
        }
        Some(Phase::Executing(_)) => {
            // What may have been started is on record before the stop: after it nothing is claimed (I7).
            strand_all(draft)?;
            draft.push(Fact::CancelRequested { reason, actor, detail })?;
            cancel_unstarted(draft)?;
            after_settling(draft)
        }
    }
}

/// The deadline has passed, or the active time is used up.
pub(super) fn time_is_over(draft: &mut Draft) -> Result<(), Ignored> {
    let deadline = draft.state.run.as_ref().and_then(|run| run.deadline);
    let detail = match deadline {
        Some(deadline) if draft.now >= deadline => "the deadline has passed",
        Some(_) | None => "the active time of the run is used up",
    };
    stop(draft, TerminalReason::DeadlineExceeded, None, detail.to_owned())
}

/// Settles every call that has not started; a read in flight is as good as not started, since it changes nothing.
fn cancel_unstarted(draft: &mut Draft) -> Result<(), Ignored> {
    let Some(execution) = draft.state.execution() else {
        return Ok(());
    };
    let mut settled = Vec::new();
    for (call, state) in execution.plan.calls.iter().zip(&execution.calls) {
        match &state.stage {
            Stage::Waiting | Stage::Released { .. } | Stage::Backoff { .. } => {
                let error = CallError::new(ErrorClass::Cancelled, "the run was stopped before this call started");
                settled.push((call.call_id, failed(error, state.attempt.0, call.effect.is_some())));
            }
            Stage::Claimed(_) | Stage::Unknown(_) | Stage::Unanswerable { .. } | Stage::Settled(_) => {}
        }
    }
    settled.into_iter().try_for_each(|(call_id, outcome)| draft.push(Fact::CallSettled { call_id, outcome, by: None }))
}

/// Ends a cancelled run, whether or not everything came back.
pub(super) fn end_cancelled(draft: &mut Draft) -> Result<(), Ignored> {
    let Some(Phase::Cancelling(Cancelling { reason, detail, .. })) = draft.state.phase() else {
        return Err(Ignored::Stale);
    };
    let (reason, detail) = (*reason, detail.clone());
    draft.end(reason, None, detail)
}

/// The timer of a call that is due, by where the call stands.
pub(super) fn timer(draft: &mut Draft, call_id: CallId) -> Result<(), Ignored> {
    let Some((planned, state)) = draft.state.execution().and_then(|execution| execution.call(call_id)) else {
        return Err(Ignored::Stale);
    };
    match (&state.stage, &planned.effect) {
        (Stage::Released { .. }, None) => {
            let error = CallError::new(ErrorClass::Timeout, "no result came back in time");
            attempt_failed(draft, call_id, &error)
        }
        (Stage::Released { .. }, Some(_)) => unclaimed(draft, call_id),
        (Stage::Claimed(Claim { attempt_id, .. }), Some(effect)) => {
            let (attempt_id, key) = (*attempt_id, effect.key.clone());
            let error = CallError::new(ErrorClass::OutcomeUnknown, "the attempt was started, and no result came back");
            effects::unknown(draft, call_id, &key, attempt_id, &error)
        }
        (Stage::Backoff { .. }, _) => {
            retry(draft, call_id)?;
            after_settling(draft)
        }
        (Stage::Unknown(_), Some(_)) => effects::probe_again(draft, call_id),
        (Stage::Claimed(_) | Stage::Unknown(_), None)
        | (Stage::Waiting | Stage::Unanswerable { .. } | Stage::Settled(_), _) => Err(Ignored::Stale),
    }
}

/// A released effect that nobody claimed: released again, a bounded number of times.
fn unclaimed(draft: &mut Draft, call_id: CallId) -> Result<(), Ignored> {
    let Some(run) = draft.state.run.as_deref() else {
        return Err(Ignored::UnknownInvocation);
    };
    let Some((_, state)) = draft.state.execution().and_then(|execution| execution.call(call_id)) else {
        return Err(Ignored::Stale);
    };
    if stranded(&draft.state).contains(&call_id) {
        return strand(draft, call_id);
    }
    if state.unclaimed < run.timing.max_rereleases && matches!(run.phase, Phase::Executing(_)) {
        let attempt = state.attempt.next();
        let epoch = draft.state.epoch;
        return draft.push(Fact::CallReleased { call_id, attempt, why: ReleaseReason::Unclaimed, epoch });
    }
    let error = CallError::new(ErrorClass::Unavailable, "no executor started this call");
    let outcome = failed(error, state.attempt.0, true);
    draft.push(Fact::CallSettled { call_id, outcome, by: None })?;
    after_settling(draft)
}
