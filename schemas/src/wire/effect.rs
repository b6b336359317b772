//! `outcome-unknown` and `resolutions`: a question to an effect's owner, and its answer.

use protocol as p;
use serde::{Deserialize, Serialize};

use super::Mapped;
use super::parts::{CallError, Receipt, needed, scoped, with_scope};
use super::scalars::{Count, Hex, Id, Json, Time};
use super::symbols::{OwnerAnswer, unrecognized};
use crate::{EncodeError, Limits, Rejection};

scoped!(EffectQueried {
    call_id: Id,
    effect_key: p::EffectKey,
    attempt_id: Id,
    probe: p::Probe,
    tool: p::ToolName,
    owner: String,
    request_fingerprint: Hex,
    unknown_since: Time,
    lease_until: Time,
    seal: bool,
});

impl Mapped for p::EffectQueried {
    type Wire = EffectQueried;

    fn to_wire(&self, _limits: &Limits) -> Result<EffectQueried, EncodeError> {
        Ok(with_scope!(EffectQueried, &self.scope, {
            call_id: Id(self.call_id.0),
            effect_key: self.effect_key.clone(),
            attempt_id: Id(self.attempt_id.0),
            probe: self.probe,
            tool: self.tool.clone(),
            owner: self.owner.clone(),
            request_fingerprint: Hex(self.request_fingerprint),
            unknown_since: Time(self.unknown_since),
            lease_until: Time(self.lease_until),
            seal: self.seal,
        }))
    }

    fn from_wire(wire: EffectQueried, _limits: &Limits) -> Result<Self, Rejection> {
        Ok(Self {
            scope: wire.scope(),
            call_id: p::CallId(wire.call_id.0),
            effect_key: wire.effect_key,
            attempt_id: p::AttemptId(wire.attempt_id.0),
            probe: wire.probe,
            tool: wire.tool,
            owner: wire.owner,
            request_fingerprint: wire.request_fingerprint.0,
            unknown_since: wire.unknown_since.0,
            lease_until: wire.lease_until.0,
            seal: wire.seal,
        })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.scope.invocation_id
    }
}

scoped!(EffectAnswered {
    call_id: Id,
    effect_key: p::EffectKey,
    attempt_id: Id,
    probe: p::Probe,
    answer: OwnerAnswer,
    output: Option<Json>,
    receipt: Option<Receipt>,
    error: Option<CallError>,
    retry_after_ms: Option<Count>,
    why: Option<String>,
});

impl Mapped for p::EffectAnswered {
    type Wire = EffectAnswered;

    fn to_wire(&self, limits: &Limits) -> Result<EffectAnswered, EncodeError> {
        let mut wire = with_scope!(EffectAnswered, &self.scope, {
            call_id: Id(self.call_id.0),
            effect_key: self.effect_key.clone(),
            attempt_id: Id(self.attempt_id.0),
            probe: self.probe,
            answer: OwnerAnswer::NotApplied,
            output: None,
            receipt: None,
            error: None,
            retry_after_ms: None,
            why: None,
        });
        match &self.answer {
            p::Answer::Certain { outcome: p::EffectOutcome::Committed { receipt, output } } => {
                wire.answer = OwnerAnswer::Committed;
                wire.output = Some(Json::of("output", output, limits.field())?);
                wire.receipt = receipt.as_ref().map(Receipt::from);
            }
            p::Answer::Certain { outcome: p::EffectOutcome::Rejected { error } } => {
                wire.answer = OwnerAnswer::Rejected;
                wire.error = Some(error.into());
            }
            p::Answer::NotApplied => {}
            p::Answer::Pending { retry_after_ms } => {
                wire.answer = OwnerAnswer::Pending;
                wire.retry_after_ms = Some(Count(*retry_after_ms));
            }
            p::Answer::Unanswerable { why } => {
                wire.answer = OwnerAnswer::Unanswerable;
                wire.why = Some(why.clone());
            }
        }
        Ok(wire)
    }

    fn from_wire(wire: EffectAnswered, limits: &Limits) -> Result<Self, Rejection> {
        let scope = wire.scope();
        let answer = match wire.answer {
            OwnerAnswer::Committed => p::Answer::Certain {
                outcome: p::EffectOutcome::Committed {
                    receipt: wire.receipt.map(p::Receipt::from),
                    output: needed(wire.output, "output", "committed")?.value("output", limits.field())?,
                },
            },
            OwnerAnswer::Rejected => p::Answer::Certain {
                outcome: p::EffectOutcome::Rejected { error: needed(wire.error, "error", "rejected")?.core("error")? },
            },
            OwnerAnswer::NotApplied => p::Answer::NotApplied,
            OwnerAnswer::Pending => {
                let retry_after = needed(wire.retry_after_ms, "retry_after_ms", "pending")?;
                p::Answer::Pending { retry_after_ms: retry_after.0 }
            }
            OwnerAnswer::Unanswerable => p::Answer::Unanswerable { why: needed(wire.why, "why", "unanswerable")? },
            OwnerAnswer::Unrecognized => return Err(unrecognized("answer")),
        };
        Ok(Self {
            scope,
            call_id: p::CallId(wire.call_id.0),
            effect_key: wire.effect_key,
            attempt_id: p::AttemptId(wire.attempt_id.0),
            probe: wire.probe,
            answer,
        })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.scope.invocation_id
    }
}
