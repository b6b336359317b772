//! Runs in a person's hands: approvals, refusals, expiry, questions; over restarts, and with the wrong answers.

use protocol::{Control, Digest, Proposal, RunEnded, Step, TerminalReason};
use schemas::{ControlRecord, DeadLetterCode, Topic};
use serde_json::{Value, json};
use turnwright_tests::sim::Pipeline;

use crate::stage::*;

const REFUND: &str = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: request_approval, calls: [{call_id: x, tool_name: refund, arguments: {n: 7}}]}
        usage: {input_tokens: 10, output_tokens: 5}
      - {step: 2, decision: {kind: final, answer: "{x.output.echo.n}"}}
"#;

const REFUSED: &str = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: request_approval, calls: [{call_id: x, tool_name: refund, arguments: {n: 7}}]}
      - {step: 2, decision: {kind: final, answer: "{x.error.class}: {x.error.message}"}}
"#;

const QUESTION: &str = r#"
runs:
  - steps:
      - {step: 1, decision: {kind: clarification, question: "which order?"}}
      - {step: 2, decision: {kind: final, answer: "order {answer.order}"}}
"#;

fn refunding() -> World {
    World::new(|request| (20, answered(200, json!({"effect_id": "r-1", "echo": request.arguments}))))
}

fn say(pipeline: &Pipeline, control: Control) {
    pipeline.control(&ControlRecord { tenant: TENANT.into(), invocation_id: id(1), control });
}

fn approve(pipeline: &Pipeline, actor: &str, proposal_digest: Digest) {
    say(pipeline, Control::Approve { actor: actor.into(), proposal_digest });
}

fn reject(pipeline: &Pipeline, proposal_digest: Digest) {
    let (actor, reason) = ("grace".into(), "not today".to_owned());
    say(pipeline, Control::Reject { actor, proposal_digest, reason });
}

fn clarify(pipeline: &Pipeline, answer: Value, step: Option<u32>) {
    say(pipeline, Control::Clarify { actor: "ada".into(), answer, step: step.map(Step) });
}

/// Asks, and runs until the run waits for a person.
#[track_caller]
fn suspended(pipeline: &mut Pipeline) -> RunEnded {
    pipeline.request(&request(1));
    assert!(pipeline.run_until(PATIENCE_MS, |seen| !seen.terminals(id(1)).is_empty()), "nothing waits");
    pipeline.run_for(1_000);
    let mut ends = pipeline.seen().terminals(id(1));
    assert_eq!(ends.len(), 1, "a suspension is announced once: {ends:#?}");
    ends.remove(0).1
}

#[track_caller]
fn waiting(pipeline: &mut Pipeline) -> Proposal {
    let ended = suspended(pipeline);
    assert_eq!((ended.reason, ended.resumable, ended.segment.0), (TerminalReason::ApprovalRequired, true, 1));
    ended.proposal.expect("a proposal waits")
}

/// The dead letters' codes and fields.
fn letters(pipeline: &Pipeline) -> Vec<(DeadLetterCode, String)> {
    let letters = pipeline.seen().dead_letters().into_iter();
    letters.map(|letter| (letter.rejection.code, letter.rejection.field)).collect()
}

#[test]
fn an_approved_proposal_runs_once_exactly_as_it_was_shown() {
    let world = refunding();
    let mut pipeline = pipeline(REFUND, &world);
    let proposal = waiting(&mut pipeline);
    assert_eq!((proposal.calls[0].tool.as_str(), &proposal.calls[0].arguments), ("refund", &json!({"n": 7})));
    assert!(world.called().is_empty(), "nothing runs before it is approved");
    approve(&pipeline, "grace", proposal.digest);
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.segment.0), (TerminalReason::Completed, 2));
    assert_eq!((ended.answer, ended.spent.usage.tokens()), (Some(json!(7)), 15));
    assert_eq!(world.called(), ["refund"]);
    assert_eq!(Some(&ended.effects[0].key), proposal.calls[0].effect_key.as_ref());
    let expected = [
        "admitted",
        "approval_requested",
        "approval_granted",
        "turn_planned",
        "wave_released",
        "call_claimed",
        "call_settled",
        "turn_committed",
        "turn_committed",
        "ended",
    ];
    assert_eq!(facts(&events(&pipeline, id(1))), expected);
    assert!(letters(&pipeline).is_empty());
}

#[test]
fn a_refused_proposal_never_runs_and_the_model_is_told_why() {
    let world = refunding();
    let mut pipeline = pipeline(REFUSED, &world);
    let proposal = waiting(&mut pipeline);
    reject(&pipeline, proposal.digest);
    let ended = ended(&mut pipeline, id(1));
    assert_eq!(ended.answer, Some(json!("unauthorized: a person refused this call: not today")));
    assert!(world.called().is_empty() && ended.effects.is_empty());
}

#[test]
fn an_expired_proposal_is_refused_and_an_approval_that_comes_later_is_told_so() {
    let mut registry = registry();
    registry.agents.agents[0].timing.approval_ttl_ms = 5_000;
    let world = refunding();
    let mut pipeline = pipeline_with(1, registry, REFUSED, &world);
    let proposal = waiting(&mut pipeline);
    let ended = ended(&mut pipeline, id(1));
    assert!(ended.ended_at >= proposal.expires_at);
    let told = "unauthorized: this call needed an approval, and nobody gave it in time";
    assert_eq!(ended.answer, Some(json!(told)));
    approve(&pipeline, "grace", proposal.digest);
    pipeline.run_for(1_000);
    assert_eq!(letters(&pipeline), [(DeadLetterCode::NothingWaits, "proposal_digest".to_owned())]);
    assert!(world.called().is_empty());
}

#[test]
fn a_question_is_answered_and_the_next_turn_shows_the_answer() {
    let mut pipeline = pipeline(QUESTION, &World::echoing());
    let asked = suspended(&mut pipeline);
    assert_eq!(
        (asked.reason, asked.question.as_deref()),
        (TerminalReason::ClarificationRequired, Some("which order?"))
    );
    clarify(&pipeline, json!({"order": 7}), Some(asked.scope.step.0));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.answer, ended.segment.0), (Some(json!("order 7")), 2));
    let expected =
        ["admitted", "clarification_requested", "clarification_given", "turn_committed", "turn_committed", "ended"];
    assert_eq!(facts(&events(&pipeline, id(1))), expected);
}

#[test]
fn a_run_is_resumed_after_every_process_was_restarted_and_the_model_is_not_asked_again() {
    let world = refunding();
    let mut approved = pipeline(REFUND, &world);
    let proposal = waiting(&mut approved);
    approved.restart();
    approved.run_for(10_000);
    approve(&approved, "grace", proposal.digest);
    approved.restart();
    assert_eq!(ended(&mut approved, id(1)).answer, Some(json!(7)));
    assert_eq!((world.called(), approved.seen().count(Topic::Decisions)), (vec!["refund".to_owned()], 2));

    let mut answered = pipeline(QUESTION, &World::echoing());
    suspended(&mut answered);
    answered.restart();
    clarify(&answered, json!({"order": 7}), None);
    assert_eq!(ended(&mut answered, id(1)).answer, Some(json!("order 7")));
    assert_eq!(answered.seen().count(Topic::Decisions), 2);
}

#[test]
fn an_approval_that_is_wrong_reused_or_for_an_ended_run_is_typed_and_changes_nothing() {
    let world = refunding();
    let mut pipeline = pipeline(REFUND, &world);
    let proposal = waiting(&mut pipeline);
    let wrong = Digest::of("another", &[]);
    approve(&pipeline, "grace", wrong);
    reject(&pipeline, wrong);
    clarify(&pipeline, json!("yes"), None);
    pipeline.run_for(1_000);
    let field = |field: &str| field.to_owned();
    let mut expected = vec![
        (DeadLetterCode::WrongProposal, field("proposal_digest")),
        (DeadLetterCode::WrongProposal, field("proposal_digest")),
        (DeadLetterCode::NothingWaits, field("answer")),
    ];
    assert_eq!(letters(&pipeline), expected);
    assert_eq!(events(&pipeline, id(1)).len(), 2, "nothing has changed");
    approve(&pipeline, "grace", proposal.digest);
    approve(&pipeline, "grace", proposal.digest);
    ended(&mut pipeline, id(1));
    let events_at_the_end = events(&pipeline, id(1)).len();
    approve(&pipeline, "grace", proposal.digest);
    reject(&pipeline, proposal.digest);
    pipeline.run_for(1_000);
    expected.extend(vec![(DeadLetterCode::NothingWaits, field("proposal_digest")); 3]);
    assert_eq!(letters(&pipeline), expected);
    assert_eq!(events(&pipeline, id(1)).len(), events_at_the_end);
    assert_eq!(world.called(), ["refund"]);
}

#[test]
fn another_tenants_approval_finds_no_run_and_changes_nothing() {
    let world = refunding();
    let mut pipeline = pipeline(REFUND, &world);
    let proposal_digest = waiting(&mut pipeline).digest;
    let control = Control::Approve { actor: "mallory".into(), proposal_digest };
    pipeline.control(&ControlRecord { tenant: OTHER_TENANT.into(), invocation_id: id(1), control });
    pipeline.run_for(1_000);
    assert_eq!(letters(&pipeline), [(DeadLetterCode::UnknownInvocation, "invocation_id".to_owned())]);
    assert_eq!((events(&pipeline, id(1)).len(), world.called().len()), (2, 0));
}

#[test]
fn a_suspended_run_is_cancelled_in_a_segment_of_its_own() {
    let world = refunding();
    let mut pipeline = pipeline(REFUND, &world);
    let proposal = waiting(&mut pipeline);
    pipeline.control(&cancel(TENANT, id(1)));
    approve(&pipeline, "grace", proposal.digest);
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.segment.0), (TerminalReason::Cancelled, 2));
    assert!(world.called().is_empty());
    assert_eq!(letters(&pipeline), [(DeadLetterCode::NothingWaits, "proposal_digest".to_owned())]);
}

#[test]
fn a_suspended_run_whose_deadline_passes_ends_deadline_exceeded() {
    let world = refunding();
    let mut pipeline = pipeline(REFUND, &world);
    let mut asked = request(1);
    let deadline = i64::try_from(pipeline.now_ms()).unwrap() + 200_000;
    asked.deadline = Some(protocol::Timestamp(deadline));
    pipeline.request(&asked);
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.segment.0), (TerminalReason::DeadlineExceeded, 2));
    assert!(ended.ended_at.0 >= deadline, "the active time of two minutes stood still");
}
