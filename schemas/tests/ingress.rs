//! Requests and controls as a person writes them: what is wrong is named, with the way to mend it.

mod samples;

use protocol::{Control, Digest, EffectOutcome, Step, Timestamp};
use samples::codec;
use serde_json::{Value, json};
use turnwright_schemas::{ControlRecord, DeadLetterCode, Inbound, PublicWire, Rejection};

const ID: &str = "0198c0de-0000-7000-8000-000000000001";
const OTHER: &str = "0198c0de-0000-7000-8000-000000000002";

fn record(key: Option<&str>, value: impl Into<Vec<u8>>) -> Inbound {
    Inbound {
        topic: "turnwright.invocations.v1".to_owned(),
        partition: 0,
        offset: 0,
        timestamp_ms: 0,
        key: key.map(|key| key.as_bytes().to_vec()),
        value: Some(value.into()),
        headers: Vec::new(),
    }
}

fn minimal() -> Value {
    json!({"tenant": "acme", "actor": "ann", "task_type": "refund", "agent": "refunds", "goal": "refund order 7"})
}

/// The minimal request with other fields put in.
fn with(fields: Value) -> Value {
    let mut request = minimal();
    for (name, value) in fields.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn refused(value: Value) -> Rejection {
    codec(PublicWire::Json).decode_request(&record(Some(ID), value.to_string())).unwrap_err()
}

fn assert_refused(value: Value, code: DeadLetterCode, field: &str, message: &str) {
    let rejection = refused(value);
    assert_eq!((rejection.code, rejection.field.as_str()), (code, field), "{rejection}");
    assert!(rejection.message.contains(message), "{rejection}");
}

#[test]
fn the_smallest_request_takes_its_id_from_the_key() {
    let request = codec(PublicWire::Json).decode_request(&record(Some(ID), minimal().to_string())).unwrap();
    assert_eq!(request.invocation_id.to_string(), ID);
    assert_eq!(request.goal, "refund order 7");
    assert_eq!((request.deadline, request.requested_at, request.tools), (None, None, None));
}

#[test]
fn the_key_and_the_field_must_agree() {
    let codec = codec(PublicWire::Json);
    let named = with(json!({"invocation_id": ID})).to_string();
    assert!(codec.decode_request(&record(Some(ID), named.clone())).is_ok());
    for (key, value) in [(Some(OTHER), named.clone()), (None, named), (None, minimal().to_string())] {
        let rejection = codec.decode_request(&record(key, value)).unwrap_err();
        assert_eq!((rejection.code, rejection.field.as_str()), (DeadLetterCode::KeyMismatch, "invocation_id"));
    }
    assert_refused(with(json!({"invocation_id": "7"})), DeadLetterCode::Malformed, "invocation_id", "must be a UUID");
}

#[test]
fn times_are_rfc_3339_or_milliseconds() {
    for time in [json!("2024-12-01T14:59:46.005+01:00"), json!(1_733_061_586_005_i64)] {
        let value = with(json!({"requested_at": time, "deadline": time, "schema_version": 1})).to_string();
        let request = codec(PublicWire::Json).decode_request(&record(Some(ID), value)).unwrap();
        assert_eq!(request.requested_at, Some(Timestamp(1_733_061_586_005)));
        assert_eq!(request.deadline, request.requested_at);
    }
    for time in [json!("tomorrow"), json!("2024-12-01T14:59:46"), json!(1.5), json!([1])] {
        assert_refused(with(json!({"deadline": time})), DeadLetterCode::Malformed, "deadline", "RFC 3339");
    }
}

#[test]
fn a_field_of_the_wrong_type_is_named_with_what_it_must_be() {
    use DeadLetterCode::{InvalidRequest, Malformed};
    assert_refused(
        with(json!({"budget": {"max_steps": "8"}})),
        Malformed,
        "budget.max_steps",
        "must be a whole number",
    );
    assert_refused(
        with(json!({"budget": {"max_steps": 1.5}})),
        Malformed,
        "budget.max_steps",
        "must be a whole number",
    );
    assert_refused(with(json!({"budget": {"max_steps": -1}})), InvalidRequest, "budget.max_steps", "from 0 to");
    assert_refused(with(json!({"budget": {"max_steps": 0}})), InvalidRequest, "budget.max_steps", "at least 1");
    assert_refused(with(json!({"budget": {"max_tokens": u64::MAX}})), InvalidRequest, "budget.max_tokens", "not exact");
    assert_refused(with(json!({"budget": 7})), Malformed, "budget", "must be a JSON object");
    assert_refused(with(json!({"tools": ["a", 1]})), Malformed, "tools[1]", "must be a text");
    assert_refused(with(json!({"labels": {"team": 1}})), Malformed, "labels.team", "must be a text");
    assert_refused(with(json!({"tenant": 1})), Malformed, "tenant", "must be a text");
    assert_refused(with(json!({"tenant": null})), Malformed, "tenant", "is required");
    assert_refused(with(json!({"tenant": ""})), InvalidRequest, "tenant", "1 to 128 bytes");
    assert_refused(with(json!({"goal": null})), Malformed, "goal", "is required");
    assert_refused(with(json!({"goal": " "})), InvalidRequest, "goal", "say what is to be done");
    assert_refused(with(json!({"output_schema": 7})), InvalidRequest, "output_schema", "JSON Schema");
}

#[test]
fn a_goal_predicate_is_read_in_full_or_refused_by_the_name_of_its_field() {
    use DeadLetterCode::{InvalidRequest, Malformed};
    let paid = json!({"name": "paid", "tool": "pay", "pointer": "/status", "equals": "ok"});
    let done = json!({"name": "done", "tool": "pay", "exists": true});
    let value = with(json!({"goal_predicates": [paid, done]})).to_string();
    let request = codec(PublicWire::Json).decode_request(&record(Some(ID), value)).unwrap();
    let read: Vec<_> = request.goal_predicates.iter().map(|goal| (goal.name.as_str(), goal.equals.clone())).collect();
    assert_eq!(read, [("paid", Some(json!("ok"))), ("done", None)]);
    assert_eq!(json!(request.goal_predicates)[0], paid, "as it was sent");
    let refused = |change: Value, code, field: &str, message: &str| {
        let mut second = done.clone();
        second.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let field = format!("goal_predicates[1]{field}");
        assert_refused(with(json!({"goal_predicates": [paid, second]})), code, &field, message);
    };
    refused(json!({"name": 1}), Malformed, ".name", "must be a text");
    refused(json!({"tool": null}), Malformed, ".tool", "is required");
    refused(json!({"pointer": 7}), Malformed, ".pointer", "must be a text");
    refused(json!({"exists": "yes"}), Malformed, ".exists", "must be true or false");
    refused(json!({"value": 1}), Malformed, ".value", "the fields are: name, tool, pointer, equals, exists");
    refused(json!({"name": "paid"}), InvalidRequest, ".name", "stands twice");
    refused(json!({"pointer": "status"}), InvalidRequest, ".pointer", "JSON Pointer");
    refused(json!({"equals": 1}), InvalidRequest, "", "one of `equals` and `exists`");
    refused(json!({"exists": null}), InvalidRequest, "", "one of `equals` and `exists`");
    let whole = |value: Value| with(json!({ "goal_predicates": value }));
    assert_refused(whole(json!("paid")), Malformed, "goal_predicates", "must be a list of objects");
    assert_refused(whole(json!(["paid"])), Malformed, "goal_predicates[0]", "must be a JSON object");
    assert_refused(whole(json!(vec![paid; 17])), InvalidRequest, "goal_predicates", "at most 16");
}

#[test]
fn unknown_fields_are_refused_by_name_with_the_known_ones() {
    assert_refused(with(json!({"tennant": "acme"})), DeadLetterCode::Malformed, "tennant", "task_type");
    let budget = with(json!({"budget": {"steps": 3}}));
    assert_refused(budget, DeadLetterCode::Malformed, "budget.steps", "max_steps");
    let cloud_event = with(json!({"specversion": "1.0", "data": {}}));
    assert_refused(cloud_event, DeadLetterCode::Malformed, "specversion", "structured CloudEvents");
}

#[test]
fn another_version_is_unknown() {
    for version in [json!(2), json!("1"), json!(1.5)] {
        let request = with(json!({"schema_version": version}));
        assert_refused(request, DeadLetterCode::UnknownVersion, "schema_version", "must be 1");
    }
}

#[test]
fn oversize_depth_duplicates_and_rubbish_are_told_apart() {
    let codec = codec(PublicWire::Json);
    let code = |value: String| codec.decode_request(&record(Some(ID), value)).unwrap_err().code;
    assert_eq!(code(with(json!({"goal": "x".repeat(1024 * 1024)})).to_string()), DeadLetterCode::Oversize);
    let deep = (0..40).fold(json!(1), |inner, _| json!({ "a": inner }));
    assert_eq!(code(with(json!({ "goal": deep })).to_string()), DeadLetterCode::TooDeep);
    assert_eq!(code(with(json!({"goal": vec![1; 30_000]})).to_string()), DeadLetterCode::TooDeep);
    assert_eq!(code(r#"{"tenant":"a","tenant":"b"}"#.to_owned()), DeadLetterCode::Malformed);
    assert_eq!(code(r#"{"tenant":"#.to_owned()), DeadLetterCode::Malformed);
    assert_eq!(code("{}{}".to_owned()), DeadLetterCode::Malformed);
    assert_eq!(code("[]".to_owned()), DeadLetterCode::Malformed);
    let mut list = record(Some(ID), "[]");
    list.headers.push(("content-type".to_owned(), b"application/json; charset=utf-8".to_vec()));
    assert_eq!(codec.decode_request(&list).unwrap_err().message, "must be a JSON object");
}

#[test]
fn a_rejection_never_repeats_a_value() {
    let secret = "hunter2-hunter2";
    for value in [
        with(json!({"deadline": secret})),
        with(json!({"invocation_id": secret})),
        with(json!({"budget": {"max_steps": secret}})),
        with(json!({"tools": secret})),
        with(json!({"schema_version": secret})),
    ] {
        assert!(!refused(value).to_string().contains(secret));
    }
}

fn control(value: Value) -> Result<ControlRecord, Rejection> {
    codec(PublicWire::Json).decode_control(&record(Some(ID), value.to_string()))
}

#[test]
fn a_cancel_needs_tenant_and_actor_only() {
    let cancel = control(json!({"kind": "cancel", "tenant": "acme", "actor": "ann"})).unwrap();
    assert_eq!(cancel.invocation_id.to_string(), ID);
    assert_eq!(cancel.control, Control::Cancel { actor: "ann".into(), reason: String::new() });
}

#[test]
fn a_person_resolves_an_effect_without_knowing_a_digest() {
    let value = json!({
        "kind": "resolve_effect", "tenant": "acme", "actor": "ann", "effect_key": "abc", "outcome": "committed",
        "effect_id": "refund-9", "output": {"refunded": 80}, "evidence": "ticket 12",
    });
    let Control::ResolveEffect { outcome: EffectOutcome::Committed { receipt: Some(receipt), output }, .. } =
        control(value.clone()).unwrap().control
    else {
        panic!("not a committed effect");
    };
    assert_eq!((receipt.effect_id.as_str(), &output), ("refund-9", &json!({"refunded": 80})));
    for (field, wrong) in [("evidence", json!(" ")), ("effect_key", json!(null)), ("body_digest", json!("12"))] {
        let mut value = value.clone();
        value[field] = wrong;
        let rejection = control(value).unwrap_err();
        assert_eq!((rejection.code, rejection.field.as_str()), (DeadLetterCode::Malformed, field));
    }
}

#[test]
fn approvals_refusals_and_answers_are_read_and_name_what_they_are_for() {
    let base = |kind: &str, more: serde_json::Value| {
        let mut value = json!({"kind": kind, "tenant": "acme", "actor": "ann"});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value
    };
    let digest = Digest::of("proposal", &[]);
    let read = control(base("approve", json!({"proposal_digest": digest}))).unwrap().control;
    assert_eq!(read, Control::Approve { actor: "ann".into(), proposal_digest: digest });
    let read = control(base("reject", json!({"proposal_digest": digest, "reason": "too much"}))).unwrap().control;
    assert_eq!(read, Control::Reject { actor: "ann".into(), proposal_digest: digest, reason: "too much".into() });
    let read = control(base("clarify", json!({"answer": {"order": 7}, "step": 2}))).unwrap().control;
    assert_eq!(read, Control::Clarify { actor: "ann".into(), answer: json!({"order": 7}), step: Some(Step(2)) });
    for (value, field) in [
        (base("approve", json!({})), "proposal_digest"),
        (base("approve", json!({"proposal_digest": "12"})), "proposal_digest"),
        (base("approve", json!({"proposal_digest": digest, "reason": "x"})), "reason"),
        (base("reject", json!({"reason": "x"})), "proposal_digest"),
        (base("clarify", json!({"step": 2})), "answer"),
        (base("clarify", json!({"answer": "7", "step": 0})), "step"),
    ] {
        let rejection = control(value).unwrap_err();
        assert_eq!((rejection.code, rejection.field.as_str()), (DeadLetterCode::Malformed, field));
    }
    let long = base("clarify", json!({"answer": "x".repeat(17_000)}));
    assert_eq!(control(long).unwrap_err().code, DeadLetterCode::InvalidRequest);
}

#[test]
fn rubbish_is_never_a_denial() {
    for value in [
        json!({"kind": "canel", "tenant": "acme", "actor": "ann"}),
        json!({"tenant": "acme", "actor": "ann"}),
        json!({"kind": "cancel", "tenant": "acme"}),
        json!({"kind": "cancel", "tenant": "acme", "actor": "ann", "effect_key": "abc"}),
        json!({"kind": "resolve_effect", "tenant": "acme", "actor": "ann", "outcome": "maybe"}),
    ] {
        assert_eq!(control(value.clone()).unwrap_err().code, DeadLetterCode::Malformed, "{value}");
    }
}
