//! What a person allows.

use protocol::{Control, ErrorClass, Fact, Proposal, TerminalReason};
use schemas::{DeadLetterCode, Topic};
use serde_json::json;
use tool_executor::Transported;
use turnwright_tests::sim::Pipeline;

use crate::Books;
use crate::stage::*;

/// Proposes two payments to a person, in one batch, then answers.
const TWO_REFUNDS: &str = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: request_approval
          calls:
            - {call_id: x, tool_name: refund, arguments: {n: 7}}
            - {call_id: y, tool_name: refund, arguments: {n: 8}}
      - {step: 2, decision: {kind: final, answer: done}}
"#;

fn world(books: &Books) -> World {
    let (applied, asked) = (books.clone(), books.clone());
    World::new(move |request| (10, answered(200, applied.apply(request))))
        .with_owner(move |question| asked.answer(question))
}

/// Runs to the proposal of the run `n`.
fn proposed(pipeline: &mut Pipeline, n: u128) -> Proposal {
    pipeline.request(&request(n));
    let waiting = suspended(pipeline, n);
    assert_eq!(waiting.reason, TerminalReason::ApprovalRequired);
    waiting.proposal.expect("the caller sees the exact proposal")
}

/// Two parallel calls need approval: both get the same ID, and answers go to the wrong one. Here an approval is of one
/// proposal, by (invocation, digest), and the batch is one proposal.
#[test]
fn an_approval_is_of_one_proposal_of_one_run_and_covers_its_whole_batch() {
    let books = Books::default();
    let mut pipeline = pipeline(TWO_REFUNDS, &world(&books));
    let (first, second) = (proposed(&mut pipeline, 1), proposed(&mut pipeline, 2));
    assert_ne!(first.digest, second.digest, "equal calls of two runs are two proposals");
    assert_ne!(first.calls[0].call_id, first.calls[1].call_id, "and two calls of one batch are two calls");
    pipeline.control(&approve(1, second.digest));
    pipeline.control(&approve(2, first.digest));
    pipeline.run_for(10_000);
    assert_eq!(codes(&pipeline), [DeadLetterCode::WrongProposal; 2]);
    assert!(books.requests().is_empty(), "nothing ran");
    pipeline.control(&approve(1, first.digest));
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Completed);
    let keys: Vec<_> = first.calls.iter().filter_map(|call| call.effect_key.clone()).collect();
    let mut applied = books.keys();
    applied.sort_by_key(|key| keys.iter().position(|known| known == key));
    assert_eq!(applied, keys, "exactly what was shown has run, and nothing of the other run");
}

/// An approved call is retried by the engine, and the approval is used twice.
#[test]
fn an_approval_is_consumed_once_in_the_commit_that_acts_on_it() {
    let books = Books::default();
    let applied = books.clone();
    let refused_once = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let world = World::new(move |request| match refused_once.swap(false, std::sync::atomic::Ordering::Relaxed) {
        true => (10, Transported::NothingSent { class: ErrorClass::Unavailable, why: "connection refused" }),
        false => (10, answered(200, applied.apply(request))),
    });
    let mut pipeline = pipeline(TWO_REFUNDS, &world);
    let proposal = proposed(&mut pipeline, 1);
    pipeline.control(&approve(1, proposal.digest));
    pipeline.control(&approve(1, proposal.digest));
    let ended = ended(&mut pipeline, id(1));
    pipeline.control(&approve(1, proposal.digest));
    pipeline.run_for(60_000);
    assert_eq!(ended.reason, TerminalReason::Completed);
    assert_eq!(world.called().len(), 3, "one call was tried again under the approval it had");
    assert_eq!(books.requests(), [1, 1]);
    let events = events(&pipeline, id(1));
    let granted = events.iter().filter(|event| matches!(event.fact, Fact::ApprovalGranted { .. })).count();
    assert_eq!((granted, codes(&pipeline)), (1, vec![DeadLetterCode::NothingWaits; 2]));
}

/// A denied run is resumed with an approval, and the tool executes.
#[test]
fn a_refused_or_cancelled_proposal_is_never_approved_afterwards() {
    let books = Books::default();
    let mut pipeline = pipeline(TWO_REFUNDS, &world(&books));
    let (refused, cancelled) = (proposed(&mut pipeline, 1), proposed(&mut pipeline, 2));
    pipeline.control(&reject(1, refused.digest));
    pipeline.control(&cancel(TENANT, id(2)));
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Completed, "the model was told, and answered");
    assert_eq!(ended(&mut pipeline, id(2)).reason, TerminalReason::Cancelled);
    let before = [1, 2].map(|n| events(&pipeline, id(n)));
    pipeline.control(&approve(1, refused.digest));
    pipeline.control(&approve(2, cancelled.digest));
    pipeline.control(&control(2, Control::Clarify { actor: "ada".into(), answer: json!("go on"), step: None }));
    pipeline.run_for(60_000);
    assert_eq!([1, 2].map(|n| events(&pipeline, id(n))), before);
    assert_eq!(codes(&pipeline), [DeadLetterCode::NothingWaits; 3]);
    assert!(books.requests().is_empty());
}

/// Resuming in another process loses the approval, because it lived in memory.
#[test]
fn an_approval_finds_its_proposal_after_every_process_has_died() {
    let books = Books::default();
    let world = world(&books);
    let mut pipeline = pipeline(TWO_REFUNDS, &world);
    let proposal = proposed(&mut pipeline, 1);
    pipeline.restart();
    pipeline.run_for(3_600_000);
    pipeline.control(&approve(1, proposal.digest));
    pipeline.restart();
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.segment.0), (TerminalReason::Completed, 2));
    assert_eq!(books.requests(), [1, 1]);
    assert_eq!(world.asked().len(), 2, "the model was not asked again for what it had proposed");
}

/// An approval answer that cannot be parsed is taken as a denial.
#[test]
fn an_approval_that_cannot_be_read_is_quarantined_and_the_run_goes_on_waiting() {
    let books = Books::default();
    let mut pipeline = pipeline(TWO_REFUNDS, &world(&books));
    let proposal = proposed(&mut pipeline, 1);
    let before = events(&pipeline, id(1));
    let key = id(1).to_string();
    let said = |more: serde_json::Value| {
        let mut value = json!({"tenant": TENANT, "actor": "grace", "invocation_id": key});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value.to_string()
    };
    for value in [
        "{ yes".to_owned(),
        said(json!({"kind": "approve"})),
        said(json!({"kind": "approve", "proposal_digest": "all of it"})),
        said(json!({"kind": "approved", "proposal_digest": proposal.digest})),
        said(json!({"kind": "reject", "proposal_digest": proposal.digest, "maybe": true})),
    ] {
        pipeline.produce(Topic::Controls, &key, value);
    }
    pipeline.run_for(60_000);
    assert_eq!(codes(&pipeline).len(), 5, "each is set aside and reported: {:?}", codes(&pipeline));
    assert_eq!(events(&pipeline, id(1)), before, "none of them is an answer");
    pipeline.control(&approve(1, proposal.digest));
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Completed);
}

/// What a person found out about a wire settles it; that the caller has also been asked for an approval changes nothing.
#[test]
fn a_resolution_is_no_approval() {
    let books = Books::default();
    let mut pipeline = pipeline(TWO_REFUNDS, &world(&books));
    let proposal = proposed(&mut pipeline, 1);
    let effect_key = proposal.calls[0].effect_key.clone().unwrap();
    pipeline.control(&resolve(1, effect_key, was_committed(json!({}))));
    pipeline.run_for(60_000);
    assert_eq!(facts(&events(&pipeline, id(1))), ["admitted", "approval_requested"]);
    assert!(books.requests().is_empty());
}
