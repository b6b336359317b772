//! What `handle` never draws, and the table refuses all the same: a log that was tampered with, or written by a bug, is no
//! history of an invocation.

use serde_json::json;

use super::replay::after;
use crate::*;

/// The state after one more fact.
fn next(state: &Invocation, fact: Fact) -> Result<Invocation, IllegalTransition> {
    let event = Event::seal(state.version.next(), state.head, state.turn().0, state.at, fact);
    apply(state.clone(), &event)
}

/// A run that waits for the approval of one refund.
fn waiting() -> (Invocation, ApprovalRequested) {
    let gated = r#"verdict: {gated: {decision: {calls: [[a, refund, {order: 7}]]}, paths: ["calls[0]"]}}"#;
    let state = after(&["request: {}", gated]);
    let Some(Phase::Suspended(Suspension::Approval(pending))) = state.phase() else { panic!("not waiting") };
    let requested = pending.requested.clone();
    (state, requested)
}

#[test]
fn the_table_plans_nothing_that_was_not_granted_and_grants_nothing_twice() {
    let (waiting, requested) = waiting();
    let planned = TurnPlanned {
        round: requested.round,
        plan: requested.plan.clone(),
        mark: requested.mark,
        proposal_digest: requested.proposal_digest,
        evidence: requested.evidence.clone(),
        registry_digest: requested.registry_digest,
        policy_digest: requested.policy_digest,
    };
    let plan = |planned: &TurnPlanned| Fact::TurnPlanned(Box::new(planned.clone()));
    let grant = |proposal_digest| Fact::ApprovalGranted { proposal_digest, actor: "grace".into() };
    assert!(next(&waiting, plan(&planned)).is_err(), "planned without an approval");
    assert!(next(&waiting, grant(Digest::default())).is_err());
    let granted = next(&waiting, grant(requested.proposal_digest)).unwrap();
    assert!(next(&granted, grant(requested.proposal_digest)).is_err(), "granted twice");
    let mut changed = planned.clone();
    changed.plan.calls[0].arguments = json!({"order": 8});
    assert!(next(&granted, plan(&changed)).is_err(), "another plan than the approved one");
    let renamed = TurnPlanned { proposal_digest: Digest::default(), ..planned.clone() };
    assert!(next(&granted, plan(&renamed)).is_err(), "under another digest");
    assert!(next(&granted, plan(&planned)).is_ok());
}

/// Nothing is spent while a run waits, so that this takes a run whose budget was changed behind its back.
#[test]
fn budgets_are_checked_again_when_an_approval_is_granted() {
    let approved = |change: fn(&mut Budget)| {
        let (mut state, requested) = waiting();
        change(&mut state.run.as_mut().unwrap().budget);
        let approve = Control::Approve { actor: "grace".into(), proposal_digest: requested.proposal_digest };
        let events = handle(&state, &Input::Control(approve), state.at).unwrap();
        let facts: Vec<_> = events.iter().map(|event| event.fact.name()).collect();
        (events, facts)
    };
    let ends = |change| {
        let (events, facts) = approved(change);
        assert_eq!(facts, ["approval_granted", "ended"]);
        match &events[1].fact {
            Fact::Ended { reason, segment, .. } => (*reason, segment.0),
            fact => panic!("{fact:?}"),
        }
    };
    assert_eq!(ends(|budget| budget.max_tool_calls = 0), (TerminalReason::ToolBudgetExhausted, 2));
    assert_eq!(ends(|budget| budget.max_tokens = 0), (TerminalReason::TokenBudgetExhausted, 2));
    let (_, facts) = approved(|budget| budget.max_tool_calls = 1);
    assert_eq!(facts, ["approval_granted", "turn_planned", "wave_released"], "to the last call");
}

#[test]
fn an_effects_attempt_fails_only_after_it_was_claimed() {
    let released = after(&["request: {}", "verdict: {calls: [[a, refund, {order: 7}]]}"]);
    let call_id = released.execution().unwrap().plan.calls[0].call_id;
    let error = CallError::new(ErrorClass::Unavailable, "nothing was sent");
    let failed = Fact::AttemptFailed { call_id, attempt: AttemptNumber(1), error, retry_at: released.at };
    let moved = IllegalMove { from: EffectStatus::Prepared, to: EffectStatus::Prepared };
    assert_eq!(next(&released, failed).unwrap_err(), IllegalTransition::Effect(moved));
}

#[test]
fn a_turn_that_waits_for_a_person_is_committed_with_the_answer_only() {
    let (waiting, requested) = waiting();
    let proposal_digest = requested.proposal_digest;
    let turn = Fact::TurnCommitted(Box::new(TurnCommitted {
        round: requested.round,
        decision: requested.plan.decision(),
        results: vec![],
        evidence: requested.evidence.clone(),
        mark: None,
        spent: Spent::default(),
        progress: TurnProgress::default(),
    }));
    let granted = Fact::ApprovalGranted { proposal_digest, actor: "grace".into() };
    let (why, detail) = (RefusalReason::Refused, "not today".to_owned());
    let refused = Fact::ApprovalRefused { proposal_digest, actor: None, why, detail };
    assert!(next(&waiting, turn.clone()).is_err());
    assert!(next(&next(&waiting, granted).unwrap(), turn.clone()).is_err(), "what was granted has results");
    assert!(next(&next(&waiting, refused).unwrap(), turn.clone()).is_ok());

    let asking = after(&["request: {}", r#"verdict: {clarification: "which order?"}"#]);
    let answered = Fact::ClarificationGiven { actor: "ada".into(), answer: json!(7) };
    assert!(next(&asking, turn.clone()).is_err());
    assert!(next(&next(&asking, answered).unwrap(), turn).is_ok());
}
