//! What comes in: controls that cannot be acted on, foreign tenants, the same request twice.

use protocol::{Control, Digest, EffectKey, EffectOutcome, InvocationId, TerminalReason};
use schemas::{ControlRecord, DeadLetterCode, Topic, headers};
use serde_json::json;

use crate::stage::*;

const SLOW_READ: &str = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 1}}]}
      - {step: 2, decision: {kind: final, answer: done}}
"#;

fn slow() -> World {
    World::new(|_| (5_000, answered(200, json!({}))))
}

#[test]
fn a_control_for_which_nothing_waits_is_a_typed_dead_letter_and_the_run_goes_on() {
    let mut pipeline = pipeline(SLOW_READ, &slow());
    pipeline.request(&request(1));
    pipeline.run_for(1_000);
    let key = id(1).to_string();
    let digest = Digest::of("none", &[]);
    for control in [
        json!({"kind": "approve", "proposal_digest": digest}),
        json!({"kind": "reject", "proposal_digest": digest}),
        json!({"kind": "clarify", "answer": "seven"}),
        json!({"kind": "approve"}),
        json!({"kind": "dance"}),
    ] {
        let mut value = json!({"tenant": TENANT, "actor": "ada", "invocation_id": key});
        value.as_object_mut().unwrap().extend(control.as_object().unwrap().clone());
        pipeline.produce(Topic::Controls, &key, value.to_string());
    }
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Completed);
    let letters = pipeline.seen().dead_letters();
    let found: Vec<_> = letters.iter().map(|letter| (letter.rejection.code, letter.rejection.field.as_str())).collect();
    let expected = [
        (DeadLetterCode::NothingWaits, "proposal_digest"),
        (DeadLetterCode::NothingWaits, "proposal_digest"),
        (DeadLetterCode::NothingWaits, "answer"),
        (DeadLetterCode::Malformed, "proposal_digest"),
        (DeadLetterCode::Malformed, "kind"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_same_request_twice_is_one_run_and_another_under_its_id_is_a_conflict() {
    let mut pipeline = pipeline(SLOW_READ, &slow());
    pipeline.request(&request(1));
    pipeline.request(&request(1));
    pipeline.run_for(1_000);
    let mut other = request(1);
    other.goal = json!("something else");
    pipeline.request(&other);
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Completed);
    let codes = codes(&pipeline);
    assert_eq!(codes, [DeadLetterCode::RequestConflict]);
}

/// What another tenant sees when it names an Invocation ID in every way it can: dead letters, and topics that moved.
fn probe(foreign: InvocationId) -> (Vec<(DeadLetterCode, String, String)>, [usize; 3]) {
    let mut pipeline = pipeline(SLOW_READ, &slow());
    pipeline.request(&request(1));
    pipeline.run_for(1_000);
    pipeline.control(&cancel(OTHER_TENANT, foreign));
    let outcome = EffectOutcome::Committed { receipt: None, output: json!({}) };
    let (actor, effect_key, evidence) = ("mallory".into(), EffectKey("k".to_owned()), "none".to_owned());
    pipeline.control(&ControlRecord {
        tenant: OTHER_TENANT.into(),
        invocation_id: foreign,
        control: Control::ResolveEffect { actor, effect_key, outcome, evidence },
    });
    pipeline.run_for(1_000);
    let mut asked = request(foreign.0.as_u128());
    asked.tenant = OTHER_TENANT.into();
    pipeline.request(&asked);
    pipeline.run_for(60_000);
    let seen = pipeline.seen();
    let mine: Vec<_> =
        seen.terminals(id(1)).into_iter().filter(|(_, ended)| ended.scope.tenant.as_str() == TENANT).collect();
    assert_eq!(mine.len(), 1, "the owner's run ends once");
    assert_eq!(mine[0].1.reason, TerminalReason::Completed, "and is not disturbed");
    let theirs = seen.terminals(foreign).into_iter().filter(|(_, ended)| ended.scope.tenant.as_str() == OTHER_TENANT);
    let theirs: Vec<_> = theirs.map(|(_, ended)| ended.reason).collect();
    assert_eq!(theirs, [TerminalReason::Cancelled], "their own cancel overtook their own request");
    let letters = seen.dead_letters().into_iter();
    let letters = letters.map(|letter| (letter.rejection.code, letter.rejection.field, letter.rejection.message));
    (letters.collect(), [Topic::Terminals, Topic::Events, Topic::DeadLetters].map(|topic| seen.count(topic)))
}

#[test]
fn another_tenants_invocation_id_behaves_exactly_as_an_unknown_one() {
    assert_eq!(probe(id(1)), probe(id(999)));
}

const GATED: &str = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: request_approval, calls: [{call_id: x, tool_name: refund, arguments: {n: 7}}]}
      - {step: 2, decision: {kind: final, answer: refunded}}
"#;

/// Two tenants share the topic, so that nobody is believed by the topic alone.
#[test]
fn where_tenants_share_a_topic_only_a_signed_approval_counts() {
    let world = World::new(|_| (20, answered(200, json!({"effect_id": "r-1"}))));
    let mut pipeline = pipeline(GATED, &world);
    pipeline.request(&request(1));
    let proposal = suspended(&mut pipeline, 1).proposal.unwrap();
    let events_before = events(&pipeline, id(1)).len();

    pipeline.sign_with(None);
    pipeline.control(&approve(1, proposal.digest));
    pipeline.control(&reject(1, proposal.digest));
    pipeline.control(&resolve(1, EffectKey("k".to_owned()), was_committed(json!({}))));
    pipeline.sign_with(Some(key("nobody")));
    pipeline.control(&approve(1, proposal.digest));
    pipeline.sign_with(Some(key("grace")));
    let another = |tenant: &str, actor: &str| ControlRecord {
        tenant: tenant.into(),
        invocation_id: id(1),
        control: Control::Approve { actor: actor.into(), proposal_digest: proposal.digest },
    };
    pipeline.control(&another(TENANT, "ada"));
    pipeline.control(&another(OTHER_TENANT, "grace"));
    // Signed, and changed afterwards.
    let mut forged = pipeline.signed(&another(TENANT, "grace"));
    forged.value.push(b' ');
    pipeline.put(&forged);
    pipeline.run_for(1_000);

    let letters = pipeline.seen().dead_letters().into_iter();
    let letters: Vec<_> = letters.map(|letter| (letter.rejection.code, letter.rejection.field)).collect();
    let of = |code, field: &str| (code, field.to_owned());
    let mut expected = vec![of(DeadLetterCode::SignatureRequired, headers::SIGNATURE); 3];
    expected.extend([
        of(DeadLetterCode::SignatureInvalid, headers::SIGNATURE),
        of(DeadLetterCode::SignatureInvalid, "actor"),
        of(DeadLetterCode::SignatureInvalid, "tenant"),
        of(DeadLetterCode::SignatureInvalid, headers::SIGNATURE),
    ]);
    assert_eq!(letters, expected);
    assert_eq!(events(&pipeline, id(1)).len(), events_before, "none of them changed anything");
    assert!(world.called().is_empty());

    // The right key is believed.
    pipeline.control(&approve(1, proposal.digest));
    assert_eq!(ended(&mut pipeline, id(1)).answer, Some(json!("refunded")));
    assert_eq!((world.called(), pipeline.seen().dead_letters().len()), (vec!["refund".to_owned()], 7));
}

#[test]
fn a_cancel_counts_unsigned_on_a_shared_topic() {
    let mut pipeline = pipeline(GATED, &World::new(|_| (20, answered(200, json!({})))));
    pipeline.request(&request(1));
    suspended(&mut pipeline, 1);
    pipeline.sign_with(None);
    pipeline.control(&cancel(TENANT, id(1)));
    assert_eq!(ended(&mut pipeline, id(1)).reason, TerminalReason::Cancelled);
}
