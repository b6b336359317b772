//! Runs in a person's hands: writes that need an approval, and questions.

use protocol::{Budget, CallResult, Control, Digest, ErrorClass, Fact, Segment, TerminalReason};
use schemas::DeadLetterCode;
use serde_json::json;
use turnwright_tests::sim::Pipeline;

use crate::stage::*;

/// Asks a person for a refund, with a read beside it, then says what came of it.
const REFUND: &str = r#"
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

fn world() -> World {
    World::new(|_| (10, answered(200, json!({"effect_id": "r-1"}))))
}

/// A run that waits for its approval, and the digest of what it proposes.
fn waiting() -> (Pipeline, World, Digest) {
    let world = world();
    let mut pipeline = pipeline(REFUND, &world);
    pipeline.request(&request(1));
    let waiting = suspended(&mut pipeline, 1);
    assert_eq!((waiting.reason, waiting.segment), (TerminalReason::ApprovalRequired, Segment(1)));
    assert!(world.called().is_empty(), "nothing runs before the approval");
    let proposal = waiting.proposal.unwrap();
    let shown: Vec<_> = proposal.calls.iter().map(|call| (call.tool.as_str(), call.arguments.clone())).collect();
    assert_eq!(shown, [("a", json!({"n": 1})), ("refund", json!({"n": 7}))]);
    (pipeline, world, proposal.digest)
}

fn answer(pipeline: &Pipeline, proposal_digest: Digest, granted: bool) {
    let actor = "grace".into();
    pipeline.control(&control(
        1,
        match granted {
            true => Control::Approve { actor, proposal_digest },
            false => Control::Reject { actor, proposal_digest, reason: "not today".into() },
        },
    ));
}

fn codes(pipeline: &Pipeline) -> Vec<DeadLetterCode> {
    pipeline.seen().dead_letters().iter().map(|letter| letter.rejection.code).collect()
}

/// What the model was told about the calls of the first turn.
fn told(pipeline: &Pipeline) -> Vec<ErrorClass> {
    let events = events(pipeline, id(1));
    let class = |result: &protocol::TurnResult| match &result.outcome.result {
        CallResult::Error(error) => error.class,
        CallResult::Output(output) => panic!("{output}"),
    };
    turns(&events)[0].results.iter().map(class).collect()
}

#[test]
fn what_is_approved_runs_and_the_run_ends_in_its_next_segment() {
    let (mut pipeline, world, digest) = waiting();
    answer(&pipeline, digest, true);
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.segment), (TerminalReason::Completed, Segment(2)));
    let mut called = world.called();
    called.sort();
    assert_eq!(called, ["a", "refund"]);
    let planned = events(&pipeline, id(1)).into_iter().find_map(|event| match event.fact {
        Fact::TurnPlanned(planned) => Some(planned.proposal_digest),
        _ => None,
    });
    assert_eq!(planned, Some(digest), "what runs is what was approved");
}

#[test]
fn what_is_refused_never_runs_and_the_model_is_told() {
    let (mut pipeline, world, digest) = waiting();
    answer(&pipeline, digest, false);
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!("told"))));
    assert_eq!(told(&pipeline), [ErrorClass::Unauthorized, ErrorClass::Unauthorized]);
    assert!(world.called().is_empty());
    let shown = serde_json::to_string(&world.asked()[1].context.turns[0].results).unwrap();
    assert!(shown.contains("not today"), "{shown}");
}

#[test]
fn a_proposal_that_nobody_answers_expires_and_an_approval_after_that_is_refused() {
    let (mut pipeline, world, digest) = waiting();
    // A day is the profile's time for an approval.
    pipeline.run_for(24 * 3_600_000 + 1_000);
    answer(&pipeline, digest, true);
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Completed);
    assert_eq!(told(&pipeline), [ErrorClass::Unauthorized, ErrorClass::Unauthorized]);
    assert_eq!(codes(&pipeline), [DeadLetterCode::NothingWaits]);
    assert!(world.called().is_empty());
}

#[test]
fn an_approval_of_another_digest_or_of_a_used_one_changes_nothing() {
    let (mut pipeline, world, digest) = waiting();
    answer(&pipeline, Digest::of("another", &[]), true);
    pipeline.run_for(10_000);
    assert!(world.called().is_empty());
    answer(&pipeline, digest, true);
    answer(&pipeline, digest, true);
    ended(&mut pipeline, id(1));
    answer(&pipeline, digest, true);
    pipeline.run_for(10_000);
    let expected = [DeadLetterCode::WrongProposal, DeadLetterCode::NothingWaits, DeadLetterCode::NothingWaits];
    assert_eq!(codes(&pipeline), expected);
    assert_eq!(world.called().len(), 2);
}

#[test]
fn a_question_waits_for_its_answer_and_the_model_is_shown_it() {
    let scenario = r#"
runs:
  - steps:
      - {step: 1, decision: {kind: clarification, question: "which order?"}}
      - {step: 2, decision: {kind: final, answer: refunded}}
"#;
    let world = world();
    let mut pipeline = pipeline(scenario, &world);
    pipeline.request(&request(1));
    let waiting = suspended(&mut pipeline, 1);
    assert_eq!(waiting.reason, TerminalReason::ClarificationRequired);
    assert_eq!(waiting.question.as_deref(), Some("which order?"));
    pipeline.run_for(3_600_000);
    let answer = |step| Control::Clarify { actor: "ada".into(), answer: json!("order 7"), step: Some(step) };
    pipeline.control(&control(1, answer(protocol::Step(2))));
    pipeline.control(&control(1, answer(protocol::Step(1))));
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.segment), (TerminalReason::Completed, Segment(2)));
    assert_eq!(codes(&pipeline), [DeadLetterCode::WrongQuestion]);
    assert_eq!(ended.spent.steps, 2, "a question is a step");
    assert!(ended.spent.usage.tokens() <= Budget::default().max_tokens);
    let shown = serde_json::to_string(&world.asked()[1].context).unwrap();
    assert!(shown.contains("order 7"), "the model sees the answer: {shown}");
}
