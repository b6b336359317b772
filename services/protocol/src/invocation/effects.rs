//! Effects: a certain word meets the ledger first, in every phase; an uncertain one is bound to its attempt and probe
//! (M16, M20).

use super::calls::{after_settling, attempt_failed, failed};
use super::draft::Draft;
use super::{Ignored, Invocation, Phase, Stage, Unknown};
use crate::{
    Actor, Answer, AttemptId, AttemptOutcome, CallError, CallId, CallOutcome, CallResult, Dedupe, DispatchedEffect,
    EffectAnswered, EffectContract, EffectKey, EffectOutcome, EffectStatus, ErrorClass, Fact, Ledger, NotLoaded, Probe,
    ReleaseReason, Resolution, ResolvedBy, Timestamp, ToolCallSettled, backoff_ms,
};

/// What the ledger already says of an effect that is about to be released: nothing that keeps it, or an outcome.
pub(super) fn recorded(ledger: &Ledger, effect: &DispatchedEffect) -> Result<Option<CallOutcome>, NotLoaded> {
    let Some(entry) = ledger.entry(&effect.key)? else {
        return Ok(None);
    };
    if entry.request_fingerprint != effect.request_fingerprint {
        let message = "another request has this Effect Key; the same business change cannot be asked for in two ways";
        return Ok(Some(CallOutcome::without_attempt(ErrorClass::Conflict, message)));
    }
    Ok(match (&entry.outcome, entry.status) {
        (Some(outcome), _) => Some(outcome.call_outcome(None, 0)),
        (None, EffectStatus::Prepared) => None,
        (None, _) => {
            let message = "an earlier call under this Effect Key has no known outcome";
            Some(CallOutcome::without_attempt(ErrorClass::Conflict, message))
        }
    })
}

/// What an attempt came to.
pub(super) fn settled(draft: &mut Draft, settled: &ToolCallSettled) -> Result<(), Ignored> {
    if draft.state.run.is_none() {
        return Err(Ignored::UnknownInvocation);
    }
    if settled.attempt_id != AttemptId::derive(settled.call_id, settled.attempt) {
        return Err(Ignored::Stale);
    }
    match &settled.effect_key {
        Some(key) => effect_settled(draft, settled, key),
        None => read_settled(draft, settled),
    }
}

fn read_settled(draft: &mut Draft, settled: &ToolCallSettled) -> Result<(), Ignored> {
    if matches!(draft.state.phase(), Some(Phase::Suspended(_))) {
        return Err(Ignored::Stale);
    }
    let Some((planned, state)) = draft.state.execution().and_then(|execution| execution.call(settled.call_id)) else {
        return Err(Ignored::Stale);
    };
    if planned.effect.is_some() {
        return Err(Ignored::Stale);
    }
    let current = settled.attempt == state.attempt && matches!(state.stage, Stage::Released { .. });
    match (&state.stage, &settled.outcome) {
        (Stage::Settled(_), _) => Err(Ignored::Duplicate),
        (Stage::Waiting, _) => Err(Ignored::Stale),
        (_, AttemptOutcome::Succeeded { output, .. }) => {
            let outcome = CallOutcome {
                result: CallResult::Output(output.clone()),
                attempt_id: Some(settled.attempt_id),
                attempts: state.attempt.0,
                effect_status: None,
                receipt: None,
            };
            let by = Some(ResolvedBy::Executor);
            draft.push(Fact::CallSettled { call_id: settled.call_id, outcome, by })?;
            after_settling(draft)
        }
        (
            _,
            AttemptOutcome::Failed { error }
            | AttemptOutcome::NothingSent { error }
            | AttemptOutcome::Unknown { error },
        ) => {
            if !current {
                return Err(Ignored::Stale);
            }
            attempt_failed(draft, settled.call_id, error)
        }
    }
}

fn effect_settled(draft: &mut Draft, settled: &ToolCallSettled, key: &EffectKey) -> Result<(), Ignored> {
    let certain = match &settled.outcome {
        AttemptOutcome::Succeeded { output, receipt } => {
            Some(EffectOutcome::Committed { receipt: receipt.clone(), output: output.clone() })
        }
        AttemptOutcome::Failed { error } => Some(EffectOutcome::Rejected { error: error.clone() }),
        AttemptOutcome::NothingSent { .. } | AttemptOutcome::Unknown { .. } => None,
    };
    if let Some(outcome) = certain {
        return self::certain(draft, settled.call_id, key, Some(settled.attempt_id), outcome, ResolvedBy::Executor);
    }
    let stage = draft.state.execution().and_then(|execution| execution.call(settled.call_id)).map(|(_, s)| &s.stage);
    match (stage, &settled.outcome) {
        (Some(Stage::Claimed(claim)), AttemptOutcome::NothingSent { error })
            if claim.attempt_id == settled.attempt_id =>
        {
            attempt_failed(draft, settled.call_id, error)
        }
        (Some(Stage::Claimed(claim)), AttemptOutcome::Unknown { error }) if claim.attempt_id == settled.attempt_id => {
            unknown(draft, settled.call_id, key, settled.attempt_id, error)
        }
        _ => Err(Ignored::Stale),
    }
}

/// A certain word: new → recorded, equal → duplicate, contradicting → conflict. Never refused for its phase.
fn certain(
    draft: &mut Draft,
    call_id: CallId,
    key: &EffectKey,
    attempt_id: Option<AttemptId>,
    outcome: EffectOutcome,
    by: ResolvedBy,
) -> Result<(), Ignored> {
    let entry = draft.state.ledger.entry(key)?.ok_or(Ignored::Stale)?;
    if let Some(recorded) = &entry.outcome {
        if recorded.agrees_with(&outcome) || entry.conflicting {
            return Err(Ignored::Duplicate);
        }
        let recorded = recorded.status();
        return draft.push(Fact::EffectConflict { effect_key: key.clone(), recorded, claimed: outcome, by });
    }
    let open = draft.state.execution().and_then(|execution| {
        let (call, state) = execution.call(execution.open_call(key)?)?;
        Some((call.call_id, state.attempt.0))
    });
    match open {
        Some((call_id, attempts)) if !draft.state.is_ended() => {
            let outcome = outcome.call_outcome(attempt_id, attempts);
            draft.push(Fact::CallSettled { call_id, outcome, by: Some(by) })?;
            after_settling(draft)
        }
        Some(_) | None => draft.push(Fact::EffectSettledLate { call_id, effect_key: key.clone(), outcome, by }),
    }
}

/// A started attempt without a certain answer: recorded, and its owner is asked at once.
pub(super) fn unknown(
    draft: &mut Draft,
    call_id: CallId,
    key: &EffectKey,
    attempt_id: AttemptId,
    error: &CallError,
) -> Result<(), Ignored> {
    draft.push(Fact::EffectUnknown { call_id, effect_key: key.clone(), attempt_id, error: error.clone() })?;
    draft.push(Fact::ProbeRequested { call_id, effect_key: key.clone(), attempt_id, probe: Probe(1) })
}

fn open_unknown(draft: &Draft, call_id: CallId) -> Option<(EffectKey, EffectContract, u64, Unknown)> {
    let (planned, state) = draft.state.execution()?.call(call_id)?;
    let contract = planned.contract.effect.clone()?;
    let key = planned.effect.as_ref()?.key.clone();
    match &state.stage {
        Stage::Unknown(unknown) => Some((key, contract, planned.contract.timeout_ms, unknown.clone())),
        _ => None,
    }
}

/// The probe timer: the owner said "pending", or its answer was lost.
pub(super) fn probe_again(draft: &mut Draft, call_id: CallId) -> Result<(), Ignored> {
    let (key, contract, _, unknown) = open_unknown(draft, call_id).ok_or(Ignored::Stale)?;
    let attempt_id = unknown.claim.attempt_id;
    if unknown.probe.0 >= contract.probe.max_probes {
        let why = format!("the owner was asked {} times without an answer", unknown.probe);
        return resolved(draft, call_id, &key, &unknown, Resolution::Unanswerable { why });
    }
    if let Some(too_long) = too_long(draft.now, &contract, &unknown) {
        return resolved(draft, call_id, &key, &unknown, too_long);
    }
    draft.push(Fact::ProbeRequested { call_id, effect_key: key, attempt_id, probe: unknown.probe.next() })
}

/// When a person is asked instead of the owner.
fn give_up_at(contract: &EffectContract, unknown: &Unknown) -> Timestamp {
    unknown.since.plus_ms(contract.probe.give_up_after_ms)
}

fn too_long(now: Timestamp, contract: &EffectContract, unknown: &Unknown) -> Option<Resolution> {
    let why = || format!("no certain answer came from the owner within {} ms", contract.probe.give_up_after_ms);
    (now >= give_up_at(contract, unknown)).then(|| Resolution::Unanswerable { why: why() })
}

/// What the owner said.
pub(super) fn answered(draft: &mut Draft, answered: &EffectAnswered) -> Result<(), Ignored> {
    if draft.state.run.is_none() {
        return Err(Ignored::UnknownInvocation);
    }
    let (call_id, key) = (answered.call_id, &answered.effect_key);
    if let Answer::Certain { outcome } = &answered.answer {
        let attempt_id = Some(answered.attempt_id);
        return certain(draft, call_id, key, attempt_id, outcome.clone(), ResolvedBy::Reconciler);
    }
    let (key, contract, timeout_ms, unknown) = open_unknown(draft, call_id).ok_or(Ignored::Stale)?;
    let asked = (unknown.claim.attempt_id, unknown.probe);
    if asked != (answered.attempt_id, answered.probe) || unknown.next_probe_at.is_some() {
        return Err(Ignored::Stale);
    }
    let resolution = match &answered.answer {
        Answer::Certain { .. } => return Err(Ignored::Stale),
        Answer::Unanswerable { why } => Resolution::Unanswerable { why: why.clone() },
        Answer::Pending { retry_after_ms } => pending(draft.now, &contract, &unknown, call_id, *retry_after_ms),
        // Asked before it was clear that no attempt would follow: once more now, to close the key.
        Answer::NotApplied
            if !unknown.seal
                && unknown.probe.0 < contract.probe.max_probes
                && is_to_be_sealed(&draft.state, call_id, draft.now) =>
        {
            Resolution::Pending { next_probe_at: draft.now }
        }
        Answer::NotApplied => not_applied(draft.now, &contract, timeout_ms, &unknown, call_id),
    };
    resolved(draft, call_id, &key, &unknown, resolution)
}

fn pending(now: Timestamp, contract: &EffectContract, unknown: &Unknown, call_id: CallId, after_ms: u64) -> Resolution {
    if unknown.probe.0 >= contract.probe.max_probes {
        return Resolution::Unanswerable { why: format!("still pending after {} questions", unknown.probe) };
    }
    if let Some(too_long) = too_long(now, contract, unknown) {
        return too_long;
    }
    let policy = contract.probe;
    let wait = backoff_ms(policy.base_ms, policy.cap_ms, unknown.probe.0, call_id.0.as_bytes());
    let next_probe_at = now.plus_ms(wait.max(after_ms.min(policy.cap_ms)));
    // No wait outlasts the time that the owner has: a person is asked when it is over, not at the next question.
    Resolution::Pending { next_probe_at: next_probe_at.min(give_up_at(contract, unknown)) }
}

/// "Not found" counts only from an owner that enforces the key, and only for a question asked after the settle window:
/// before it, the request may still be on its way.
fn not_applied(
    now: Timestamp,
    contract: &EffectContract,
    timeout_ms: u64,
    unknown: &Unknown,
    call_id: CallId,
) -> Resolution {
    if contract.dedupe == Dedupe::None {
        let why = "the owner does not know the key, and does not enforce it either".to_owned();
        return Resolution::Unanswerable { why };
    }
    let settled_at = unknown.claim.lease_until.plus_ms(contract.settle_window_ms(timeout_ms));
    if unknown.probed_at >= settled_at {
        return Resolution::NotApplied;
    }
    match pending(now, contract, unknown, call_id, 0) {
        Resolution::Pending { next_probe_at } => Resolution::Pending { next_probe_at: next_probe_at.max(settled_at) },
        other => other,
    }
}

fn resolved(
    draft: &mut Draft,
    call_id: CallId,
    key: &EffectKey,
    unknown: &Unknown,
    resolution: Resolution,
) -> Result<(), Ignored> {
    let not_applied = resolution == Resolution::NotApplied;
    draft.push(Fact::EffectResolved {
        call_id,
        effect_key: key.clone(),
        attempt_id: unknown.claim.attempt_id,
        probe: unknown.probe,
        resolution,
    })?;
    if not_applied { after_not_applied(draft, call_id) } else { after_settling(draft) }
}

/// Whether the run would make another attempt of this call at `now`: within the call's policy, the budget and the time.
fn has_room(invocation: &Invocation, call_id: CallId, now: Timestamp) -> bool {
    let call = invocation.execution().and_then(|execution| execution.call(call_id));
    let (Some(run), Some((planned, state))) = (invocation.run.as_deref(), call) else {
        return false;
    };
    matches!(run.phase, Phase::Executing(_))
        && state.attempt.0 < planned.contract.retry.max_attempts
        && run.spent.tool_calls < run.budget.max_tool_calls
        && run.ends_at().is_none_or(|end| now < end)
}

/// Whether the owner is to close the key if it does not know it. Never while another attempt may follow: the owner would
/// refuse it.
pub(super) fn is_to_be_sealed(invocation: &Invocation, call_id: CallId, now: Timestamp) -> bool {
    let call = invocation.execution().and_then(|execution| execution.call(call_id));
    let takes_tombstones = call
        .and_then(|(planned, _)| planned.contract.effect.as_ref())
        .is_some_and(|contract| contract.tombstone && contract.dedupe == Dedupe::Key);
    takes_tombstones && !has_room(invocation, call_id, now)
}

/// The change did not happen as of now: another attempt with the same key, within policy.
fn after_not_applied(draft: &mut Draft, call_id: CallId) -> Result<(), Ignored> {
    let Some((_, state)) = draft.state.execution().and_then(|execution| execution.call(call_id)) else {
        return Ok(());
    };
    let run = draft.state.run.as_deref().ok_or(Ignored::UnknownInvocation)?;
    let attempts = state.attempt.0;
    let room = has_room(&draft.state, call_id, draft.now);
    match run.phase {
        Phase::Executing(_) if room => {
            let attempt = state.attempt.next();
            let epoch = draft.state.epoch;
            return draft.push(Fact::CallReleased { call_id, attempt, why: ReleaseReason::NotApplied, epoch });
        }
        // Ended runs only keep the ledger.
        Phase::Ended(_) | Phase::Deciding(_) => return Ok(()),
        Phase::Executing(_) | Phase::Suspended(_) | Phase::Cancelling(_) => {}
    }
    let class = if matches!(run.phase, Phase::Cancelling(_)) { ErrorClass::Cancelled } else { ErrorClass::Unavailable };
    let error = CallError::new(class, "the owner had not applied it when last asked");
    draft.push(Fact::CallSettled { call_id, outcome: failed(error, attempts, true), by: None })?;
    after_settling(draft)
}

/// A person's word on an effect, with evidence.
pub(super) fn resolve(
    draft: &mut Draft,
    actor: &Actor,
    key: &EffectKey,
    outcome: &EffectOutcome,
    evidence: &str,
) -> Result<(), Ignored> {
    let entry = draft.state.ledger.entry(key)?.ok_or(Ignored::Stale)?;
    // Of what nobody ever started there is nothing to say.
    if entry.status == EffectStatus::Prepared && entry.attempts.is_empty() {
        return Err(Ignored::Stale);
    }
    let call_id = *entry.call_ids.last().ok_or(Ignored::Stale)?;
    let by = ResolvedBy::Operator { actor: actor.clone(), evidence: evidence.to_owned() };
    certain(draft, call_id, key, None, outcome.clone(), by)
}
