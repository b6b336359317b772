//! The table from an owner's reply to the protocol's words.

use protocol::{Answer, Digest, EffectOutcome, ErrorClass};
use serde_json::json;
use turnwright_reconciler::{OwnerReply, Verb, answer};

fn fingerprint() -> Digest {
    Digest::of("request", &[b"ours"])
}

fn said(status: u16, body: &str) -> (Answer, Option<&'static str>) {
    says(Verb::Ask, status, body)
}

fn says(verb: Verb, status: u16, body: &str) -> (Answer, Option<&'static str>) {
    let reply = OwnerReply::Answered { status, body: body.into(), retry_after_ms: Some(700) };
    answer(verb, &reply, &fingerprint())
}

#[test]
fn a_committed_effect_comes_with_its_receipt_and_output() {
    let body = format!(
        r#"{{"status":"committed","effect_id":"e-1","output":{{"n":1}},"request_fingerprint":"{}"}}"#,
        fingerprint()
    );
    let (Answer::Certain { outcome: EffectOutcome::Committed { receipt: Some(receipt), output } }, None) =
        said(200, &body)
    else {
        panic!("not committed");
    };
    assert_eq!((receipt.effect_id.as_str(), output), ("e-1", json!({"n": 1})));
    assert_eq!(receipt.body_digest, Digest::of("body", &[body.as_bytes()]));
    let (bare, _) = said(200, r#"{"status":"committed","effect_id":7,"request_fingerprint":null}"#);
    assert!(matches!(bare, Answer::Certain { outcome: EffectOutcome::Committed { receipt: Some(_), .. } }));
}

#[test]
fn a_rejected_effect_is_business_rejected_without_the_owners_text() {
    let (Answer::Certain { outcome: EffectOutcome::Rejected { error } }, None) =
        said(200, r#"{"status":"rejected","reason":"canary-secret"}"#)
    else {
        panic!("not rejected");
    };
    assert_eq!(error.class, ErrorClass::BusinessRejected);
    assert!(!error.message.contains("canary"));
}

#[test]
fn only_the_owners_word_is_certain_and_the_rest_is_asked_again() {
    let pending = |ms| Answer::Pending { retry_after_ms: ms };
    let table = [
        (202, "", pending(700), None),
        (404, "", Answer::NotApplied, None),
        (401, "", pending(700), Some("unauthorized")),
        (403, "", pending(700), Some("unauthorized")),
        (429, "", pending(700), Some("rate_limited")),
        (500, "", pending(700), Some("server_error")),
        (302, "", pending(700), Some("unexpected_status")),
        (410, "", pending(700), Some("unexpected_status")),
        (200, "", pending(700), Some("garbage")),
        (200, "<html>", pending(700), Some("garbage")),
        (200, r#"{"status":"perhaps"}"#, pending(700), Some("garbage")),
        (200, r#"{"status":"committed","effect_id":{}}"#, pending(700), Some("garbage")),
    ];
    for (status, body, expected, kind) in table {
        assert_eq!(said(status, body), (expected, kind), "{status} {body}");
    }
    for (reply, kind) in [
        (OwnerReply::TimedOut, "timeout"),
        (OwnerReply::Unreachable, "unreachable"),
        (OwnerReply::TooLarge, "too_large"),
    ] {
        assert_eq!(answer(Verb::Ask, &reply, &fingerprint()), (pending(0), Some(kind)));
    }
}

#[test]
fn another_request_under_the_key_is_for_a_person() {
    for status in ["committed", "rejected"] {
        let other = Digest::of("request", &[b"another"]);
        let body = format!(r#"{{"status":"{status}","effect_id":"e-1","request_fingerprint":"{other}"}}"#);
        assert!(matches!(said(200, &body), (Answer::Unanswerable { .. }, None)), "{status}");
    }
}

/// The class and the message of a certain "no".
fn rejection((answer, kind): (Answer, Option<&'static str>)) -> (ErrorClass, String) {
    let Answer::Certain { outcome: EffectOutcome::Rejected { error } } = answer else { panic!("{answer:?}") };
    assert_eq!(kind, None);
    (error.class, error.message)
}

#[test]
fn a_closed_key_was_never_applied_and_is_no_business_rejection() {
    let never = (ErrorClass::Unavailable, "the owner never applied it, and has closed its key".to_owned());
    for (verb, status, body) in [
        (Verb::Close, 200, r#"{"status":"rejected"}"#),
        (Verb::Close, 201, r#"{"status":"rejected"}"#),
        (Verb::Close, 201, r#"{"status":"rejected","closed":true}"#),
        (Verb::Ask, 200, r#"{"status":"rejected","closed":true}"#),
    ] {
        assert_eq!(rejection(says(verb, status, body)), never, "{verb:?} {status} {body}");
    }
    for verb in [Verb::Ask, Verb::Close] {
        let (class, _) = rejection(says(verb, 200, r#"{"status":"rejected","closed":false}"#));
        assert_eq!(class, ErrorClass::BusinessRejected, "it was rejected before anybody closed the key");
    }
}

#[test]
fn a_tombstone_that_finds_the_effect_applied_brings_its_receipt() {
    let (answer, kind) = says(Verb::Close, 200, r#"{"status":"committed","effect_id":"e-1"}"#);
    let Answer::Certain { outcome: EffectOutcome::Committed { receipt: Some(receipt), .. } } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((receipt.effect_id.as_str(), kind), ("e-1", None));
}

#[test]
fn only_an_owner_that_has_no_tombstones_leaves_it_at_not_applied() {
    let pending = Answer::Pending { retry_after_ms: 700 };
    let table = [
        (404, Answer::NotApplied, Some("no_tombstone")),
        (405, Answer::NotApplied, Some("no_tombstone")),
        (501, Answer::NotApplied, Some("no_tombstone")),
        (202, pending.clone(), None),
        (201, pending.clone(), Some("garbage")),
        (403, pending.clone(), Some("unauthorized")),
        (429, pending.clone(), Some("rate_limited")),
        (500, pending.clone(), Some("server_error")),
        (409, pending.clone(), Some("unexpected_status")),
    ];
    for (status, expected, kind) in table {
        assert_eq!(says(Verb::Close, status, ""), (expected, kind), "{status}");
    }
    assert_eq!(
        said(201, r#"{"status":"rejected"}"#),
        (pending, Some("unexpected_status")),
        "a question creates nothing"
    );
}
