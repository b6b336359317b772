//! `controls`: what callers, approvers and operators say. What cannot be read is refused; it never counts as a "no".

use protocol::{
    Actor, CallError, Control, Digest, EffectKey, EffectOutcome, EventId, InvocationId, Receipt, Step, Tenant,
};
use uuid::Uuid;

use super::fields::Fields;
use super::ingress::{Raw, identify};
use super::{Codec, EncodeError, Place, WireFormat};
use crate::wire::{ControlKind, ControlRequested, ErrorClass, Json, ResolvedOutcome, unrecognized};
use crate::{DeadLetterCode, Inbound, Limits, Outbound, Rejection, Topic};

/// The longest reason, message or evidence that a control may hold, in bytes.
const MAX_TEXT_BYTES: usize = 2_000;
/// The longest answer to a question, in bytes of JSON: it is shown to the model whole.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// A control, and the run it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlRecord {
    pub tenant: Tenant,
    pub invocation_id: InvocationId,
    pub control: Control,
}

impl Codec {
    /// The control of a record. A kind newer than this build is `unsupported`; everything unreadable is `malformed`.
    pub fn decode_control(&self, record: &Inbound) -> Result<ControlRecord, Rejection> {
        let wire = match self.raw(Topic::Controls, record)? {
            Raw::Avro(wire) => wire,
            Raw::Json(fields) => from_json(fields)?,
        };
        from_wire(wire, record, &self.limits)
    }

    /// The record of a control, for those who produce one. Its `ce_id` follows from its content: the same said twice is
    /// said once.
    pub fn encode_control(&self, control: &ControlRecord, format: WireFormat) -> Result<Outbound, EncodeError> {
        let wire = to_wire(control, &self.limits)?;
        let value = match format {
            WireFormat::Avro => self.write(Topic::Controls, format, &wire)?,
            WireFormat::Json => {
                let unencodable = |error: serde_json::Error| EncodeError::Unencodable {
                    record: Topic::Controls.record_name(),
                    why: error.to_string(),
                };
                let mut value = serde_json::to_value(&wire).map_err(unencodable)?;
                if let Some(object) = value.as_object_mut() {
                    // A field of another kind is refused by name, so it must not be there at all.
                    object.retain(|_, value| !value.is_null());
                }
                self.write(Topic::Controls, format, &value)?
            }
        };
        let subject = control.invocation_id;
        let content = serde_json::to_string(&wire).unwrap_or_default();
        let event_id = EventId(Uuid::new_v5(&subject.0, format!("control/{content}").as_bytes()));
        Ok(self.outbound(Place { topic: Topic::Controls, format, subject, event_id, time_ms: None }, value))
    }
}

fn malformed(field: &str, message: &str) -> Rejection {
    Rejection::new(DeadLetterCode::Malformed, field, message)
}

fn from_json(mut fields: Fields) -> Result<ControlRequested, Rejection> {
    let kind = match fields.text("kind")?.as_str() {
        "cancel" => ControlKind::Cancel,
        "resolve_effect" => ControlKind::ResolveEffect,
        "approve" => ControlKind::Approve,
        "reject" => ControlKind::Reject,
        "clarify" => ControlKind::Clarify,
        _ => return Err(malformed("kind", "must be one of cancel, approve, reject, clarify, resolve_effect")),
    };
    let mut wire = blank(kind, fields.text("tenant")?, fields.text("actor")?);
    wire.invocation_id = fields.optional_text("invocation_id")?;
    match kind {
        ControlKind::Cancel => wire.reason = fields.optional_text("reason")?,
        ControlKind::Approve => wire.proposal_digest = fields.optional_text("proposal_digest")?,
        ControlKind::Reject => {
            wire.proposal_digest = fields.optional_text("proposal_digest")?;
            wire.reason = fields.optional_text("reason")?;
        }
        ControlKind::Clarify => {
            wire.answer = fields.json("answer");
            wire.step = fields.whole("step")?;
        }
        ControlKind::ResolveEffect | ControlKind::Unrecognized => {
            wire.effect_key = fields.optional_text("effect_key")?;
            wire.outcome = match fields.text("outcome")?.as_str() {
                "committed" => Some(ResolvedOutcome::Committed),
                "rejected" => Some(ResolvedOutcome::Rejected),
                _ => return Err(malformed("outcome", "must be committed or rejected")),
            };
            wire.evidence = fields.optional_text("evidence")?;
            if wire.outcome == Some(ResolvedOutcome::Committed) {
                wire.effect_id = fields.optional_text("effect_id")?;
                wire.body_digest = fields.optional_text("body_digest")?;
                wire.output = fields.json("output");
            } else {
                let class = fields.optional_text("error_class")?.map(|class| serde_json::from_value(class.into()));
                wire.error_class =
                    class.transpose().map_err(|_| malformed("error_class", "must be a class of error"))?;
                wire.message = fields.optional_text("message")?;
            }
        }
    }
    fields.finish()?;
    Ok(wire)
}

fn from_wire(wire: ControlRequested, record: &Inbound, limits: &Limits) -> Result<ControlRecord, Rejection> {
    let control = match wire.kind {
        ControlKind::Cancel => {
            let reason = bounded_text("reason", wire.reason.unwrap_or_default())?;
            Control::Cancel { actor: actor(&wire.actor)?, reason }
        }
        ControlKind::ResolveEffect => resolution(&wire, limits)?,
        ControlKind::Approve => {
            Control::Approve { actor: actor(&wire.actor)?, proposal_digest: proposal_digest(&wire, "approve")? }
        }
        ControlKind::Reject => Control::Reject {
            actor: actor(&wire.actor)?,
            proposal_digest: proposal_digest(&wire, "reject")?,
            reason: bounded_text("reason", wire.reason.unwrap_or_default())?,
        },
        ControlKind::Clarify => clarification(&wire, limits)?,
        ControlKind::Unrecognized => return Err(unrecognized("kind")),
    };
    let invocation_id = identify(record, wire.invocation_id.as_deref())?;
    Ok(ControlRecord { tenant: Tenant(name("tenant", &wire.tenant)?), invocation_id, control })
}

fn proposal_digest(wire: &ControlRequested, kind: &str) -> Result<Digest, Rejection> {
    let text = wire.proposal_digest.as_deref().unwrap_or_default();
    let message = format!("is required for `{kind}`, as the 64 hexadecimal digits of the proposal's `digest`");
    Digest::from_hex(text).ok_or_else(|| malformed("proposal_digest", &message))
}

fn clarification(wire: &ControlRequested, limits: &Limits) -> Result<Control, Rejection> {
    let answer = wire.answer.as_ref().map(|answer| answer.value("answer", limits.outside())).transpose()?;
    let answer = answer.filter(|answer| !answer.is_null());
    let answer = answer.ok_or_else(|| malformed("answer", "is required for `clarify`, as text or JSON"))?;
    let bytes = answer.to_string().len();
    if bytes > MAX_ANSWER_BYTES {
        let message = format!("{bytes} bytes are more than the limit of {MAX_ANSWER_BYTES}");
        return Err(Rejection::new(DeadLetterCode::InvalidRequest, "answer", message));
    }
    let step = |step: i64| u32::try_from(step).ok().filter(|step| *step > 0).map(Step);
    let step = match wire.step {
        None => None,
        Some(given) => {
            let message = "must be the `step` of the terminal event that holds the question";
            Some(step(given).ok_or_else(|| malformed("step", message))?)
        }
    };
    Ok(Control::Clarify { actor: actor(&wire.actor)?, answer, step })
}

fn resolution(wire: &ControlRequested, limits: &Limits) -> Result<Control, Rejection> {
    let required = |field: &str, text: &Option<String>| match text {
        Some(text) if !text.trim().is_empty() => bounded_text(field, text.clone()),
        Some(_) | None => Err(malformed(field, "is required for `resolve_effect`")),
    };
    let outcome = match wire.outcome {
        Some(ResolvedOutcome::Committed) => {
            let output = wire.output.as_ref().map(|output| output.value("output", limits.outside()));
            let output = output.transpose()?.unwrap_or_default();
            let receipt = match (&wire.effect_id, &wire.body_digest) {
                (None, None) => None,
                (None, Some(_)) => return Err(malformed("effect_id", "is required with `body_digest`")),
                (Some(effect_id), digest) => {
                    let given = |text: &String| {
                        Digest::from_hex(text).ok_or_else(|| malformed("body_digest", "must be 64 hexadecimal digits"))
                    };
                    let digest = digest.as_ref().map(given).transpose()?;
                    let body_digest = digest.unwrap_or_else(|| protocol::canonical_digest("receipt", &output));
                    Some(Receipt { effect_id: name("effect_id", effect_id)?, body_digest })
                }
            };
            EffectOutcome::Committed { receipt, output }
        }
        Some(ResolvedOutcome::Rejected) => {
            let class = wire.error_class.unwrap_or(ErrorClass::BusinessRejected).core("error_class")?;
            let message = bounded_text("message", wire.message.clone().unwrap_or_default())?;
            EffectOutcome::Rejected { error: CallError::new(class, message) }
        }
        Some(ResolvedOutcome::Unrecognized) => return Err(unrecognized("outcome")),
        None => return Err(malformed("outcome", "is required for `resolve_effect`: committed or rejected")),
    };
    Ok(Control::ResolveEffect {
        actor: actor(&wire.actor)?,
        effect_key: EffectKey(required("effect_key", &wire.effect_key)?),
        outcome,
        evidence: required("evidence", &wire.evidence)?,
    })
}

fn name(field: &str, text: &str) -> Result<String, Rejection> {
    let most = protocol::MAX_NAME_BYTES;
    if text.is_empty() || text.len() > most || text.chars().any(char::is_control) {
        let message = format!("must be 1 to {most} bytes without control characters");
        return Err(Rejection::new(DeadLetterCode::InvalidRequest, field, message));
    }
    Ok(text.to_owned())
}

fn actor(text: &str) -> Result<Actor, Rejection> {
    name("actor", text).map(Actor)
}

fn bounded_text(field: &str, text: String) -> Result<String, Rejection> {
    if text.len() > MAX_TEXT_BYTES {
        let message = format!("must be at most {MAX_TEXT_BYTES} bytes");
        return Err(Rejection::new(DeadLetterCode::InvalidRequest, field, message));
    }
    Ok(text)
}

fn blank(kind: ControlKind, tenant: String, actor: String) -> ControlRequested {
    ControlRequested {
        invocation_id: None,
        tenant,
        kind,
        actor,
        reason: None,
        proposal_digest: None,
        answer: None,
        step: None,
        effect_key: None,
        outcome: None,
        effect_id: None,
        body_digest: None,
        output: None,
        error_class: None,
        message: None,
        evidence: None,
    }
}

fn to_wire(record: &ControlRecord, limits: &Limits) -> Result<ControlRequested, EncodeError> {
    let tenant = record.tenant.0.clone();
    let mut wire = match &record.control {
        Control::Cancel { actor, reason } => {
            let mut wire = blank(ControlKind::Cancel, tenant, actor.0.clone());
            wire.reason = Some(reason.clone());
            wire
        }
        Control::Approve { actor, proposal_digest } => {
            let mut wire = blank(ControlKind::Approve, tenant, actor.0.clone());
            wire.proposal_digest = Some(proposal_digest.to_string());
            wire
        }
        Control::Reject { actor, proposal_digest, reason } => {
            let mut wire = blank(ControlKind::Reject, tenant, actor.0.clone());
            wire.proposal_digest = Some(proposal_digest.to_string());
            wire.reason = Some(reason.clone());
            wire
        }
        Control::Clarify { actor, answer, step } => {
            let mut wire = blank(ControlKind::Clarify, tenant, actor.0.clone());
            wire.answer = Some(Json::of("answer", answer, limits.outside())?);
            wire.step = step.map(|step| i64::from(step.0));
            wire
        }
        Control::ResolveEffect { actor, effect_key, outcome, evidence } => {
            let mut wire = blank(ControlKind::ResolveEffect, tenant, actor.0.clone());
            wire.effect_key = Some(effect_key.0.clone());
            wire.evidence = Some(evidence.clone());
            match outcome {
                EffectOutcome::Committed { receipt, output } => {
                    wire.outcome = Some(ResolvedOutcome::Committed);
                    wire.output = Some(Json::of("output", output, limits.outside())?);
                    wire.effect_id = receipt.as_ref().map(|receipt| receipt.effect_id.clone());
                    wire.body_digest = receipt.as_ref().map(|receipt| receipt.body_digest.to_string());
                }
                EffectOutcome::Rejected { error } => {
                    wire.outcome = Some(ResolvedOutcome::Rejected);
                    wire.error_class = Some(error.class.into());
                    wire.message = Some(error.message.clone());
                }
            }
            wire
        }
    };
    wire.invocation_id = Some(record.invocation_id.to_string());
    Ok(wire)
}
