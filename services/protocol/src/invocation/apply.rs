//! `apply`: the one transition table. State is a fold of it over the events; nothing else changes an invocation.

use super::effects;
use super::{
    CallState, Cancelling, Claim, Deciding, Ended, Execution, Invocation, Phase, Run, Stage, Suspension, Unknown,
};
use crate::{
    Admitted, ApprovalAnswer, ApprovalRequested, AttemptNumber, AttemptRecord, CallError, CallId, CallOutcome,
    CallResult, Digest, EffectKey, EffectOutcome, EffectStatus, Event, Fact, IllegalMove, LedgerEntry,
    MAX_ATTEMPT_RECORDS, ModelEvidence, NotLoaded, PendingApproval, PendingClarification, Plan, Progress, Resolution,
    ResolvedBy, Round, Segment, Spent, Step, TurnCommitted, TurnPlanned, answer_digest,
};

/// An event that this state cannot take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IllegalTransition {
    #[error("event {event} does not follow version {state}")]
    OutOfOrder { state: crate::Version, event: crate::Version },
    #[error("event {0} does not carry its predecessor's hash")]
    Forked(crate::Version),
    #[error("`{fact}` is not possible: {why}")]
    Impossible { fact: &'static str, why: &'static str },
    #[error(transparent)]
    Effect(#[from] IllegalMove),
    #[error(transparent)]
    NotLoaded(#[from] NotLoaded),
}

/// The state after an event.
pub fn apply(mut state: Invocation, event: &Event) -> Result<Invocation, IllegalTransition> {
    if event.version != state.version.next() {
        return Err(IllegalTransition::OutOfOrder { state: state.version, event: event.version });
    }
    if event.previous != state.head {
        return Err(IllegalTransition::Forked(event.version));
    }
    change(&mut state, event)?;
    state.version = event.version;
    state.head = event.hash;
    state.at = event.at;
    Ok(state)
}

fn change(state: &mut Invocation, event: &Event) -> Result<(), IllegalTransition> {
    let at = event.at;
    let impossible = |why| IllegalTransition::Impossible { fact: event.fact.name(), why };
    match &event.fact {
        Fact::Admitted(admitted) => admit(state, admitted, event).ok_or(impossible("it was admitted before")),
        Fact::TurnPlanned(planned) => plan(state, planned, event).ok_or(impossible("no such plan is awaited"))?,
        Fact::DecisionRejected { round, evidence, .. } => {
            let basis = event.basis();
            let run = run(state).ok_or(impossible("not admitted"))?;
            let Phase::Deciding(deciding) = &mut run.phase else {
                return Err(impossible("no decision is awaited"));
            };
            *deciding = Deciding { step: deciding.step, round: round.next(), basis, reissues: 0, asked_at: at };
            run.spent.usage = run.spent.usage.plus(&evidence.usage);
            Ok(())
        }
        Fact::TurnReissued { count, .. } => match run(state).map(|run| &mut run.phase) {
            Some(Phase::Deciding(deciding)) => {
                deciding.reissues = *count;
                deciding.asked_at = at;
                Ok(())
            }
            _ => Err(impossible("no decision is awaited")),
        },
        Fact::ApprovalRequested(requested) => {
            let evidence = &requested.evidence;
            let run = awaiting(state, evidence, event).ok_or(impossible("no decision is awaited"))?;
            let (step, requested) = (event.step, ApprovalRequested::clone(requested));
            let pending = Box::new(PendingApproval { step, requested, answer: None });
            run.phase = Phase::Suspended(Suspension::Approval(pending));
            Ok(())
        }
        Fact::ApprovalGranted { proposal_digest, .. } => {
            answer(state, proposal_digest, ApprovalAnswer::Granted).ok_or(impossible("no such proposal waits"))
        }
        Fact::ApprovalRefused { proposal_digest, .. } => {
            answer(state, proposal_digest, ApprovalAnswer::Refused).ok_or(impossible("no such proposal waits"))
        }
        Fact::ClarificationRequested { round, question, evidence, .. } => {
            let run = awaiting(state, evidence, event).ok_or(impossible("no decision is awaited"))?;
            let (step, round, question, evidence) = (event.step, *round, question.clone(), evidence.clone());
            let pending = PendingClarification { step, round, question, evidence, answer: None };
            run.phase = Phase::Suspended(Suspension::Clarification(pending));
            Ok(())
        }
        Fact::ClarificationGiven { actor, answer } => {
            let run = run(state).ok_or(impossible("not admitted"))?;
            let Phase::Suspended(Suspension::Clarification(pending)) = &mut run.phase else {
                return Err(impossible("no question waits"));
            };
            pending.answer = Some(answer.clone());
            run.answers.push(answer_digest(actor, answer));
            Ok(())
        }
        Fact::WaveReleased { calls, epoch, .. } => {
            for call_id in calls {
                let call = call(state, *call_id).ok_or(impossible("no such call"))?;
                call.attempt = AttemptNumber(1);
                call.stage = Stage::Released { at, epoch: *epoch };
            }
            Ok(())
        }
        Fact::CallReleased { call_id, attempt, why, epoch } => {
            let call = call(state, *call_id).ok_or(impossible("no such call"))?;
            call.attempt = *attempt;
            call.stage = Stage::Released { at, epoch: *epoch };
            let run_again = match why {
                // It takes the place of an attempt that never started, and never will: its claim is superseded.
                crate::ReleaseReason::Unclaimed => {
                    call.unclaimed += 1;
                    false
                }
                crate::ReleaseReason::Retry | crate::ReleaseReason::NotApplied => true,
            };
            let run = run(state).ok_or(impossible("not admitted"))?;
            run.spent.tool_calls += u32::from(run_again);
            Ok(())
        }
        Fact::CallClaimed { call_id, attempt, attempt_id, effect_key, lease_until } => {
            let call = call(state, *call_id).ok_or(impossible("no such call"))?;
            call.stage = Stage::Claimed(Claim { attempt_id: *attempt_id, lease_until: *lease_until });
            change_entry(state, effect_key, |entry| {
                entry.attempts.push(AttemptRecord {
                    attempt_id: *attempt_id,
                    number: *attempt,
                    claimed_at: at,
                    lease_until: *lease_until,
                });
                if entry.attempts.len() > MAX_ATTEMPT_RECORDS {
                    entry.attempts.remove(0);
                }
                entry.move_to(EffectStatus::Dispatched)
            })
        }
        Fact::AttemptFailed { call_id, error, retry_at, .. } => {
            let call = call(state, *call_id).ok_or(impossible("no such call"))?;
            call.stage = Stage::Backoff { due: *retry_at, error: error.clone() };
            let key = effect_key_of(state, *call_id);
            forget_settled(state);
            match key {
                Some(key) => change_entry(state, &key, |entry| entry.move_to(EffectStatus::Prepared)),
                None => Ok(()),
            }
        }
        Fact::CallSettled { call_id, outcome, by } => settle(state, *call_id, outcome, by.as_ref(), event),
        Fact::EffectUnknown { call_id, effect_key, .. } => {
            let call = call(state, *call_id).ok_or(impossible("no such call"))?;
            let Stage::Claimed(claim) = call.stage.clone() else {
                return Err(impossible("no attempt is claimed"));
            };
            let probe = crate::Probe(0);
            let (since, probed_at, next_probe_at, seal) = (at, at, None, false);
            call.stage = Stage::Unknown(Unknown { claim, since, probe, probed_at, next_probe_at, seal });
            change_entry(state, effect_key, |entry| entry.move_to(EffectStatus::OutcomeUnknown))
        }
        Fact::ProbeRequested { call_id, effect_key, probe, .. } => {
            let seal = effects::is_to_be_sealed(state, *call_id, at);
            let call = call(state, *call_id).ok_or(impossible("no such call"))?;
            let Stage::Unknown(unknown) = &mut call.stage else {
                return Err(impossible("its outcome is not unknown"));
            };
            unknown.probe = *probe;
            unknown.probed_at = at;
            unknown.next_probe_at = None;
            unknown.seal = seal;
            change_entry(state, effect_key, |entry| match entry.status {
                EffectStatus::Reconciling => Ok(()),
                _ => entry.move_to(EffectStatus::Reconciling),
            })
        }
        Fact::EffectResolved { call_id, effect_key, resolution, .. } => {
            resolve(state, *call_id, effect_key, resolution, event)
        }
        Fact::EffectConflict { effect_key, .. } => change_entry(state, effect_key, |entry| {
            entry.conflicting = true;
            Ok(())
        }),
        Fact::TurnCommitted(committed) => commit_turn(state, committed, event).ok_or(impossible("no turn is open")),
        Fact::CancelRequested { reason, detail, .. } => {
            let run = run(state).ok_or(impossible("not admitted"))?;
            let grace_until = at.plus_ms(run.timing.cancel_grace_ms);
            match &run.phase {
                Phase::Executing(execution) => {
                    let (reason, detail, execution) = (*reason, detail.clone(), execution.clone());
                    run.phase = Phase::Cancelling(Cancelling { reason, detail, grace_until, execution });
                    Ok(())
                }
                // Nothing is in flight: `Ended` follows in the same commit.
                Phase::Deciding(_) | Phase::Suspended(_) => Ok(()),
                Phase::Cancelling(_) | Phase::Ended(_) => Err(impossible("it is being stopped already")),
            }
        }
        Fact::ReconciliationRequired { .. } => {
            let run = run(state).ok_or(impossible("not admitted"))?;
            let Phase::Executing(execution) = &run.phase else {
                return Err(impossible("nothing is executing"));
            };
            run.phase = Phase::Suspended(Suspension::Operator(execution.clone()));
            run.stop_clock(at);
            Ok(())
        }
        Fact::Ended { segment, reason, .. } => {
            let (step, round) = (event.step, state.turn().1);
            let unresolved = state.has_unresolved_effects();
            let execution = state.execution().filter(|_| unresolved).cloned();
            let run = run(state).ok_or(impossible("not admitted"))?;
            if matches!(run.phase, Phase::Ended(_)) {
                return Err(impossible("it has ended"));
            }
            run.segment = *segment;
            run.stop_clock(at);
            run.phase = Phase::Ended(Ended { reason: *reason, step, round, execution });
            Ok(())
        }
        Fact::EffectSettledLate { effect_key, outcome, by, .. } => {
            record(state, effect_key, outcome, by)?;
            let open = state.execution().and_then(|execution| execution.open_call(effect_key));
            if let Some(call) = open.and_then(|open| call(state, open)) {
                call.stage = Stage::Settled(outcome.call_outcome(None, call.attempt.0));
            }
            forget_settled(state);
            Ok(())
        }
    }
}

fn run(state: &mut Invocation) -> Option<&mut Run> {
    state.run.as_deref_mut()
}

fn call(state: &mut Invocation, call_id: CallId) -> Option<&mut CallState> {
    state.execution_mut()?.state_mut(call_id)
}

fn effect_key_of(state: &Invocation, call_id: CallId) -> Option<EffectKey> {
    let (planned, _) = state.execution()?.call(call_id)?;
    planned.effect.as_ref().map(|effect| effect.key.clone())
}

fn change_entry(
    state: &mut Invocation,
    key: &EffectKey,
    change: impl FnOnce(&mut LedgerEntry) -> Result<(), IllegalMove>,
) -> Result<(), IllegalTransition> {
    let mut entry = state
        .ledger
        .entry(key)?
        .cloned()
        .ok_or(IllegalTransition::Impossible { fact: "effect", why: "the ledger does not have it" })?;
    change(&mut entry)?;
    Ok(state.ledger.put(entry)?)
}

/// An ended run keeps its last plan only while some effect of it is unresolved.
fn forget_settled(state: &mut Invocation) {
    let unresolved = state.has_unresolved_effects();
    if let Some(Phase::Ended(ended)) = run(state).map(|run| &mut run.phase)
        && !unresolved
    {
        ended.execution = None;
    }
}

fn admit(state: &mut Invocation, admitted: &Admitted, event: &Event) -> Option<()> {
    if state.run.is_some() {
        return None;
    }
    let request = &admitted.request;
    state.stub = None;
    state.run = Some(Box::new(Run {
        actor: request.actor.clone(),
        agent: admitted.agent.clone(),
        task_type: request.task_type.clone(),
        request_digest: admitted.request_digest,
        requested_at: admitted.requested_at,
        deadline: request.deadline,
        tools: admitted.tools.clone(),
        budget: admitted.budget,
        timing: admitted.timing,
        mixed_batches: admitted.mixed_batches,
        output_schema: request.output_schema.clone(),
        profile_digest: admitted.profile_digest,
        spent: Spent::default(),
        segment: Segment(1),
        active_ms: 0,
        active_since: Some(event.at),
        progress: Progress::new(admitted.progress, &request.goal_predicates),
        effects: 0,
        answers: Vec::new(),
        phase: Phase::Deciding(Deciding {
            step: Step(1),
            round: Round(0),
            basis: event.basis(),
            reissues: 0,
            asked_at: event.at,
        }),
    }));
    Some(())
}

/// The run whose decision is awaited, about to wait for a person instead.
fn awaiting<'s>(state: &'s mut Invocation, evidence: &ModelEvidence, event: &Event) -> Option<&'s mut Run> {
    let run = run(state)?;
    if !matches!(run.phase, Phase::Deciding(_)) {
        return None;
    }
    run.spent.usage = run.spent.usage.plus(&evidence.usage);
    run.stop_clock(event.at);
    Some(run)
}

/// Notes what becomes of the proposal that waits; the same commit acts on it.
fn answer(state: &mut Invocation, proposal: &Digest, answer: ApprovalAnswer) -> Option<()> {
    let Phase::Suspended(Suspension::Approval(pending)) = &mut run(state)?.phase else {
        return None;
    };
    if pending.requested.proposal_digest != *proposal || pending.answer.is_some() {
        return None;
    }
    pending.answer = Some(answer);
    Some(())
}

fn plan(state: &mut Invocation, planned: &TurnPlanned, event: &Event) -> Option<Result<(), IllegalTransition>> {
    let (step, round) = (state.turn().0, planned.round);
    let run = run(state)?;
    match &run.phase {
        Phase::Deciding(_) => run.spent.usage = run.spent.usage.plus(&planned.evidence.usage),
        // Exactly what was granted, and nothing that was not (I13).
        Phase::Suspended(Suspension::Approval(pending))
            if pending.answer == Some(ApprovalAnswer::Granted)
                && pending.requested.proposal_digest == planned.proposal_digest
                && pending.requested.plan == planned.plan =>
        {
            run.resume(event.at);
        }
        Phase::Executing(_) | Phase::Suspended(_) | Phase::Cancelling(_) | Phase::Ended(_) => return None,
    }
    let waiting = CallState { stage: Stage::Waiting, attempt: AttemptNumber(0), unclaimed: 0 };
    run.spent.tool_calls += u32::try_from(planned.plan.calls.len()).unwrap_or(u32::MAX);
    run.phase = Phase::Executing(Execution {
        step,
        round,
        plan: planned.plan.clone(),
        calls: vec![waiting; planned.plan.calls.len()],
        evidence: planned.evidence.clone(),
        mark: planned.mark,
    });
    Some(prepare(state, &planned.plan))
}

/// Inserts what is new, adds the call to what is known, and never regresses an entry.
fn prepare(state: &mut Invocation, plan: &Plan) -> Result<(), IllegalTransition> {
    for call in &plan.calls {
        let (Some(effect), Some(contract)) = (&call.effect, &call.contract.effect) else {
            continue;
        };
        match state.ledger.entry(&effect.key)?.cloned() {
            Some(mut entry) => {
                if entry.request_fingerprint == effect.request_fingerprint {
                    entry.call_ids.push(call.call_id);
                    if entry.call_ids.len() > MAX_ATTEMPT_RECORDS {
                        entry.call_ids.remove(0);
                    }
                    state.ledger.put(entry)?;
                }
            }
            None => {
                state.ledger.put(LedgerEntry {
                    key: effect.key.clone(),
                    call_ids: vec![call.call_id],
                    tool: call.tool.clone(),
                    owner: contract.owner.clone(),
                    request_fingerprint: effect.request_fingerprint,
                    status: EffectStatus::Prepared,
                    attempts: Vec::new(),
                    outcome: None,
                    resolved_by: None,
                    not_applied_at: None,
                    conflicting: false,
                })?;
                if let Some(run) = run(state) {
                    run.effects += 1;
                }
            }
        }
    }
    Ok(())
}

fn record(
    state: &mut Invocation,
    key: &EffectKey,
    outcome: &EffectOutcome,
    by: &ResolvedBy,
) -> Result<(), IllegalTransition> {
    change_entry(state, key, |entry| {
        entry.move_to(outcome.status())?;
        entry.outcome = Some(outcome.clone());
        entry.resolved_by = Some(by.clone());
        Ok(())
    })
}

fn settle(
    state: &mut Invocation,
    call_id: CallId,
    outcome: &CallOutcome,
    by: Option<&ResolvedBy>,
    event: &Event,
) -> Result<(), IllegalTransition> {
    let fact = event.fact.name();
    let call = call(state, call_id).ok_or(IllegalTransition::Impossible { fact, why: "no such call" })?;
    if matches!(call.stage, Stage::Settled(_)) {
        return Err(IllegalTransition::Impossible { fact, why: "the call is settled" });
    }
    let was_waiting = std::mem::replace(&mut call.stage, Stage::Settled(outcome.clone())) == Stage::Waiting;
    if let Some(run) = run(state).filter(|_| was_waiting) {
        // Reserved when planned, and never made: skipped, stopped before its wave, or recorded before.
        run.spent.tool_calls = run.spent.tool_calls.saturating_sub(1);
    }
    if let (Some(by), Some(key), Some(certain)) = (by, effect_key_of(state, call_id), certain_outcome(outcome)) {
        record(state, &key, &certain, by)?;
    }
    leave_suspension(state, event);
    Ok(())
}

/// The ledger's side of a call's certain outcome.
fn certain_outcome(outcome: &CallOutcome) -> Option<EffectOutcome> {
    match (outcome.effect_status?, &outcome.result) {
        (EffectStatus::Committed, CallResult::Output(output)) => {
            Some(EffectOutcome::Committed { receipt: outcome.receipt.clone(), output: output.clone() })
        }
        (EffectStatus::Rejected, CallResult::Error(error)) => Some(EffectOutcome::Rejected { error: error.clone() }),
        _ => None,
    }
}

/// A suspension is left when nothing is unanswerable any more; that opens the next segment.
fn leave_suspension(state: &mut Invocation, event: &Event) {
    let Some(run) = run(state) else {
        return;
    };
    let Phase::Suspended(Suspension::Operator(execution)) = &run.phase else {
        return;
    };
    if !execution.calls.iter().any(|call| matches!(call.stage, Stage::Unanswerable { .. })) {
        run.phase = Phase::Executing(execution.clone());
        run.resume(event.at);
    }
}

fn resolve(
    state: &mut Invocation,
    call_id: CallId,
    key: &EffectKey,
    resolution: &Resolution,
    event: &Event,
) -> Result<(), IllegalTransition> {
    let fact = event.fact.name();
    let call = call(state, call_id).ok_or(IllegalTransition::Impossible { fact, why: "no such call" })?;
    let Stage::Unknown(unknown) = &mut call.stage else {
        return Err(IllegalTransition::Impossible { fact, why: "its outcome is not unknown" });
    };
    match resolution {
        Resolution::Pending { next_probe_at } => {
            unknown.next_probe_at = Some(*next_probe_at);
            Ok(())
        }
        Resolution::Unanswerable { why } => {
            call.stage = Stage::Unanswerable { unknown: unknown.clone(), why: why.clone() };
            change_entry(state, key, |entry| entry.move_to(EffectStatus::OutcomeUnknown))
        }
        Resolution::NotApplied => {
            let error = CallError::new(crate::ErrorClass::Unavailable, "the owner had not applied it when last asked");
            call.stage = Stage::Backoff { due: event.at, error };
            forget_settled(state);
            change_entry(state, key, |entry| {
                entry.not_applied_at = Some(event.at);
                entry.move_to(EffectStatus::Prepared)
            })
        }
    }
}

fn commit_turn(state: &mut Invocation, committed: &TurnCommitted, event: &Event) -> Option<()> {
    let step = state.turn().0;
    let run = run(state)?;
    match &run.phase {
        Phase::Deciding(_) | Phase::Executing(_) => {}
        Phase::Suspended(Suspension::Approval(pending)) if pending.answer == Some(ApprovalAnswer::Refused) => {
            run.resume(event.at);
        }
        Phase::Suspended(Suspension::Clarification(pending)) if pending.answer.is_some() => run.resume(event.at),
        Phase::Suspended(_) | Phase::Cancelling(_) | Phase::Ended(_) => return None,
    }
    run.spent = committed.spent;
    run.progress = run.progress.after(committed.mark, &committed.decision, &committed.results).0;
    run.phase = Phase::Deciding(Deciding {
        step: step.next(),
        round: Round(0),
        basis: event.basis(),
        reissues: 0,
        asked_at: event.at,
    });
    Some(())
}
