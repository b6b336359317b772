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
    let ends = |change: fn(&mut Budget)| {
        let (mut state, requested) = waiting();
        change(&mut state.run.as_mut().unwrap().budget);
        let approve = Control::Approve { actor: "grace".into(), proposal_digest: requested.proposal_digest };
        let events = handle(&state, &Input::Control(approve), state.at).unwrap();
        let facts: Vec<_> = events.iter().map(|event| event.fact.name()).collect();
        assert_eq!(facts, ["approval_granted", "ended"]);
        match &events[1].fact {
            Fact::Ended { reason, segment, .. } => (*reason, segment.0),
            fact => panic!("{fact:?}"),
        }
    };
    assert_eq!(ends(|budget| budget.max_tool_calls = 0), (TerminalReason::ToolBudgetExhausted, 2));
    assert_eq!(ends(|budget| budget.max_tokens = 0), (TerminalReason::TokenBudgetExhausted, 2));
}
