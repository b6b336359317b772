//! What happened, put into the protocol's words (M11, M16). Pure: a table over phase, status, the owner's words and what
//! it promises; `schemas/owner.md` says it to owners. A read's error is its class; an effect is settled by its owner's own
//! word on this very request only, and everything between "nothing was sent" and that word is unknown.

use protocol::{AttemptOutcome, CallError, Dedupe, Digest, ErrorClass, JsonLimits, Receipt, parse_bounded};
use serde_json::Value;

use crate::{Answered, Body, Transported};

/// The longest effect ID kept of a body, in bytes.
const MAX_EFFECT_ID_BYTES: usize = 256;

const KEY_IS_TAKEN: &str = "another request has this Effect Key at the owner; ours was not applied";
const KEY_IS_TAKEN_CODES: [&str; 2] = ["fingerprint_mismatch", "idempotency_key_reused"];

/// Whether a call changes anything at its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    Read,
    Effect {
        request_fingerprint: Digest,
        /// Whether the owner applies a key at most once.
        dedupe: Dedupe,
    },
}

/// The outcome of one attempt. Messages name a status or a phase, never arguments or bodies.
pub fn classify(transported: &Transported, kind: CallKind) -> AttemptOutcome {
    match (transported, kind) {
        (Transported::Answered(answered), CallKind::Read) => read(answered),
        (Transported::Answered(answered), CallKind::Effect { request_fingerprint, dedupe }) => {
            effect(answered, &request_fingerprint, dedupe)
        }
        (Transported::NothingSent { class, why }, CallKind::Effect { .. }) => {
            AttemptOutcome::NothingSent { error: CallError::new(*class, *why) }
        }
        (Transported::Uncertain { why, .. }, CallKind::Effect { .. }) => unknown(*why),
        (Transported::NothingSent { class, why } | Transported::Uncertain { class, why }, CallKind::Read) => {
            AttemptOutcome::Failed { error: CallError::new(*class, *why) }
        }
    }
}

fn unknown(why: impl Into<String>) -> AttemptOutcome {
    AttemptOutcome::Unknown { error: CallError::new(ErrorClass::OutcomeUnknown, why) }
}

fn failed(class: ErrorClass, why: impl Into<String>) -> AttemptOutcome {
    AttemptOutcome::Failed { error: CallError::new(class, why) }
}

/// Why a body is not an output.
enum Unreadable {
    Invalid,
    TooLarge,
}

fn output(answered: &Answered) -> Result<Value, Unreadable> {
    match &answered.body {
        Body::TooLarge => Err(Unreadable::TooLarge),
        Body::Whole(bytes) if bytes.is_empty() && answered.status == 204 => Ok(Value::Null),
        Body::Whole(bytes) => {
            let limits = JsonLimits { bytes: bytes.len(), ..JsonLimits::default() };
            parse_bounded(bytes, limits).map_err(|_| Unreadable::Invalid)
        }
    }
}

fn read(answered: &Answered) -> AttemptOutcome {
    let status = answered.status;
    let error = match status {
        200..=299 => match output(answered) {
            Ok(output) => return AttemptOutcome::Succeeded { output, receipt: None },
            Err(Unreadable::Invalid) => {
                CallError::new(ErrorClass::OutputInvalid, format!("HTTP {status} with a body that is not bounded JSON"))
            }
            Err(Unreadable::TooLarge) => {
                CallError::new(ErrorClass::OutputTooLarge, "the output is over the tool's max_output_bytes")
            }
        },
        status => CallError::new(class_of(status), format!("the tool answered HTTP {status}")),
    };
    AttemptOutcome::Failed { error: CallError { retry_after_ms: answered.retry_after_ms, ..error } }
}

/// The class of a status that is not a success.
fn class_of(status: u16) -> ErrorClass {
    match status {
        400 | 422 => ErrorClass::InvalidArguments,
        401 | 403 => ErrorClass::Unauthorized,
        404 | 410 => ErrorClass::NotFound,
        409 => ErrorClass::Conflict,
        429 => ErrorClass::RateLimited,
        408 | 504 => ErrorClass::Timeout,
        500..=599 => ErrorClass::Unavailable,
        // A redirect that is not followed, or a request the endpoint does not take: the registry needs mending.
        _ => ErrorClass::Internal,
    }
}

fn effect(answered: &Answered, ours: &Digest, dedupe: Dedupe) -> AttemptOutcome {
    let status = answered.status;
    let body = output(answered);
    let words = body.as_ref().ok();
    if let Some(outcome) = words.and_then(|body| another_request(body, ours, dedupe)) {
        return outcome;
    }
    if let Some(word) = words.filter(|_| !(200..=299).contains(&status)).and_then(|body| word(body, answered)) {
        return word;
    }
    match status {
        202 => unknown("the owner has accepted the request and not said what came of it (HTTP 202)"),
        200..=299 => match body {
            Ok(output) => AttemptOutcome::Succeeded { receipt: receipt(&output, answered), output },
            Err(Unreadable::Invalid) => unknown(format!("HTTP {status} with a body that is not bounded JSON")),
            Err(Unreadable::TooLarge) => unknown(format!("HTTP {status} with a body over the tool's max_output_bytes")),
        },
        429 => too_many(answered, dedupe),
        408 => unknown("the owner gave up waiting for the request (HTTP 408)"),
        409 if words.is_some_and(is_in_progress) => unknown("the owner is still at a request with this key (HTTP 409)"),
        422 if words.is_some_and(says_key_is_taken) => failed(ErrorClass::Conflict, KEY_IS_TAKEN),
        400..=499 => failed(class_of(status), format!("the owner refused the request (HTTP {status})")),
        _ => unknown(format!("HTTP {status} without the owner's word on the effect")),
    }
}

/// What an answer that names another request than ours comes to: never to our commit. An owner that enforces the key has
/// given it to that other request and cannot apply ours; one that does not has said nothing about ours.
fn another_request(body: &Value, ours: &Digest, dedupe: Dedupe) -> Option<AttemptOutcome> {
    match (body.get("request_fingerprint")?, dedupe) {
        (Value::Null, _) => None,
        (Value::String(theirs), _) if *theirs == ours.to_string() => None,
        (Value::String(_), Dedupe::Key) => Some(failed(ErrorClass::Conflict, KEY_IS_TAKEN)),
        _ => Some(unknown("the answer is about another request")),
    }
}

/// 429 is "not processed" by definition. An owner that enforces the key may be asked again, as if nothing had been sent;
/// at any other one only what was really not sent may follow itself.
fn too_many(answered: &Answered, dedupe: Dedupe) -> AttemptOutcome {
    let error = CallError::new(ErrorClass::RateLimited, "the owner takes no more requests for now (HTTP 429)");
    let error = CallError { retry_after_ms: answered.retry_after_ms, ..error };
    match dedupe {
        Dedupe::Key => AttemptOutcome::NothingSent { error },
        Dedupe::None => AttemptOutcome::Failed { error },
    }
}

/// The owner's own word in the body of an error answer: `{"outcome": "committed" | "rejected", …}`.
fn word(body: &Value, answered: &Answered) -> Option<AttemptOutcome> {
    match body.get("outcome")?.as_str()? {
        "committed" => Some(AttemptOutcome::Succeeded {
            output: body.get("output").unwrap_or(body).clone(),
            receipt: receipt(body, answered),
        }),
        "rejected" => {
            let message = format!("the owner has rejected it (HTTP {})", answered.status);
            Some(AttemptOutcome::Failed { error: CallError::new(ErrorClass::BusinessRejected, message) })
        }
        _ => None,
    }
}

fn is_in_progress(body: &Value) -> bool {
    body.get("status").and_then(Value::as_str) == Some("in_progress")
}

/// An owner's words for "the key belongs to another request", in one of the fields where error codes stand.
fn says_key_is_taken(body: &Value) -> bool {
    let codes = ["error", "code", "type"].into_iter().filter_map(|field| body.get(field)?.as_str());
    codes.into_iter().any(|code| KEY_IS_TAKEN_CODES.contains(&code))
}

/// The owner's receipt (M19): its ID from `effect_id`, `id` or the header, and the digest of what it said.
fn receipt(body: &Value, answered: &Answered) -> Option<Receipt> {
    let id = |name: &str| match body.get(name)? {
        Value::String(text) if !text.is_empty() && text.len() <= MAX_EFFECT_ID_BYTES => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let effect_id = id("effect_id").or_else(|| id("id")).or_else(|| answered.effect_id.clone())?;
    let bytes: &[u8] = match &answered.body {
        Body::Whole(bytes) => bytes,
        Body::TooLarge => &[],
    };
    Some(Receipt { effect_id, body_digest: Digest::of("body", &[bytes]) })
}
