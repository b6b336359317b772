//! The records that several messages share.

use protocol as p;
use serde::{Deserialize, Serialize};

use super::scalars::{Count, Hex, Id, Json, Time};
use super::symbols;
use crate::{DeadLetterCode, EncodeError, Limits, Rejection};

/// What every internal message begins with, as the flat fields of its record.
macro_rules! scoped {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            pub tenant: p::Tenant,
            pub invocation_id: Id,
            pub task_type: p::TaskType,
            pub step: p::Step,
            pub round: p::Round,
            pub basis_version: Count,
            pub basis_hash: Hex,
            $(pub $field: $kind,)*
        }

        impl $name {
            pub fn scope(&self) -> p::Scope {
                p::Scope {
                    tenant: self.tenant.clone(),
                    invocation_id: p::InvocationId(self.invocation_id.0),
                    task_type: self.task_type.clone(),
                    step: self.step,
                    round: self.round,
                    basis: p::Basis { version: p::Version(self.basis_version.0), hash: self.basis_hash.0 },
                }
            }
        }
    };
}

/// A record from a scope and its other fields.
macro_rules! with_scope {
    ($name:ident, $scope:expr, { $($field:ident: $value:expr),* $(,)? }) => {{
        let scope: &p::Scope = $scope;
        $name {
            tenant: scope.tenant.clone(),
            invocation_id: Id(scope.invocation_id.0),
            task_type: scope.task_type.clone(),
            step: scope.step,
            round: scope.round,
            basis_version: Count(scope.basis.version.0),
            basis_hash: Hex(scope.basis.hash),
            $($field: $value,)*
        }
    }};
}

pub(super) use {scoped, with_scope};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    pub max_steps: u32,
    pub max_tool_calls: u32,
    pub max_tokens: Count,
    pub max_cost_micros: Count,
    pub max_repeated_plan: u32,
}

impl From<&p::Budget> for Budget {
    fn from(budget: &p::Budget) -> Self {
        let p::Budget { max_steps, max_tool_calls, max_tokens, max_cost_micros, max_repeated_plan } = *budget;
        let (max_tokens, max_cost_micros) = (Count(max_tokens), Count(max_cost_micros));
        Self { max_steps, max_tool_calls, max_tokens, max_cost_micros, max_repeated_plan }
    }
}

impl From<Budget> for p::Budget {
    fn from(budget: Budget) -> Self {
        let Budget { max_steps, max_tool_calls, max_tokens, max_cost_micros, max_repeated_plan } = budget;
        let (max_tokens, max_cost_micros) = (max_tokens.0, max_cost_micros.0);
        Self { max_steps, max_tool_calls, max_tokens, max_cost_micros, max_repeated_plan }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub steps: u32,
    pub tool_calls: u32,
    pub input_tokens: Count,
    pub output_tokens: Count,
    pub cost_micros: Count,
}

impl From<&p::Spent> for Spent {
    fn from(spent: &p::Spent) -> Self {
        let p::Spent { steps, tool_calls, usage } = *spent;
        let (input_tokens, output_tokens) = (Count(usage.input_tokens), Count(usage.output_tokens));
        Self { steps, tool_calls, input_tokens, output_tokens, cost_micros: Count(usage.cost_micros) }
    }
}

impl From<Spent> for p::Spent {
    fn from(spent: Spent) -> Self {
        let usage = p::Usage {
            input_tokens: spent.input_tokens.0,
            output_tokens: spent.output_tokens.0,
            cost_micros: spent.cost_micros.0,
        };
        Self { steps: spent.steps, tool_calls: spent.tool_calls, usage }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanMark {
    pub fingerprint: Hex,
    pub streak: u32,
}

impl From<&p::PlanMark> for PlanMark {
    fn from(mark: &p::PlanMark) -> Self {
        Self { fingerprint: Hex(mark.fingerprint), streak: mark.streak }
    }
}

impl From<PlanMark> for p::PlanMark {
    fn from(mark: PlanMark) -> Self {
        Self { fingerprint: mark.fingerprint.0, streak: mark.streak }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelEvidence {
    pub response_id: String,
    pub model: String,
    pub input_tokens: Count,
    pub output_tokens: Count,
    pub cost_micros: Count,
    pub context_digest: Hex,
}

impl From<&p::ModelEvidence> for ModelEvidence {
    fn from(evidence: &p::ModelEvidence) -> Self {
        Self {
            response_id: evidence.response_id.clone(),
            model: evidence.model.clone(),
            input_tokens: Count(evidence.usage.input_tokens),
            output_tokens: Count(evidence.usage.output_tokens),
            cost_micros: Count(evidence.usage.cost_micros),
            context_digest: Hex(evidence.context_digest),
        }
    }
}

impl From<ModelEvidence> for p::ModelEvidence {
    fn from(evidence: ModelEvidence) -> Self {
        let usage = p::Usage {
            input_tokens: evidence.input_tokens.0,
            output_tokens: evidence.output_tokens.0,
            cost_micros: evidence.cost_micros.0,
        };
        let ModelEvidence { response_id, model, context_digest, .. } = evidence;
        Self { response_id, model, usage, context_digest: context_digest.0 }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub effect_id: String,
    pub body_digest: Hex,
}

impl From<&p::Receipt> for Receipt {
    fn from(receipt: &p::Receipt) -> Self {
        Self { effect_id: receipt.effect_id.clone(), body_digest: Hex(receipt.body_digest) }
    }
}

impl From<Receipt> for p::Receipt {
    fn from(receipt: Receipt) -> Self {
        Self { effect_id: receipt.effect_id, body_digest: receipt.body_digest.0 }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallError {
    pub class: symbols::ErrorClass,
    pub message: String,
    pub retry_after_ms: Option<Count>,
}

impl From<&p::CallError> for CallError {
    fn from(error: &p::CallError) -> Self {
        let retry_after_ms = error.retry_after_ms.map(Count);
        Self { class: error.class.into(), message: error.message.clone(), retry_after_ms }
    }
}

impl CallError {
    pub fn core(self, field: &str) -> Result<p::CallError, Rejection> {
        let class = self.class.core(&format!("{field}.class"))?;
        Ok(p::CallError { class, message: self.message, retry_after_ms: self.retry_after_ms.map(|count| count.0) })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub code: symbols::FindingCode,
    pub path: String,
    pub message: String,
}

impl From<&p::Finding> for Finding {
    fn from(finding: &p::Finding) -> Self {
        Self { code: finding.code.into(), path: finding.path.clone(), message: finding.message.clone() }
    }
}

impl Finding {
    pub fn core(self) -> Result<p::Finding, Rejection> {
        let Finding { code, path, message } = self;
        Ok(p::Finding { code: code.core("findings[].code")?, path, message })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EffectSummary {
    pub key: p::EffectKey,
    pub tool: p::ToolName,
    pub owner: String,
    pub status: symbols::EffectStatus,
    pub receipt: Option<Receipt>,
    pub not_applied_at: Option<Time>,
}

impl From<&p::EffectSummary> for EffectSummary {
    fn from(effect: &p::EffectSummary) -> Self {
        Self {
            key: effect.key.clone(),
            tool: effect.tool.clone(),
            owner: effect.owner.clone(),
            status: effect.status.into(),
            receipt: effect.receipt.as_ref().map(Receipt::from),
            not_applied_at: effect.not_applied_at.map(Time),
        }
    }
}

impl EffectSummary {
    pub fn core(self) -> Result<p::EffectSummary, Rejection> {
        Ok(p::EffectSummary {
            key: self.key,
            tool: self.tool,
            owner: self.owner,
            status: self.status.core("effects[].status")?,
            receipt: self.receipt.map(p::Receipt::from),
            not_applied_at: self.not_applied_at.map(|time| time.0),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalReason {
    pub path: String,
    pub policy: String,
    pub message: String,
}

impl From<&p::ApprovalReason> for ApprovalReason {
    fn from(reason: &p::ApprovalReason) -> Self {
        let p::ApprovalReason { path, policy, message } = reason.clone();
        Self { path, policy, message }
    }
}

impl From<ApprovalReason> for p::ApprovalReason {
    fn from(reason: ApprovalReason) -> Self {
        let ApprovalReason { path, policy, message } = reason;
        Self { path, policy, message }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GatedCall {
    pub call_id: Id,
    pub tool: p::ToolName,
    pub arguments: Json,
    pub effect_key: Option<p::EffectKey>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    pub digest: Hex,
    pub calls: Vec<GatedCall>,
    pub reasons: Vec<ApprovalReason>,
    pub expires_at: Time,
    pub four_eyes: bool,
    pub policy_digest: Hex,
}

impl Proposal {
    pub fn of(proposal: &p::Proposal, limits: &Limits) -> Result<Self, EncodeError> {
        let call = |call: &p::GatedCall| {
            Ok(GatedCall {
                call_id: Id(call.call_id.0),
                tool: call.tool.clone(),
                arguments: Json::of("proposal.calls[].arguments", &call.arguments, limits.field())?,
                effect_key: call.effect_key.clone(),
            })
        };
        Ok(Self {
            digest: Hex(proposal.digest),
            calls: proposal.calls.iter().map(call).collect::<Result<_, _>>()?,
            reasons: proposal.reasons.iter().map(ApprovalReason::from).collect(),
            expires_at: Time(proposal.expires_at),
            four_eyes: proposal.four_eyes,
            policy_digest: Hex(proposal.policy_digest),
        })
    }

    pub fn core(self, limits: &Limits) -> Result<p::Proposal, Rejection> {
        let call = |call: GatedCall| {
            Ok(p::GatedCall {
                call_id: p::CallId(call.call_id.0),
                tool: call.tool,
                arguments: call.arguments.value("proposal.calls[].arguments", limits.field())?,
                effect_key: call.effect_key,
            })
        };
        Ok(p::Proposal {
            digest: self.digest.0,
            calls: self.calls.into_iter().map(call).collect::<Result<_, _>>()?,
            reasons: self.reasons.into_iter().map(p::ApprovalReason::from).collect(),
            expires_at: self.expires_at.0,
            four_eyes: self.four_eyes,
            policy_digest: self.policy_digest.0,
        })
    }
}

/// An optional field that this kind of record must have.
pub fn needed<T>(value: Option<T>, field: &str, kind: &str) -> Result<T, Rejection> {
    value.ok_or_else(|| Rejection::new(DeadLetterCode::Malformed, field, format!("is required for `{kind}`")))
}
