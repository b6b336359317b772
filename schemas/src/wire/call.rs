//! `dispatches` and `results`: one attempt of a call, there and back.

use protocol as p;
use serde::{Deserialize, Serialize};

use super::Mapped;
use super::parts::{CallError, Receipt, needed, scoped, with_scope};
use super::scalars::{Count, Hex, Id, Json};
use super::symbols::{AttemptResult, unrecognized};
use crate::{EncodeError, Limits, Rejection};

scoped!(ToolCallDispatched {
    actor: p::Actor,
    call_id: Id,
    attempt: p::AttemptNumber,
    tool: p::ToolName,
    arguments: Json,
    effect_key: Option<p::EffectKey>,
    request_fingerprint: Option<Hex>,
    epoch: Count,
    timeout_ms: Count,
});

impl Mapped for p::ToolCallDispatched {
    type Wire = ToolCallDispatched;

    fn to_wire(&self, limits: &Limits) -> Result<ToolCallDispatched, EncodeError> {
        Ok(with_scope!(ToolCallDispatched, &self.scope, {
            actor: self.actor.clone(),
            call_id: Id(self.call_id.0),
            attempt: self.attempt,
            tool: self.tool.clone(),
            arguments: Json::of("arguments", &self.arguments, limits.field())?,
            effect_key: self.effect.as_ref().map(|effect| effect.key.clone()),
            request_fingerprint: self.effect.as_ref().map(|effect| Hex(effect.request_fingerprint)),
            epoch: Count(self.epoch.0),
            timeout_ms: Count(self.timeout_ms),
        }))
    }

    fn from_wire(wire: ToolCallDispatched, limits: &Limits) -> Result<Self, Rejection> {
        let scope = wire.scope();
        let effect = match wire.effect_key {
            None => None,
            Some(key) => {
                let fingerprint = needed(wire.request_fingerprint, "request_fingerprint", "effect_key")?;
                Some(p::DispatchedEffect { key, request_fingerprint: fingerprint.0 })
            }
        };
        Ok(Self {
            scope,
            actor: wire.actor,
            call_id: p::CallId(wire.call_id.0),
            attempt: wire.attempt,
            tool: wire.tool,
            arguments: wire.arguments.value("arguments", limits.field())?,
            effect,
            epoch: p::Epoch(wire.epoch.0),
            timeout_ms: wire.timeout_ms.0,
        })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.scope.invocation_id
    }
}

scoped!(ToolCallSettled {
    call_id: Id,
    attempt: p::AttemptNumber,
    attempt_id: Id,
    effect_key: Option<p::EffectKey>,
    outcome: AttemptResult,
    output: Option<Json>,
    receipt: Option<Receipt>,
    error: Option<CallError>,
});

impl Mapped for p::ToolCallSettled {
    type Wire = ToolCallSettled;

    fn to_wire(&self, limits: &Limits) -> Result<ToolCallSettled, EncodeError> {
        let (outcome, output, receipt, error) = match &self.outcome {
            p::AttemptOutcome::Succeeded { output, receipt } => {
                let output = Json::of("output", output, limits.field())?;
                (AttemptResult::Succeeded, Some(output), receipt.as_ref().map(Receipt::from), None)
            }
            p::AttemptOutcome::Failed { error } => (AttemptResult::Failed, None, None, Some(error.into())),
            p::AttemptOutcome::NothingSent { error } => (AttemptResult::NothingSent, None, None, Some(error.into())),
            p::AttemptOutcome::Unknown { error } => (AttemptResult::Unknown, None, None, Some(error.into())),
        };
        Ok(with_scope!(ToolCallSettled, &self.scope, {
            call_id: Id(self.call_id.0),
            attempt: self.attempt,
            attempt_id: Id(self.attempt_id.0),
            effect_key: self.effect_key.clone(),
            outcome: outcome,
            output: output,
            receipt: receipt,
            error: error,
        }))
    }

    fn from_wire(wire: ToolCallSettled, limits: &Limits) -> Result<Self, Rejection> {
        let scope = wire.scope();
        let error = |kind: &str| needed(wire.error, "error", kind)?.core("error");
        let outcome = match wire.outcome {
            AttemptResult::Succeeded => p::AttemptOutcome::Succeeded {
                output: needed(wire.output, "output", "succeeded")?.value("output", limits.field())?,
                receipt: wire.receipt.map(p::Receipt::from),
            },
            AttemptResult::Failed => p::AttemptOutcome::Failed { error: error("failed")? },
            AttemptResult::NothingSent => p::AttemptOutcome::NothingSent { error: error("nothing_sent")? },
            AttemptResult::Unknown => p::AttemptOutcome::Unknown { error: error("unknown")? },
            AttemptResult::Unrecognized => return Err(unrecognized("outcome")),
        };
        Ok(Self {
            scope,
            call_id: p::CallId(wire.call_id.0),
            attempt: wire.attempt,
            attempt_id: p::AttemptId(wire.attempt_id.0),
            effect_key: wire.effect_key,
            outcome,
        })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.scope.invocation_id
    }
}
