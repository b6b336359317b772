//! The table from what happened to the protocol's words.

use protocol::{AttemptOutcome, Dedupe, Digest, ErrorClass};
use turnwright_tool_executor::{Answered, Body, CallKind, Transported, classify};

fn answered(status: u16, body: &str) -> Transported {
    Transported::Answered(Answered::new(status, body))
}

fn ours() -> Digest {
    Digest::of("request", &[b"ours"])
}

/// An effect whose owner enforces the key.
fn effect() -> CallKind {
    CallKind::Effect { request_fingerprint: ours(), dedupe: Dedupe::Key }
}

/// One whose owner does not.
fn keyless() -> CallKind {
    CallKind::Effect { request_fingerprint: ours(), dedupe: Dedupe::None }
}

/// An outcome in one word, with its error's class.
fn short(outcome: &AttemptOutcome) -> (&'static str, Option<ErrorClass>) {
    match outcome {
        AttemptOutcome::Succeeded { .. } => ("succeeded", None),
        AttemptOutcome::Failed { error } => ("failed", Some(error.class)),
        AttemptOutcome::NothingSent { error } => ("nothing_sent", Some(error.class)),
        AttemptOutcome::Unknown { error } => ("unknown", Some(error.class)),
    }
}

#[test]
fn a_read_reports_the_class_of_what_happened() {
    use ErrorClass::*;
    let table = [
        (200, "{}", None),
        (204, "", None),
        (200, "<html>", Some(OutputInvalid)),
        (200, "", Some(OutputInvalid)),
        (302, "", Some(Internal)),
        (400, "", Some(InvalidArguments)),
        (401, "", Some(Unauthorized)),
        (403, "", Some(Unauthorized)),
        (404, "", Some(NotFound)),
        (405, "", Some(Internal)),
        (408, "", Some(Timeout)),
        (409, "", Some(Conflict)),
        (422, "", Some(InvalidArguments)),
        (429, "", Some(RateLimited)),
        (500, "", Some(Unavailable)),
        (504, "", Some(Timeout)),
    ];
    for (status, body, class) in table {
        let expected = if class.is_some() { "failed" } else { "succeeded" };
        assert_eq!(short(&classify(&answered(status, body), CallKind::Read)), (expected, class), "{status} {body}");
    }
}

#[test]
fn an_effect_is_settled_by_its_owners_word_only() {
    use ErrorClass::*;
    let unknown = ("unknown", Some(OutcomeUnknown));
    let table = [
        (200, r#"{"effect_id":"e-1"}"#, ("succeeded", None)),
        (204, "", ("succeeded", None)),
        (200, r#"{"outcome":"rejected"}"#, ("succeeded", None)),
        (200, "", unknown),
        (200, "<html>", unknown),
        (200, r#"{"a":1,"a":2}"#, unknown),
        (202, "{}", unknown),
        (302, "", unknown),
        (400, "", ("failed", Some(InvalidArguments))),
        (403, "", ("failed", Some(Unauthorized))),
        (404, "", ("failed", Some(NotFound))),
        (408, "", unknown),
        (409, "{}", ("failed", Some(Conflict))),
        (409, r#"{"status":"in_progress"}"#, unknown),
        (409, r#"{"outcome":"committed","effect_id":"e-1"}"#, ("succeeded", None)),
        (422, "", ("failed", Some(InvalidArguments))),
        (422, r#"{"error":"amount is negative"}"#, ("failed", Some(InvalidArguments))),
        (422, r#"{"error":"fingerprint_mismatch"}"#, ("failed", Some(Conflict))),
        (422, r#"{"code":"idempotency_key_reused"}"#, ("failed", Some(Conflict))),
        (422, r#"{"type":"fingerprint_mismatch"}"#, ("failed", Some(Conflict))),
        (400, r#"{"error":"fingerprint_mismatch"}"#, ("failed", Some(InvalidArguments))),
        (429, "", ("nothing_sent", Some(RateLimited))),
        (500, "", unknown),
        (503, r#"{"outcome":"pending"}"#, unknown),
        (500, r#"{"outcome":"rejected","reason":"over the limit"}"#, ("failed", Some(BusinessRejected))),
        (500, r#"{"outcome":"committed","effect_id":7}"#, ("succeeded", None)),
    ];
    for (status, body, expected) in table {
        assert_eq!(short(&classify(&answered(status, body), effect())), expected, "{status} {body}");
    }
}

#[test]
fn the_phase_decides_when_there_is_no_answer() {
    let nothing = Transported::NothingSent { class: ErrorClass::Unavailable, why: "refused" };
    let uncertain = Transported::Uncertain { class: ErrorClass::Timeout, why: "no answer" };
    assert_eq!(short(&classify(&nothing, CallKind::Read)), ("failed", Some(ErrorClass::Unavailable)));
    assert_eq!(short(&classify(&nothing, effect())), ("nothing_sent", Some(ErrorClass::Unavailable)));
    assert_eq!(short(&classify(&uncertain, CallKind::Read)), ("failed", Some(ErrorClass::Timeout)));
    assert_eq!(short(&classify(&uncertain, effect())), ("unknown", Some(ErrorClass::OutcomeUnknown)));
}

#[test]
fn a_body_over_the_limit_is_no_output() {
    let large = Transported::Answered(Answered { body: Body::TooLarge, ..Answered::new(200, "") });
    assert_eq!(short(&classify(&large, CallKind::Read)), ("failed", Some(ErrorClass::OutputTooLarge)));
    assert_eq!(short(&classify(&large, effect())), ("unknown", Some(ErrorClass::OutcomeUnknown)));
}

#[test]
fn a_receipt_comes_from_the_body_or_else_the_header() {
    let id = |body: &str, header: Option<&str>| {
        let answer = Answered { effect_id: header.map(str::to_owned), ..Answered::new(201, body) };
        match classify(&Transported::Answered(answer), effect()) {
            AttemptOutcome::Succeeded { receipt, .. } => receipt.map(|receipt| receipt.effect_id),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(id(r#"{"effect_id":"e-1","id":"x"}"#, Some("h")).as_deref(), Some("e-1"));
    assert_eq!(id(r#"{"id":12}"#, Some("h")).as_deref(), Some("12"));
    assert_eq!(id("{}", Some("h")).as_deref(), Some("h"));
    assert_eq!(id(r#"{"id":["x"]}"#, None), None);
}

#[test]
fn retry_after_travels_with_the_error_and_bodies_never_do() {
    let body = r#"{"outcome":"rejected","reason":"canary-secret"}"#;
    for status in [200, 400, 409, 429, 500] {
        for kind in [CallKind::Read, effect()] {
            let answer = Answered { retry_after_ms: Some(2_000), ..Answered::new(status, body) };
            match classify(&Transported::Answered(answer), kind) {
                AttemptOutcome::Succeeded { .. } => assert_eq!(status, 200),
                AttemptOutcome::Failed { error }
                | AttemptOutcome::NothingSent { error }
                | AttemptOutcome::Unknown { error } => {
                    assert!(!error.message.contains("canary"), "{}", error.message);
                    if kind == CallKind::Read {
                        assert_eq!(error.retry_after_ms, Some(2_000));
                    }
                }
            }
        }
    }
    let busy = Transported::Answered(Answered { retry_after_ms: Some(2_000), ..Answered::new(429, "") });
    let AttemptOutcome::NothingSent { error } = classify(&busy, effect()) else { panic!("429 is not processed") };
    assert_eq!(error.retry_after_ms, Some(2_000));
}

#[test]
fn an_answer_about_another_request_is_never_our_commit() {
    let other = Digest::of("request", &[b"another"]);
    let about = |fingerprint: &str, more: &str| format!(r#"{{"request_fingerprint":{fingerprint}{more}}}"#);
    let theirs = format!("\"{other}\"");
    for (status, more) in [
        (200, r#","effect_id":"e-1""#),
        (201, r#","effect_id":"e-1""#),
        (202, ""),
        (409, r#","outcome":"committed","effect_id":"e-1""#),
        (409, r#","status":"in_progress""#),
        (422, ""),
        (422, r#","outcome":"committed""#),
        (500, r#","outcome":"committed""#),
    ] {
        let answer = answered(status, &about(&theirs, more));
        let conflict = ("failed", Some(ErrorClass::Conflict));
        assert_eq!(short(&classify(&answer, effect())), conflict, "{status} {more}");
        let unknown = ("unknown", Some(ErrorClass::OutcomeUnknown));
        assert_eq!(
            short(&classify(&answer, keyless())),
            unknown,
            "without keys it says nothing of ours: {status} {more}"
        );
    }
    let ours = format!("\"{}\"", ours());
    for fingerprint in [ours.as_str(), "null"] {
        let answer = answered(200, &about(fingerprint, r#","effect_id":"e-1""#));
        assert_eq!(short(&classify(&answer, effect())).0, "succeeded", "{fingerprint}");
    }
    let garbage = classify(&answered(200, &about("7", r#","effect_id":"e-1""#)), effect());
    assert_eq!(short(&garbage).0, "unknown", "what names no request settles none");
    assert_eq!(short(&classify(&answered(200, &about(&theirs, "")), CallKind::Read)).0, "succeeded", "a read has none");
}

#[test]
fn only_an_owner_that_enforces_the_key_may_be_sent_what_it_had_no_time_for() {
    let limited = Some(ErrorClass::RateLimited);
    assert_eq!(short(&classify(&answered(429, ""), effect())), ("nothing_sent", limited));
    assert_eq!(short(&classify(&answered(429, ""), keyless())), ("failed", limited));
}
