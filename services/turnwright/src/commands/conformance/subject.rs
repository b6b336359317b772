//! The service under test, spoken to as the executor and the reconciler do.

use std::time::Duration;

use chassis::registry::Tool;
use protocol::{
    Answer, AttemptId, AttemptNumber, AttemptOutcome, CallId, Dedupe, Digest, EffectKey, EffectOutcome, Round, Step,
};
use reconciler::{HttpOwner, OwnerQuery, Question, Verb, answer};
use serde_json::{Value, json};
use tool_executor::{CallKind, HttpTransport, ToolRequest, ToolTransport, classify};

use super::Arguments;
use crate::edge;
use crate::error::Error;

/// The largest answer read, in bytes: what tools may answer at most.
const MAX_BYTES: usize = 24 * 1024;

/// Which of two requests is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Ours,
    Another,
}

pub struct Subject {
    tool: Tool,
    reconcile_url: String,
    bodies: [Value; 2],
    timeout: Duration,
    call_id: CallId,
    keys: String,
    transport: HttpTransport,
    owner: HttpOwner,
}

impl Subject {
    pub fn new(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { base_url, write_path, method, reconcile_path, body, other_body, timeout, .. } = arguments;
        if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
            return Err(Error::setting("BASE_URL", format!("`{base_url}` is no HTTP URL"), "begin it with http://"));
        }
        let at = |path: &str| format!("{}/{}", base_url.trim_end_matches('/'), path.trim_start_matches('/'));
        let tool = json!({
            "name": "conformance", "arguments": {}, "max_output_bytes": MAX_BYTES,
            "run": {"kind": "http", "endpoint": {"method": method, "url": at(&write_path)}},
        });
        let client = |error: &dyn std::fmt::Display| Error::failed("the HTTP client", error);
        Ok(Self {
            tool: serde_json::from_value(tool).map_err(|error| Error::failed("the write", error))?,
            reconcile_url: at(&reconcile_path),
            bodies: [body.clone(), other_body.unwrap_or(body)],
            timeout,
            call_id: CallId::derive(edge::new_invocation_id(), Step(1), Round(0), 0),
            keys: edge::unique_name("conformance"),
            transport: HttpTransport::new().map_err(|error| client(&error))?,
            owner: HttpOwner::new().map_err(|error| client(&error))?,
        })
    }

    /// A key that the service has never seen, if each name is used once.
    pub fn key(&self, name: &str) -> EffectKey {
        EffectKey(format!("{}-{name}", self.keys))
    }

    /// One attempt at the change.
    pub async fn write(&self, key: &EffectKey, which: Which, attempt: u32) -> AttemptOutcome {
        let request_fingerprint = fingerprint(which);
        let request = ToolRequest {
            tool: &self.tool,
            arguments: &self.bodies[which as usize],
            idempotency_key: Some(key.clone()),
            request_fingerprint: Some(request_fingerprint),
            attempt_id: AttemptId::derive(self.call_id, AttemptNumber(attempt)),
            timeout: self.timeout,
            traceparent: None,
        };
        let happened = self.transport.call(&request).await;
        classify(&happened, CallKind::Effect { request_fingerprint, dedupe: Dedupe::Key })
    }

    /// What the service says of a key, as one who knows this request understands it.
    pub async fn put(&self, verb: Verb, key: &EffectKey, which: Which) -> Answer {
        let request_fingerprint = fingerprint(which);
        let question = Question {
            verb,
            url: &self.reconcile_url,
            effect_key: key,
            request_fingerprint: &request_fingerprint,
            timeout: self.timeout,
            max_bytes: MAX_BYTES,
            traceparent: None,
        };
        let reply = self.owner.ask(&question).await;
        answer(verb, &reply, &request_fingerprint).0
    }

    pub async fn ask(&self, key: &EffectKey) -> Answer {
        self.put(Verb::Ask, key, Which::Ours).await
    }

    pub async fn close(&self, key: &EffectKey) -> Answer {
        self.put(Verb::Close, key, Which::Ours).await
    }
}

fn fingerprint(which: Which) -> Digest {
    Digest::of("conformance", &[&[which as u8]])
}

/// The receipt's ID of a committed write.
pub fn receipt(outcome: &AttemptOutcome) -> Option<&str> {
    match outcome {
        AttemptOutcome::Succeeded { receipt, .. } => receipt.as_ref().map(|receipt| receipt.effect_id.as_str()),
        AttemptOutcome::Failed { .. } | AttemptOutcome::NothingSent { .. } | AttemptOutcome::Unknown { .. } => None,
    }
}

/// The receipt's ID of an effect that its owner calls committed.
pub fn known(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Certain { outcome: EffectOutcome::Committed { receipt, .. } } => {
            receipt.as_ref().map(|receipt| receipt.effect_id.as_str())
        }
        Answer::Certain { outcome: EffectOutcome::Rejected { .. } }
        | Answer::NotApplied
        | Answer::Pending { .. }
        | Answer::Unanswerable { .. } => None,
    }
}

/// A write's outcome in a few words.
pub fn outcome_words(outcome: &AttemptOutcome) -> String {
    match outcome {
        AttemptOutcome::Succeeded { .. } => match receipt(outcome) {
            Some(id) => format!("committed as {id}"),
            None => "committed without an effect_id".to_owned(),
        },
        AttemptOutcome::Failed { error } => format!("refused: {}", error.message),
        AttemptOutcome::NothingSent { error } => format!("not taken: {}", error.message),
        AttemptOutcome::Unknown { error } => format!("unknown: {}", error.message),
    }
}

/// An answer in a few words.
pub fn answer_words(answer: &Answer) -> String {
    match answer {
        Answer::Certain { outcome: EffectOutcome::Committed { .. } } => match known(answer) {
            Some(id) => format!("committed as {id}"),
            None => "committed without an effect_id".to_owned(),
        },
        Answer::Certain { outcome: EffectOutcome::Rejected { error } } => format!("rejected: {}", error.message),
        Answer::NotApplied => "does not know the key".to_owned(),
        Answer::Pending { .. } => "no certain word".to_owned(),
        Answer::Unanswerable { why } => why.clone(),
    }
}
