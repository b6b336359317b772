//! An owner's reply, put into the protocol's words. Pure. Only its own word on this very request is certain; what is not
//! usable is "pending", because the core bounds how often it asks and then hands over to a person (M16).

use protocol::{Answer, CallError, Digest, EffectOutcome, ErrorClass, JsonLimits, Receipt, parse_bounded};
use serde_json::Value;

use crate::{OwnerReply, Verb};

/// What the model and the caller read of an effect whose key was closed.
const NEVER_APPLIED: &str = "the owner never applied it, and has closed its key";

/// The longest effect ID kept, in bytes.
const MAX_EFFECT_ID_BYTES: usize = 256;

/// The answer, and for a reply without a usable word the kind of it, as a metric label. `schemas/owner.md` says what an
/// owner may reply.
pub fn answer(verb: Verb, reply: &OwnerReply, request_fingerprint: &Digest) -> (Answer, Option<&'static str>) {
    let pending = |kind| (Answer::Pending { retry_after_ms: 0 }, Some(kind));
    let (status, body, retry_after_ms) = match reply {
        OwnerReply::Answered { status, body, retry_after_ms } => (*status, body, retry_after_ms.unwrap_or(0)),
        OwnerReply::TooLarge => return pending("too_large"),
        OwnerReply::TimedOut => return pending("timeout"),
        OwnerReply::Unreachable => return pending("unreachable"),
    };
    let later = |kind| (Answer::Pending { retry_after_ms }, kind);
    match (verb, status) {
        (_, 200) | (Verb::Close, 201) => match word(verb, body, request_fingerprint) {
            Some(answer) => (answer, None),
            None => later(Some("garbage")),
        },
        (_, 202) => later(None),
        (Verb::Ask, 404) => (Answer::NotApplied, None),
        // No tombstones, against the declaration: what the owner said when it was asked stays as it is.
        (Verb::Close, 404 | 405 | 501) => (Answer::NotApplied, Some("no_tombstone")),
        (_, 401 | 403) => later(Some("unauthorized")),
        (_, 429) => later(Some("rate_limited")),
        (_, 500..=599) => later(Some("server_error")),
        _ => later(Some("unexpected_status")),
    }
}

fn word(verb: Verb, body: &[u8], request_fingerprint: &Digest) -> Option<Answer> {
    let limits = JsonLimits { bytes: body.len(), ..JsonLimits::default() };
    let value = parse_bounded(body, limits).ok()?;
    let is_ours = |word: &Value| word.as_str() == Some(request_fingerprint.to_string().as_str());
    if value.get("request_fingerprint").is_some_and(|word| !word.is_null() && !is_ours(word)) {
        return Some(Answer::Unanswerable { why: "another request has this key".to_owned() });
    }
    match value.get("status")?.as_str()? {
        "committed" => {
            let effect_id = match value.get("effect_id") {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) if !text.is_empty() && text.len() <= MAX_EFFECT_ID_BYTES => {
                    Some(text.clone())
                }
                Some(Value::Number(number)) => Some(number.to_string()),
                Some(_) => return None,
            };
            let body_digest = Digest::of("body", &[body]);
            let receipt = effect_id.map(|effect_id| Receipt { effect_id, body_digest });
            let output = value.get("output").unwrap_or(&value).clone();
            Some(Answer::Certain { outcome: EffectOutcome::Committed { receipt, output } })
        }
        "rejected" => {
            let closed = value.get("closed").and_then(Value::as_bool).unwrap_or(verb == Verb::Close);
            let error = match closed {
                true => CallError::new(ErrorClass::Unavailable, NEVER_APPLIED),
                false => CallError::new(ErrorClass::BusinessRejected, "the owner has rejected it"),
            };
            Some(Answer::Certain { outcome: EffectOutcome::Rejected { error } })
        }
        _ => None,
    }
}
