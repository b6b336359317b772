//! Suspensions that a person ends: a proposal waits for its approval, a question for its answer (M23). Each answer is
//! consumed by the commit that acts on it.

use super::draft::Draft;
use super::turn::{commit_turn, go_on, refuse, run};
use super::{Ignored, Phase, Suspension, calls};
use crate::{
    AcceptedDecision, Actor, ApprovalRequested, CallOutcome, Digest, ErrorClass, Fact, Finding, FindingCode, Gate,
    MAX_APPROVAL_TTL_MS, ModelEvidence, PendingApproval, PendingClarification, Plan, PlanMark, RefusalReason, Round,
    Step, TerminalReason, TurnPlanned, TurnResult, Verdict, answer_digest,
};

/// Ends the segment: the batch waits, exactly as it would run. Its budgets were checked, and are again when it is granted.
pub(super) fn request_approval(
    draft: &mut Draft,
    round: Round,
    plan: Plan,
    mark: PlanMark,
    verdict: &Verdict,
    evidence: &ModelEvidence,
    gate: Gate,
) -> Result<(), Ignored> {
    let run = run(draft)?;
    let ttl_ms = gate.ttl_ms.unwrap_or(run.timing.approval_ttl_ms).min(MAX_APPROVAL_TTL_MS);
    let expires_at = draft.now.plus_ms(ttl_ms);
    // After the deadline nothing runs, so nobody could approve it.
    let expires_at = run.deadline.map_or(expires_at, |deadline| expires_at.min(deadline));
    let segment = run.segment;
    let place = draft.state.place(draft.state.turn().0, round);
    let proposal_digest = plan.proposal_digest(place, verdict.policy_digest, Some(expires_at));
    draft.push(Fact::ApprovalRequested(Box::new(ApprovalRequested {
        segment,
        round,
        plan,
        mark,
        proposal_digest,
        reasons: gate.reasons,
        expires_at,
        four_eyes: gate.four_eyes,
        evidence: evidence.clone(),
        registry_digest: verdict.registry_digest,
        policy_digest: verdict.policy_digest,
    })))
}

/// The proposal that waits, if it is the one that is named.
fn waiting(draft: &Draft, proposal: Digest) -> Result<PendingApproval, Ignored> {
    match draft.state.phase() {
        None => Err(Ignored::UnknownInvocation),
        Some(Phase::Suspended(Suspension::Approval(pending))) => match pending.requested.proposal_digest == proposal {
            true => Ok(PendingApproval::clone(pending)),
            false => Err(Ignored::WrongProposal),
        },
        Some(
            Phase::Deciding(_)
            | Phase::Executing(_)
            | Phase::Suspended(Suspension::Clarification(_) | Suspension::Operator(_))
            | Phase::Cancelling(_)
            | Phase::Ended(_),
        ) => Err(Ignored::NoApprovalWaiting),
    }
}

/// Whether the run's time is over; the timer that says so may be late.
fn is_over(draft: &Draft) -> Result<bool, Ignored> {
    Ok(run(draft)?.ends_at().is_some_and(|end| draft.now >= end))
}

/// A person grants exactly this proposal: it is planned as it was shown, once.
pub(super) fn approve(draft: &mut Draft, actor: &Actor, proposal_digest: Digest) -> Result<(), Ignored> {
    let requested = waiting(draft, proposal_digest)?.requested;
    if is_over(draft)? {
        return calls::time_is_over(draft);
    }
    if draft.now >= requested.expires_at {
        return Err(Ignored::ApprovalExpired);
    }
    if requested.four_eyes && *actor == run(draft)?.actor {
        return Err(Ignored::SelfApproval);
    }
    draft.push(Fact::ApprovalGranted { proposal_digest, actor: actor.clone() })?;
    let run = run(draft)?;
    let planned = u32::try_from(requested.plan.calls.len()).unwrap_or(u32::MAX);
    if let Some((reason, detail)) = run.budget.exceeded_by(&run.spent.usage) {
        return draft.end(reason, None, detail);
    }
    if run.spent.tool_calls.saturating_add(planned) > run.budget.max_tool_calls {
        let detail = format!("{} tool calls are the budget", run.budget.max_tool_calls);
        return draft.end(TerminalReason::ToolBudgetExhausted, None, detail);
    }
    draft.push(Fact::TurnPlanned(Box::new(TurnPlanned {
        round: requested.round,
        plan: requested.plan,
        mark: requested.mark,
        proposal_digest,
        evidence: requested.evidence,
        registry_digest: requested.registry_digest,
        policy_digest: requested.policy_digest,
    })))?;
    calls::advance(draft)
}

/// A person refuses this proposal; the model is told.
pub(super) fn reject(draft: &mut Draft, actor: &Actor, proposal: Digest, reason: &str) -> Result<(), Ignored> {
    let requested = waiting(draft, proposal)?.requested;
    if is_over(draft)? {
        return calls::time_is_over(draft);
    }
    refused(draft, requested, Some(actor.clone()), RefusalReason::Refused, reason)
}

/// Nobody has answered in time: as refused.
pub(super) fn expire(draft: &mut Draft) -> Result<(), Ignored> {
    let Some(Phase::Suspended(Suspension::Approval(pending))) = draft.state.phase() else {
        return Err(Ignored::Stale);
    };
    let requested = pending.requested.clone();
    refused(draft, requested, None, RefusalReason::Expired, "nobody answered in time")
}

/// Commits the turn without running any of it: gated calls are `unauthorized`, the others `skipped`.
fn refused(
    draft: &mut Draft,
    requested: ApprovalRequested,
    actor: Option<Actor>,
    why: RefusalReason,
    detail: &str,
) -> Result<(), Ignored> {
    let proposal_digest = requested.proposal_digest;
    draft.push(Fact::ApprovalRefused { proposal_digest, actor, why, detail: detail.to_owned() })?;
    let told = match why {
        RefusalReason::Refused if detail.is_empty() => "a person refused this call".to_owned(),
        RefusalReason::Refused => format!("a person refused this call: {detail}"),
        RefusalReason::Expired => "this call needed an approval, and nobody gave it in time".to_owned(),
    };
    let outcome = |position| match requested.reasons.iter().any(|reason| reason.gates(position)) {
        true => CallOutcome::without_attempt(ErrorClass::Unauthorized, told.clone()),
        false => CallOutcome::without_attempt(ErrorClass::Skipped, "another call of its batch was not approved"),
    };
    let results = requested.plan.calls.iter().enumerate().map(|(position, call)| TurnResult {
        call_id: call.call_id,
        provider_call_id: call.provider_call_id.clone(),
        tool: call.tool.clone(),
        outcome: outcome(position),
    });
    let (results, decision) = (results.collect(), requested.plan.decision());
    commit_turn(draft, requested.round, decision, results, &requested.evidence, Some(requested.mark))?;
    go_on(draft)
}

/// Ends the segment: the model waits for a person's answer. Where no turn would be left to use it, nobody is asked.
pub(super) fn ask(draft: &mut Draft, round: Round, question: &str, evidence: &ModelEvidence) -> Result<(), Ignored> {
    let run = run(draft)?;
    let mut spent = run.spent;
    spent.usage = spent.usage.plus(&evidence.usage);
    let short = run.budget.used_up_by(&spent.usage).or_else(|| {
        let detail = format!("{} steps are the budget, and none is left to use an answer", run.budget.max_steps);
        (spent.steps.saturating_add(1) >= run.budget.max_steps).then_some((TerminalReason::MaxSteps, detail))
    });
    if let Some((reason, detail)) = short {
        let finding = Finding::new(FindingCode::BudgetExceeded, "question", detail);
        return refuse(draft, round, vec![finding], evidence, reason);
    }
    let (segment, question) = (run.segment, question.to_owned());
    draft.push(Fact::ClarificationRequested { segment, round, question, evidence: evidence.clone() })
}

/// A person answers the question that waits; the next turn shows it to the model.
pub(super) fn clarify(
    draft: &mut Draft,
    actor: &Actor,
    answer: &serde_json::Value,
    step: Option<Step>,
) -> Result<(), Ignored> {
    let pending = match draft.state.phase() {
        None => return Err(Ignored::UnknownInvocation),
        Some(Phase::Suspended(Suspension::Clarification(pending))) => PendingClarification::clone(pending),
        Some(
            Phase::Deciding(_)
            | Phase::Executing(_)
            | Phase::Suspended(Suspension::Approval(_) | Suspension::Operator(_))
            | Phase::Cancelling(_)
            | Phase::Ended(_),
        ) => return Err(Ignored::NoQuestionWaiting),
    };
    match step {
        Some(step) if step != pending.step => return Err(Ignored::WrongQuestion),
        None if run(draft)?.answers.contains(&answer_digest(actor, answer)) => return Err(Ignored::RepeatedAnswer),
        Some(_) | None => {}
    }
    if is_over(draft)? {
        return calls::time_is_over(draft);
    }
    draft.push(Fact::ClarificationGiven { actor: actor.clone(), answer: answer.clone() })?;
    let decision = AcceptedDecision::Clarification { question: pending.question };
    commit_turn(draft, pending.round, decision, Vec::new(), &pending.evidence, None)?;
    go_on(draft)
}
