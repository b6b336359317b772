//! Runs in a person's hands: approvals, refusals, expiry, questions. Each test is one transcript.

use serde_json::json;

use super::world::*;
use crate::*;

fn gated(calls: Vec<AcceptedCall>, reasons: &[&str]) -> Judgement {
    let reason = |path: &&str| ApprovalReason { path: (*path).into(), policy: "large".into(), message: "large".into() };
    Judgement::ApprovalRequired {
        decision: AcceptedDecision::ToolCalls { calls },
        reasons: reasons.iter().map(reason).collect(),
        four_eyes: false,
        ttl_ms: Some(60_000),
        evidence: evidence(),
    }
}

fn batch() -> Vec<AcceptedCall> {
    vec![call("a", LOOKUP, json!({"q": 1})), call("b", REFUND, json!({"order": 7}))]
}

/// A run that waits for the approval of a batch whose second call is gated.
fn waiting() -> (World, Proposal) {
    let mut world = World::admitted();
    assert_eq!(world.judge(gated(batch(), &["calls[1]"])).unwrap(), ["approval_requested"]);
    let proposal = world.last_end().proposal.unwrap();
    (world, proposal)
}

fn approve(world: &mut World, actor: &str, digest: Digest) -> Result<Vec<&'static str>, Ignored> {
    world.input(Input::Control(Control::Approve { actor: actor.into(), proposal_digest: digest }))
}

fn reject(world: &mut World, digest: Digest) -> Result<Vec<&'static str>, Ignored> {
    let (actor, reason) = ("grace".into(), "not today".into());
    world.input(Input::Control(Control::Reject { actor, proposal_digest: digest, reason }))
}

fn clarify(world: &mut World, answer: &str, step: Option<u32>) -> Result<Vec<&'static str>, Ignored> {
    let (actor, answer, step) = ("ada".into(), json!(answer), step.map(Step));
    world.input(Input::Control(Control::Clarify { actor, answer, step }))
}

fn ask(world: &mut World) -> Result<Vec<&'static str>, Ignored> {
    let decision = AcceptedDecision::Clarification { question: "which order?".into() };
    world.judge(Judgement::Accepted { decision, evidence: evidence() })
}

fn last_turn(world: &World) -> TurnCommitted {
    let turns = world.events.iter().rev().find_map(|event| match &event.fact {
        Fact::TurnCommitted(turn) => Some((**turn).clone()),
        _ => None,
    });
    turns.expect("a turn was committed")
}

fn classes(turn: &TurnCommitted) -> Vec<ErrorClass> {
    let class = |result: &TurnResult| match &result.outcome.result {
        CallResult::Error(error) => error.class,
        CallResult::Output(output) => panic!("{output}"),
    };
    turn.results.iter().map(class).collect()
}

#[test]
fn a_gated_call_gates_its_batch_and_the_caller_sees_exactly_what_would_run() {
    let (world, proposal) = waiting();
    let end = world.last_end();
    assert_eq!((end.reason, end.resumable, end.segment), (TerminalReason::ApprovalRequired, true, Segment(1)));
    assert_eq!((world.dispatches().len(), world.state.ledger.entries().count()), (0, 0));
    assert_eq!(proposal.calls[1].arguments, json!({"order": 7}));
    assert_eq!((proposal.expires_at, proposal.calls[0].effect_key.clone()), (Timestamp(61_000), None));
    let calls: Vec<_> = proposal.calls.iter().map(|c| json!([c.call_id, c.tool, c.arguments, c.effect_key])).collect();
    let scope = &end.scope;
    let whole = json!([
        scope.tenant,
        scope.invocation_id,
        scope.step,
        scope.round,
        proposal.policy_digest,
        proposal.expires_at,
        calls
    ]);
    assert_eq!(canonical_digest("proposal", &whole), proposal.digest, "a caller can compute the digest");
}

#[test]
fn what_is_approved_is_what_runs_and_the_approval_is_used_once() {
    let (mut world, proposal) = waiting();
    let facts = approve(&mut world, "grace", proposal.digest).unwrap();
    assert_eq!(facts, ["approval_granted", "turn_planned", "wave_released"]);
    let Fact::TurnPlanned(planned) = &world.events[world.events.len() - 2].fact else { panic!("no plan") };
    assert_eq!(planned.proposal_digest, proposal.digest);
    assert_eq!(
        planned.plan.calls.iter().map(|call| call.call_id).collect::<Vec<_>>(),
        proposal.calls.iter().map(|call| call.call_id).collect::<Vec<_>>()
    );
    let spent = world.state.run.as_ref().unwrap().spent;
    assert_eq!((spent.tool_calls, spent.usage), (2, evidence().usage), "the answer's usage is counted once");
    assert_eq!(approve(&mut world, "grace", proposal.digest), Err(Ignored::NoApprovalWaiting));
    for dispatch in world.dispatches() {
        match dispatch.effect {
            Some(_) => {
                world.claim(&dispatch).unwrap();
                world.settle(&dispatch, committed("r1")).unwrap();
            }
            None => drop(world.settle(&dispatch, ok(json!(1))).unwrap()),
        }
    }
    world.answer(json!("done")).unwrap();
    let ends = world.ends();
    assert_eq!(ends.iter().map(|end| end.segment.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(ends[1].reason, TerminalReason::Completed);
    assert_eq!(approve(&mut world, "grace", proposal.digest), Err(Ignored::NoApprovalWaiting));
}

#[test]
fn an_approval_of_another_digest_or_after_the_expiry_or_by_the_actor_changes_nothing() {
    let (mut world, proposal) = waiting();
    assert_eq!(approve(&mut world, "grace", Digest::default()), Err(Ignored::WrongProposal));
    assert_eq!(reject(&mut world, Digest::default()), Err(Ignored::WrongProposal));
    world.now = proposal.expires_at;
    assert_eq!(approve(&mut world, "grace", proposal.digest), Err(Ignored::ApprovalExpired));

    let mut world = World::admitted();
    let mut judgement = gated(batch(), &["calls[1]"]);
    let Judgement::ApprovalRequired { four_eyes, .. } = &mut judgement else { panic!("gated") };
    *four_eyes = true;
    world.judge(judgement).unwrap();
    let digest = world.last_end().proposal.unwrap().digest;
    assert_eq!(approve(&mut world, "ada", digest), Err(Ignored::SelfApproval));
    assert_eq!(approve(&mut world, "grace", digest).unwrap()[0], "approval_granted");
}

#[test]
fn a_refusal_commits_the_turn_and_the_model_is_told_per_call() {
    let (mut world, proposal) = waiting();
    assert_eq!(reject(&mut world, proposal.digest).unwrap(), ["approval_refused", "turn_committed"]);
    let turn = last_turn(&world);
    assert_eq!(classes(&turn), [ErrorClass::Skipped, ErrorClass::Unauthorized]);
    let CallResult::Error(error) = &turn.results[1].outcome.result else { panic!("an error") };
    assert!(error.message.contains("not today"));
    assert_eq!((world.turn().scope.step, world.turn().scope.round), (Step(2), Round(0)));
    assert_eq!(world.dispatches().len(), 0);
    assert_eq!(reject(&mut world, proposal.digest), Err(Ignored::NoApprovalWaiting));
    assert_eq!(world.state.run.as_ref().unwrap().segment, Segment(2));
}

#[test]
fn an_expired_proposal_is_refused_and_a_late_approval_finds_nothing() {
    let (mut world, proposal) = waiting();
    assert_eq!(world.input(Input::TimerFired(TimerName::Approval)), Err(Ignored::NotYet));
    assert_eq!(world.fire(TimerName::Approval).unwrap(), ["approval_refused", "turn_committed"]);
    assert_eq!(classes(&last_turn(&world)), [ErrorClass::Skipped, ErrorClass::Unauthorized]);
    assert_eq!(approve(&mut world, "grace", proposal.digest), Err(Ignored::NoApprovalWaiting));
}

#[test]
fn a_refused_proposal_counts_as_a_plan() {
    let mut world = World::admitted();
    for _ in 0..2 {
        world.judge(gated(batch(), &["calls[1]"])).unwrap();
        let digest = world.last_end().proposal.unwrap().digest;
        reject(&mut world, digest).unwrap();
    }
    assert_eq!(world.judge(gated(batch(), &["calls[1]"])).unwrap(), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::NoProgress);
}

#[test]
fn two_equal_proposals_of_different_steps_have_different_digests() {
    let mut world = World::admitted();
    world.judge(gated(batch(), &["calls[1]"])).unwrap();
    let first = world.last_end().proposal.unwrap().digest;
    reject(&mut world, first).unwrap();
    world.judge(gated(batch(), &["calls[1]"])).unwrap();
    assert_ne!(world.last_end().proposal.unwrap().digest, first);
    assert_eq!(approve(&mut world, "grace", first), Err(Ignored::WrongProposal));
}

#[test]
fn a_model_may_ask_for_an_approval_itself_and_then_every_call_is_gated() {
    let mut world = World::admitted();
    let decision = AcceptedDecision::RequestApproval { calls: batch() };
    let facts = world.judge(Judgement::Accepted { decision, evidence: evidence() }).unwrap();
    assert_eq!(facts, ["approval_requested"]);
    let proposal = world.last_end().proposal.unwrap();
    let ttl = proposal.expires_at.ms_since(world.now);
    assert_eq!(ttl, 999_000, "the profile's time, cut at the deadline");
    reject(&mut world, proposal.digest).unwrap();
    assert_eq!(classes(&last_turn(&world)), [ErrorClass::Unauthorized, ErrorClass::Unauthorized]);
}

#[test]
fn only_calls_can_be_gated() {
    let mut world = World::admitted();
    let judgement = Judgement::ApprovalRequired {
        decision: AcceptedDecision::Final { answer: json!(1) },
        reasons: vec![ApprovalReason::asked_by_model()],
        four_eyes: false,
        ttl_ms: None,
        evidence: evidence(),
    };
    assert_eq!(world.judge(judgement).unwrap(), ["decision_rejected"]);
}

#[test]
fn a_question_suspends_the_run_and_its_answer_opens_the_next_step() {
    let mut world = World::admitted();
    assert_eq!(ask(&mut world).unwrap(), ["clarification_requested"]);
    let end = world.last_end();
    assert_eq!((end.reason, end.resumable), (TerminalReason::ClarificationRequired, true));
    assert_eq!((end.question.as_deref(), end.scope.step), (Some("which order?"), Step(1)));
    assert_eq!(end.spent.usage, evidence().usage);
    assert_eq!(clarify(&mut world, "order 7", Some(2)), Err(Ignored::WrongQuestion));
    assert_eq!(clarify(&mut world, "order 7", Some(1)).unwrap(), ["clarification_given", "turn_committed"]);
    assert_eq!(clarify(&mut world, "order 7", Some(1)), Err(Ignored::NoQuestionWaiting));
    let turn = last_turn(&world);
    assert_eq!(turn.decision, AcceptedDecision::Clarification { question: "which order?".into() });
    assert_eq!((turn.spent.steps, turn.spent.usage), (1, evidence().usage), "counted once");
    assert_eq!((world.turn().scope.step, world.turn().scope.round), (Step(2), Round(0)));
    world.answer(json!("done")).unwrap();
    assert_eq!(world.last_end().segment, Segment(2));
}

#[test]
fn an_answer_that_names_no_question_never_answers_the_next_one_when_it_comes_again() {
    let mut world = World::admitted();
    ask(&mut world).unwrap();
    clarify(&mut world, "yes", None).unwrap();
    ask(&mut world).unwrap();
    assert_eq!(clarify(&mut world, "yes", None), Err(Ignored::RepeatedAnswer));
    assert_eq!(clarify(&mut world, "yes", Some(1)), Err(Ignored::WrongQuestion));
    assert_eq!(clarify(&mut world, "yes", Some(2)).unwrap(), ["clarification_given", "turn_committed"]);
}

#[test]
fn nobody_is_asked_when_no_step_is_left_to_use_an_answer() {
    let mut world = World::admitted();
    for _ in 0..3 {
        ask(&mut world).unwrap();
        let step = world.last_end().scope.step.0;
        clarify(&mut world, "yes", Some(step)).unwrap();
    }
    assert_eq!(ask(&mut world).unwrap(), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::MaxSteps);
}

#[test]
fn a_suspended_run_is_cancelled_or_out_of_time_in_a_segment_of_its_own() {
    for clarification in [false, true] {
        let begin = || {
            let mut world = World::admitted();
            match clarification {
                true => ask(&mut world).unwrap(),
                false => world.judge(gated(batch(), &["calls"])).unwrap(),
            };
            world
        };
        let mut world = begin();
        assert_eq!(world.cancel().unwrap(), ["cancel_requested", "ended"]);
        let end = world.last_end();
        assert_eq!((end.reason, end.segment), (TerminalReason::Cancelled, Segment(2)));
        assert_eq!(timers(&world.state), []);

        let mut world = begin();
        world.now = Timestamp(1_000_000);
        assert_eq!(world.input(Input::TimerFired(TimerName::Deadline)).unwrap(), ["cancel_requested", "ended"]);
        let end = world.last_end();
        assert_eq!((end.reason, end.segment), (TerminalReason::DeadlineExceeded, Segment(2)));
    }
}

#[test]
fn the_active_time_stands_still_while_a_person_is_waited_for_and_the_deadline_does_not() {
    let mut world = World::admitted();
    let run = world.state.run.as_mut().unwrap();
    (run.timing.max_runtime_ms, run.deadline) = (10_000, None);
    world.now = Timestamp(5_000);
    ask(&mut world).unwrap();
    assert_eq!(timers(&world.state), [], "nothing wakes it but a person");
    world.now = Timestamp(900_000);
    clarify(&mut world, "order 7", None).unwrap();
    let deadline = timers(&world.state).into_iter().find(|timer| timer.name == TimerName::Deadline);
    assert_eq!(deadline.unwrap().due, Timestamp(906_000));

    let (mut world, proposal) = waiting();
    world.state.run.as_mut().unwrap().deadline = Some(Timestamp(40_000));
    world.now = Timestamp(40_000);
    let facts = approve(&mut world, "grace", proposal.digest).unwrap();
    assert_eq!(facts, ["cancel_requested", "ended"], "an approval does not outlive the deadline");
    assert_eq!(world.last_end().reason, TerminalReason::DeadlineExceeded);
    assert_eq!(world.dispatches().len(), 0);
}

#[test]
fn a_batch_over_the_budget_is_refused_before_anybody_is_asked() {
    let mut world = World::admitted();
    let calls = (0..7).map(|i| call(&format!("c{i}"), LOOKUP, json!({"q": i}))).collect();
    assert_eq!(world.judge(gated(calls, &["calls[0]"])).unwrap(), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::ToolBudgetExhausted);
}

#[test]
fn budgets_are_checked_again_when_an_approval_is_granted() {
    let (mut world, proposal) = waiting();
    world.state.run.as_mut().unwrap().budget.max_tool_calls = 1;
    assert_eq!(approve(&mut world, "grace", proposal.digest).unwrap(), ["approval_granted", "ended"]);
    let end = world.last_end();
    assert_eq!((end.reason, end.segment), (TerminalReason::ToolBudgetExhausted, Segment(2)));
}

#[test]
fn the_table_plans_nothing_that_was_not_granted_and_grants_nothing_twice() {
    let (world, proposal) = waiting();
    let Some(Phase::Suspended(Suspension::Approval(pending))) = world.state.phase() else { panic!("not waiting") };
    let requested = &pending.requested;
    let planned = TurnPlanned {
        round: requested.round,
        plan: requested.plan.clone(),
        mark: requested.mark,
        proposal_digest: requested.proposal_digest,
        evidence: requested.evidence.clone(),
        registry_digest: requested.registry_digest,
        policy_digest: requested.policy_digest,
    };
    let next = |state: &Invocation, fact: Fact| {
        apply(state.clone(), &Event::seal(state.version.next(), state.head, Step(1), state.at, fact))
    };
    let plan = |planned: &TurnPlanned| Fact::TurnPlanned(Box::new(planned.clone()));
    assert!(next(&world.state, plan(&planned)).is_err(), "planned without an approval");
    let granted = Fact::ApprovalGranted { proposal_digest: proposal.digest, actor: "grace".into() };
    let other = Fact::ApprovalGranted { proposal_digest: Digest::default(), actor: "grace".into() };
    assert!(next(&world.state, other).is_err());
    let state = next(&world.state, granted.clone()).unwrap();
    assert!(next(&state, granted).is_err(), "granted twice");
    let mut changed = planned.clone();
    changed.plan.calls[1].arguments = json!({"order": 8});
    assert!(next(&state, plan(&changed)).is_err(), "another plan than the approved one");
    assert!(next(&state, plan(&planned)).is_ok());
}
