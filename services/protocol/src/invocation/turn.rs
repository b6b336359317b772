//! From verdict to plan, repair or end; and from the last result to the next turn. Budgets are checked here with
//! authority (M6), progress before anything runs (M12).

use super::draft::Draft;
use super::{Execution, Ignored, Phase, Run, Stage, calls, suspend};
use crate::{
    AcceptedCall, AcceptedDecision, ApprovalReason, CallOutcome, CallResult, Digest, ErrorClass, Fact, Finding,
    FindingCode, Gate, GoalPredicate, Judgement, MixedBatches, ModelEvidence, Plan, PlanMark, Round, TerminalReason,
    ToolName, TurnCommitted, TurnPlanned, TurnResult, Verdict, all_denied, fingerprint,
};

pub(super) fn verdict(draft: &mut Draft, verdict: &Verdict) -> Result<(), Ignored> {
    let Some(Phase::Deciding(deciding)) = draft.state.phase() else {
        return Err(Ignored::Stale);
    };
    let scope = &verdict.scope;
    if (deciding.step, deciding.round, deciding.basis) != (scope.step, scope.round, scope.basis) {
        return Err(Ignored::Stale);
    }
    let round = deciding.round;
    if run(draft)?.ends_at().is_some_and(|end| draft.now >= end) {
        return draft.end(TerminalReason::DeadlineExceeded, None, "the time of the run was over before the decision");
    }
    match &verdict.judgement {
        Judgement::DecisionFailed { message } => draft.end(TerminalReason::ModelError, None, message.clone()),
        Judgement::Rejected { findings, evidence } => rejected(draft, round, findings.clone(), evidence),
        Judgement::ApprovalRequired { decision, reasons, four_eyes, ttl_ms, evidence } => {
            let mut gate = Gate { reasons: reasons.clone(), four_eyes: *four_eyes, ttl_ms: *ttl_ms };
            match decision {
                AcceptedDecision::ToolCalls { calls } => batch(draft, round, calls, verdict, evidence, Some(gate)),
                AcceptedDecision::RequestApproval { calls } => {
                    gate.reasons.push(ApprovalReason::asked_by_model());
                    batch(draft, round, calls, verdict, evidence, Some(gate))
                }
                AcceptedDecision::Final { .. }
                | AcceptedDecision::Clarification { .. }
                | AcceptedDecision::CannotContinue { .. } => {
                    let finding = Finding::new(FindingCode::PlanRefused, "kind", "only calls can wait for an approval");
                    rejected(draft, round, vec![finding], evidence)
                }
            }
        }
        Judgement::Accepted { decision, evidence } => match decision {
            AcceptedDecision::Final { answer } => {
                let unmet = unmet_goals(run(draft)?);
                if !unmet.is_empty() {
                    return rejected(draft, round, unmet, evidence);
                }
                commit_turn(draft, round, decision.clone(), Vec::new(), evidence, None)?;
                draft.end(TerminalReason::Completed, Some(answer.clone()), "")
            }
            AcceptedDecision::CannotContinue { reason } => {
                commit_turn(draft, round, decision.clone(), Vec::new(), evidence, None)?;
                draft.end(TerminalReason::CannotContinue, None, reason.clone())
            }
            AcceptedDecision::ToolCalls { calls } => batch(draft, round, calls, verdict, evidence, None),
            AcceptedDecision::RequestApproval { calls } => {
                let reasons = vec![ApprovalReason::asked_by_model()];
                batch(draft, round, calls, verdict, evidence, Some(Gate { reasons, four_eyes: false, ttl_ms: None }))
            }
            AcceptedDecision::Clarification { question } => suspend::ask(draft, round, question, evidence),
        },
    }
}

fn batch(
    draft: &mut Draft,
    round: Round,
    calls: &[AcceptedCall],
    verdict: &Verdict,
    evidence: &ModelEvidence,
    gate: Option<Gate>,
) -> Result<(), Ignored> {
    let (step, _) = draft.state.turn();
    match Plan::build(draft.state.place(step, round), calls) {
        Err(findings) => rejected(draft, round, findings, evidence),
        Ok(plan) if run(draft)?.mixed_batches == MixedBatches::Reject && !plan.mixed().is_empty() => {
            rejected(draft, round, plan.mixed(), evidence)
        }
        Ok(plan) => plan_turn(draft, round, plan, fingerprint(calls), verdict, evidence, gate),
    }
}

pub(super) fn run(draft: &Draft) -> Result<&Run, Ignored> {
    draft.state.run.as_deref().ok_or(Ignored::UnknownInvocation)
}

/// A decision that does not validate: repaired once, then the end (M13).
fn rejected(draft: &mut Draft, round: Round, findings: Vec<Finding>, evidence: &ModelEvidence) -> Result<(), Ignored> {
    let reason = match all_denied(&findings) {
        true => TerminalReason::PermissionDenied,
        false => TerminalReason::InvalidDecision,
    };
    let repair = round == Round(0);
    if !repair {
        return refuse(draft, round, findings, evidence, reason);
    }
    draft.push(Fact::DecisionRejected { round, findings, evidence: evidence.clone(), repair })?;
    stop_if_used_up(draft)
}

/// The loop's head: with no tokens or no money left the model is not asked again, not even for a repair.
fn stop_if_used_up(draft: &mut Draft) -> Result<(), Ignored> {
    let run = run(draft)?;
    match run.budget.used_up_by(&run.spent.usage) {
        Some((reason, detail)) => draft.end(reason, None, detail),
        None => Ok(()),
    }
}

/// Records the decision and its findings, and ends the run before anything of it runs.
pub(super) fn refuse(
    draft: &mut Draft,
    round: Round,
    findings: Vec<Finding>,
    evidence: &ModelEvidence,
    reason: TerminalReason,
) -> Result<(), Ignored> {
    let detail = findings.first().map(|finding| format!("{}: {}", finding.path, finding.message)).unwrap_or_default();
    draft.push(Fact::DecisionRejected { round, findings, evidence: evidence.clone(), repair: false })?;
    draft.end(reason, None, detail)
}

fn plan_turn(
    draft: &mut Draft,
    round: Round,
    plan: Plan,
    fingerprint: Digest,
    verdict: &Verdict,
    evidence: &ModelEvidence,
    gate: Option<Gate>,
) -> Result<(), Ignored> {
    let run = run(draft)?;
    let (budget, mut spent) = (run.budget, run.spent);
    let mark = run.progress.mark(&plan, fingerprint);
    let standing = run.progress.findings(&plan, mark, budget.max_repeated_plan);
    let planned = u32::try_from(plan.calls.len()).unwrap_or(u32::MAX);
    let calls = spent.tool_calls.saturating_add(planned);
    spent.usage = spent.usage.plus(&evidence.usage);
    let refusal = |code, message: String| vec![Finding::new(code, "calls", message)];
    if let Some((reason, detail)) = budget.exceeded_by(&spent.usage) {
        return refuse(draft, round, refusal(FindingCode::BudgetExceeded, detail), evidence, reason);
    }
    if calls > budget.max_tool_calls {
        let message = format!("{calls} tool calls would be spent, and {} is the budget", budget.max_tool_calls);
        let findings = refusal(FindingCode::BudgetExceeded, message);
        return refuse(draft, round, findings, evidence, TerminalReason::ToolBudgetExhausted);
    }
    if !standing.is_empty() {
        return refuse(draft, round, standing, evidence, TerminalReason::NoProgress);
    }
    if let Some(gate) = gate {
        return suspend::request_approval(draft, round, plan, mark, verdict, evidence, gate);
    }
    let (step, _) = draft.state.turn();
    let proposal_digest = plan.proposal_digest(draft.state.place(step, round), verdict.policy_digest, None);
    draft.push(Fact::TurnPlanned(Box::new(TurnPlanned {
        round,
        plan,
        mark,
        proposal_digest,
        evidence: evidence.clone(),
        registry_digest: verdict.registry_digest,
        policy_digest: verdict.policy_digest,
    })))?;
    calls::advance(draft)
}

/// Commits the turn whose calls are all settled, then stops or opens the next one.
pub(super) fn finish(draft: &mut Draft) -> Result<(), Ignored> {
    let Some(Phase::Executing(execution)) = draft.state.phase() else {
        return Err(Ignored::Stale);
    };
    let settled = |stage: &Stage| match stage {
        Stage::Settled(outcome) => Some(outcome.clone()),
        _ => None,
    };
    let outcomes: Option<Vec<CallOutcome>> = execution.calls.iter().map(|call| settled(&call.stage)).collect();
    let Some(outcomes) = outcomes else {
        return Ok(());
    };
    let results = execution.plan.calls.iter().zip(outcomes).map(|(call, outcome)| TurnResult {
        call_id: call.call_id,
        provider_call_id: call.provider_call_id.clone(),
        tool: call.tool.clone(),
        outcome,
    });
    let (results, decision) = (results.collect(), execution.plan.decision());
    let (round, evidence, mark) = (execution.round, execution.evidence.clone(), execution.mark);
    let missing = unavailable(execution);
    commit_turn(draft, round, decision, results, &evidence, Some(mark))?;
    if let Some(tool) = missing {
        let detail = format!("`{tool}` is required, and it stayed unavailable");
        return draft.end(TerminalReason::ToolUnavailable, None, detail);
    }
    go_on(draft)
}

/// A tool without which the task cannot be done, and that stayed unavailable for all attempts of a call.
fn unavailable(execution: &Execution) -> Option<ToolName> {
    let lost = |stage: &Stage| match stage {
        Stage::Settled(outcome) => {
            matches!(&outcome.result, CallResult::Error(error) if error.class == ErrorClass::Unavailable)
        }
        Stage::Waiting
        | Stage::Released { .. }
        | Stage::Claimed(_)
        | Stage::Backoff { .. }
        | Stage::Unknown(_)
        | Stage::Unanswerable { .. } => false,
    };
    let mut calls = execution.plan.calls.iter().zip(&execution.calls);
    calls.find(|(call, state)| call.contract.required && lost(&state.stage)).map(|(call, _)| call.tool.clone())
}

/// The next turn, if time, steps, tokens and cost are left for it.
pub(super) fn go_on(draft: &mut Draft) -> Result<(), Ignored> {
    let run = run(draft)?;
    if run.ends_at().is_some_and(|end| draft.now >= end) {
        return draft.end(TerminalReason::DeadlineExceeded, None, "the time of the run is over");
    }
    if run.spent.steps >= run.budget.max_steps {
        let detail = format!("{} steps are the budget", run.budget.max_steps);
        return draft.end(TerminalReason::MaxSteps, None, detail);
    }
    stop_if_used_up(draft)
}

pub(super) fn commit_turn(
    draft: &mut Draft,
    round: Round,
    decision: AcceptedDecision,
    results: Vec<TurnResult>,
    evidence: &ModelEvidence,
    mark: Option<PlanMark>,
) -> Result<(), Ignored> {
    let mut spent = run(draft)?.spent;
    spent.steps += 1;
    if matches!(draft.state.phase(), Some(Phase::Deciding(_))) {
        // The usage of a turn that was planned, or that waited for a person, was counted then.
        spent.usage = spent.usage.plus(&evidence.usage);
    }
    let (_, progress) = run(draft)?.progress.after(mark, &decision, &results);
    draft.push(Fact::TurnCommitted(Box::new(TurnCommitted {
        round,
        decision,
        results,
        evidence: evidence.clone(),
        mark,
        spent,
        progress,
    })))
}

/// What keeps an answer from being taken: the goal predicates that no output has met. The model may still meet them with
/// the calls of its repair.
fn unmet_goals(run: &Run) -> Vec<Finding> {
    let finding = |unmet: &GoalPredicate| Finding::new(FindingCode::InvalidAnswer, "answer", unmet.describe_unmet());
    run.progress.unmet().map(finding).collect()
}

/// The model has not answered in time: the same turn again, a bounded number of times.
pub(super) fn decide_timer(draft: &mut Draft) -> Result<(), Ignored> {
    let Some(Phase::Deciding(deciding)) = draft.state.phase() else {
        return Err(Ignored::Stale);
    };
    let (round, count) = (deciding.round, deciding.reissues + 1);
    if count > run(draft)?.timing.max_reissues {
        return draft.end(
            TerminalReason::ModelError,
            None,
            format!("no decision after the turn was asked for {count} times"),
        );
    }
    draft.push(Fact::TurnReissued { round, count })
}
