//! Runs in a person's hands: approvals, refusals, expiry, questions; over restarts, and with the wrong answers.

use protocol::{Control, Digest, ErrorClass, Fact, Proposal, RunEnded, Segment, Step, TerminalReason};
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

/// A refund with a read beside it.
const BATCH: &str = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: request_approval
          calls:
            - {call_id: x, tool_name: a, arguments: {n: 1}}
            - {call_id: y, tool_name: refund, arguments: {n: 7}}
      - {step: 2, decision: {kind: final, answer: told}}
"#;

fn refunding() -> World {
    World::new(|request| (20, answered(200, json!({"effect_id": "r-1", "echo": request.arguments}))))
}

fn clarify(answer: Value, step: Option<u32>) -> ControlRecord {
    control(1, Control::Clarify { actor: "ada".into(), answer, step: step.map(Step) })
}

/// Asks, and runs until the run waits for a person.
#[track_caller]
fn asks(pipeline: &mut Pipeline) -> RunEnded {
    pipeline.request(&request(1));
    let ended = suspended(pipeline, 1);
    pipeline.run_for(1_000);
    assert_eq!(pipeline.seen().terminals(id(1)).len(), 1, "a suspension is announced once");
    ended
}

#[track_caller]
fn waiting(pipeline: &mut Pipeline) -> Proposal {
    let ended = asks(pipeline);
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
    pipeline.control(&approve(1, proposal.digest));
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
fn an_approved_batch_runs_as_a_whole_under_the_digest_that_was_approved() {
    let world = refunding();
    let mut pipeline = pipeline(BATCH, &world);
    let proposal = waiting(&mut pipeline);
    let shown: Vec<_> = proposal.calls.iter().map(|call| (call.tool.as_str(), call.arguments.clone())).collect();
    assert_eq!(shown, [("a", json!({"n": 1})), ("refund", json!({"n": 7}))]);
    assert!(world.called().is_empty(), "nothing runs before the approval");
    pipeline.control(&approve(1, proposal.digest));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.segment), (TerminalReason::Completed, Segment(2)));
    let mut called = world.called();
    called.sort();
    assert_eq!(called, ["a", "refund"]);
    let planned = events(&pipeline, id(1)).into_iter().find_map(|event| match event.fact {
        Fact::TurnPlanned(planned) => Some(planned.proposal_digest),
        _ => None,
    });
    assert_eq!(planned, Some(proposal.digest), "what runs is what was approved");
}

/// What both calls of a batch get that was refused or has expired: they were not tried.
const UNAUTHORIZED: [(Option<ErrorClass>, u32); 2] = [(Some(ErrorClass::Unauthorized), 0); 2];

#[test]
fn a_refused_batch_never_runs_and_the_model_is_told_of_each_call() {
    let world = refunding();
    let mut pipeline = pipeline(BATCH, &world);
    let proposal = waiting(&mut pipeline);
    pipeline.control(&reject(1, proposal.digest));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!("told"))));
    assert_eq!(outcomes(&pipeline), UNAUTHORIZED);
    assert!(world.called().is_empty());
    let shown = serde_json::to_string(&world.asked()[1].context.turns[0].results).unwrap();
    assert!(shown.contains("not today"), "{shown}");
}

#[test]
fn a_batch_that_nobody_answers_for_a_day_expires_and_an_approval_after_that_is_refused() {
    let world = refunding();
    let mut pipeline = pipeline(BATCH, &world);
    let proposal = waiting(&mut pipeline);
    // A day is the profile's time for an approval.
    pipeline.run_for(24 * 3_600_000 + 1_000);
    pipeline.control(&approve(1, proposal.digest));
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Completed);
    assert_eq!(outcomes(&pipeline), UNAUTHORIZED);
    assert_eq!(codes(&pipeline), [DeadLetterCode::NothingWaits]);
    assert!(world.called().is_empty());
}

#[test]
fn a_refused_proposal_never_runs_and_the_model_is_told_why() {
    let world = refunding();
    let mut pipeline = pipeline(REFUSED, &world);
    let proposal = waiting(&mut pipeline);
    pipeline.control(&reject(1, proposal.digest));
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
    pipeline.control(&approve(1, proposal.digest));
    pipeline.run_for(1_000);
    assert_eq!(letters(&pipeline), [(DeadLetterCode::NothingWaits, "proposal_digest".to_owned())]);
    assert!(world.called().is_empty());
}

#[test]
fn a_question_is_answered_and_the_next_turn_shows_the_answer() {
    let world = World::echoing();
    let mut pipeline = pipeline(QUESTION, &world);
    let asked = asks(&mut pipeline);
    assert_eq!(
        (asked.reason, asked.question.as_deref()),
        (TerminalReason::ClarificationRequired, Some("which order?"))
    );
    pipeline.run_for(3_600_000);
    pipeline.control(&clarify(json!({"order": 8}), Some(asked.scope.step.0 + 1)));
    pipeline.control(&clarify(json!({"order": 7}), Some(asked.scope.step.0)));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!(codes(&pipeline), [DeadLetterCode::WrongQuestion]);
    assert_eq!((ended.reason, ended.spent.steps), (TerminalReason::Completed, 2), "a question is a step");
    let shown = serde_json::to_string(&world.asked()[1].context).unwrap();
    assert!(shown.contains(r#"{"order":7}"#), "the model sees the answer: {shown}");
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
    approved.control(&approve(1, proposal.digest));
    approved.restart();
    assert_eq!(ended(&mut approved, id(1)).answer, Some(json!(7)));
    assert_eq!((world.called(), approved.seen().count(Topic::Decisions)), (vec!["refund".to_owned()], 2));

    let mut answered = pipeline(QUESTION, &World::echoing());
    asks(&mut answered);
    answered.restart();
    answered.control(&clarify(json!({"order": 7}), None));
    assert_eq!(ended(&mut answered, id(1)).answer, Some(json!("order 7")));
    assert_eq!(answered.seen().count(Topic::Decisions), 2);
}

#[test]
fn an_approval_that_is_wrong_reused_or_for_an_ended_run_is_typed_and_changes_nothing() {
    let world = refunding();
    let mut pipeline = pipeline(REFUND, &world);
    let proposal = waiting(&mut pipeline);
    let wrong = Digest::of("another", &[]);
    pipeline.control(&approve(1, wrong));
    pipeline.control(&reject(1, wrong));
    pipeline.control(&clarify(json!("yes"), None));
    pipeline.run_for(1_000);
    let field = |field: &str| field.to_owned();
    let mut expected = vec![
        (DeadLetterCode::WrongProposal, field("proposal_digest")),
        (DeadLetterCode::WrongProposal, field("proposal_digest")),
        (DeadLetterCode::NothingWaits, field("answer")),
    ];
    assert_eq!(letters(&pipeline), expected);
    assert_eq!(events(&pipeline, id(1)).len(), 2, "nothing has changed");
    pipeline.control(&approve(1, proposal.digest));
    pipeline.control(&approve(1, proposal.digest));
    ended(&mut pipeline, id(1));
    let events_at_the_end = events(&pipeline, id(1)).len();
    pipeline.control(&approve(1, proposal.digest));
    pipeline.control(&reject(1, proposal.digest));
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
    pipeline.control(&approve(1, proposal.digest));
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
