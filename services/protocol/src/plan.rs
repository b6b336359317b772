//! The plan of a batch (M8): Effect Keys, the conflict graph over declared resources, and its waves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AcceptedCall, AcceptedDecision, CallId, Digest, DispatchedEffect, EffectKey, EffectKeyRule, Finding, FindingCode,
    InvocationId, ProposedCall, Round, Step, Tenant, Timestamp, ToolContract, ToolName, canonical, canonical_digest,
    resources_overlap,
};

/// The most calls one batch may hold: with the bound on outputs it keeps a turn's record under a record's size.
pub const MAX_BATCH_CALLS: usize = 16;

/// What a profile says of batches whose calls are not all independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixedBatches {
    /// They run in waves, in declared order.
    #[default]
    Order,
    /// They are sent back for repair (M8).
    Reject,
}

/// A batch, ready to run. Calls stand in proposal order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub calls: Vec<PlannedCall>,
}

/// One call of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCall {
    pub call_id: CallId,
    pub provider_call_id: String,
    pub tool: ToolName,
    pub arguments: Value,
    pub contract: ToolContract,
    /// Absent for a read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<DispatchedEffect>,
    /// From 0.
    pub wave: u32,
    /// The calls this one waits for; when one of them did not succeed, this one is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<CallId>,
}

/// Where a plan belongs.
#[derive(Debug, Clone, Copy)]
pub struct PlanPlace<'a> {
    pub tenant: &'a Tenant,
    pub invocation_id: InvocationId,
    pub step: Step,
    pub round: Round,
}

impl Plan {
    /// Plans a batch, or reports everything that keeps it from being planned. Validation and the committer both call
    /// this; there is no second planner.
    pub fn build(place: PlanPlace<'_>, calls: &[AcceptedCall]) -> Result<Plan, Vec<Finding>> {
        let mut findings = Vec::new();
        if calls.is_empty() {
            findings.push(Finding::new(FindingCode::EmptyBatch, "calls", "must hold at least one call"));
        }
        if calls.len() > MAX_BATCH_CALLS {
            let message = format!("holds {} calls, and {MAX_BATCH_CALLS} is the limit", calls.len());
            findings.push(Finding::new(FindingCode::TooManyCalls, "calls", message));
        }
        let mut drafts = Vec::new();
        for (ordinal, accepted) in calls.iter().enumerate() {
            if calls[..ordinal].iter().any(|before| before.call.provider_call_id == accepted.call.provider_call_id) {
                let path = format!("calls[{ordinal}].call_id");
                findings.push(Finding::new(FindingCode::DuplicateCallId, path, "stands twice in this batch"));
            }
            match Draft::new(place, ordinal, accepted) {
                Ok(draft) => drafts.push(draft),
                Err(finding) => findings.push(finding),
            }
        }
        if !findings.is_empty() {
            return Err(findings);
        }
        let mut planned: Vec<PlannedCall> = Vec::with_capacity(drafts.len());
        for (j, draft) in drafts.iter().enumerate() {
            let before: Vec<usize> = (0..j).filter(|i| drafts[*i].conflicts_with(draft)).collect();
            let wave = before.iter().map(|i| planned[*i].wave + 1).max().unwrap_or(0);
            let after = before.iter().map(|i| planned[*i].call_id).collect();
            planned.push(draft.planned(wave, after));
        }
        Ok(Plan { calls: planned })
    }

    /// What a profile that takes no mixed batches has against this plan: one finding per call that would have to wait.
    pub fn mixed(&self) -> Vec<Finding> {
        let waiting = self.calls.iter().enumerate().filter(|(_, call)| !call.after.is_empty());
        let finding = |(j, call): (usize, &PlannedCall)| {
            let before: Vec<String> =
                call.after.iter().filter_map(|id| self.position(*id)).map(|i| format!("calls[{i}]")).collect();
            let message = format!("would have to wait for {}; propose it in a later turn", before.join(", "));
            Finding::new(FindingCode::PlanRefused, format!("calls[{j}]"), message)
        };
        waiting.map(finding).collect()
    }

    /// The position of a call in the proposal.
    pub fn position(&self, call_id: CallId) -> Option<usize> {
        self.calls.iter().position(|call| call.call_id == call_id)
    }

    /// The Effect Keys of the plan, in proposal order.
    pub fn effect_keys(&self) -> Vec<EffectKey> {
        self.calls.iter().filter_map(|call| call.effect.as_ref()).map(|effect| effect.key.clone()).collect()
    }

    /// The decision this plan came from, for the turn's record.
    pub fn decision(&self) -> AcceptedDecision {
        let calls = self.calls.iter().map(|call| AcceptedCall {
            call: ProposedCall {
                provider_call_id: call.provider_call_id.clone(),
                tool: call.tool.clone(),
                arguments: call.arguments.clone(),
            },
            contract: call.contract.clone(),
        });
        AcceptedDecision::ToolCalls { calls: calls.collect() }
    }

    /// The digest of the exact proposal: what an approval names (M23). Canonical JSON of `[tenant, invocation_id, step, round,
    /// policy_digest, expires_at, [[call_id, tool, arguments, effect_key], …]]`; what is not gated does not expire.
    pub fn proposal_digest(&self, place: PlanPlace<'_>, policy: Digest, expires_at: Option<Timestamp>) -> Digest {
        let calls: Vec<Value> = self
            .calls
            .iter()
            .map(|call| {
                let key = call.effect.as_ref().map(|effect| &effect.key);
                serde_json::json!([call.call_id, call.tool, call.arguments, key])
            })
            .collect();
        let whole = serde_json::json!([
            place.tenant,
            place.invocation_id,
            place.step,
            place.round,
            policy,
            expires_at,
            Value::Array(calls)
        ]);
        canonical_digest("proposal", &whole)
    }
}

/// The Effect Key of a call: never of step, attempt or Call ID.
fn effect_key(
    place: PlanPlace<'_>,
    contract: &ToolContract,
    rule: &EffectKeyRule,
    call: &ProposedCall,
) -> Result<EffectKey, String> {
    let tenant = place.tenant.as_str().as_bytes();
    let tool = contract.tool.as_str().as_bytes();
    let digest = match rule {
        EffectKeyRule::PerInvocation => {
            Digest::of("effect", &[tenant, tool, place.invocation_id.0.as_bytes(), &canonical(&call.arguments)])
        }
        EffectKeyRule::Business(template) => {
            let rendered = template.render(&call.arguments).map_err(|error| error.to_string())?;
            Digest::of("business-effect", &[tenant, tool, rendered.as_bytes()])
        }
    };
    Ok(EffectKey(digest.to_string()))
}

struct Draft<'a> {
    call_id: CallId,
    accepted: &'a AcceptedCall,
    effect: Option<DispatchedEffect>,
    reads: Vec<String>,
    writes: Vec<String>,
}

impl<'a> Draft<'a> {
    fn new(place: PlanPlace<'_>, ordinal: usize, accepted: &'a AcceptedCall) -> Result<Self, Finding> {
        let refuse = |message: String| {
            Finding::new(FindingCode::InvalidArguments, format!("calls[{ordinal}].arguments"), message)
        };
        let (call, contract) = (&accepted.call, &accepted.contract);
        let render = |templates: &[crate::Template]| {
            templates.iter().map(|t| t.render(&call.arguments)).collect::<Result<Vec<_>, _>>()
        };
        let reads = render(&contract.reads).map_err(|error| refuse(error.to_string()))?;
        let writes = render(&contract.writes).map_err(|error| refuse(error.to_string()))?;
        let effect = match &contract.effect {
            None => None,
            Some(effect) => Some(DispatchedEffect {
                key: effect_key(place, contract, &effect.key, call).map_err(refuse)?,
                request_fingerprint: canonical_digest("effect-request", &call.arguments),
            }),
        };
        let ordinal = u32::try_from(ordinal).unwrap_or(u32::MAX);
        let call_id = CallId::derive(place.invocation_id, place.step, place.round, ordinal);
        Ok(Self { call_id, accepted, effect, reads, writes })
    }

    /// Writes something, or has an effect.
    fn is_writer(&self) -> bool {
        self.effect.is_some() || !self.writes.is_empty()
    }

    /// An effect that does not say what it touches may touch everything.
    fn is_opaque(&self) -> bool {
        self.effect.is_some() && self.reads.is_empty() && self.writes.is_empty()
    }

    fn conflicts_with(&self, other: &Draft<'_>) -> bool {
        let overlap = |a: &[String], b: &[String]| a.iter().any(|x| b.iter().any(|y| resources_overlap(x, y)));
        let same_key = match (&self.effect, &other.effect) {
            (Some(a), Some(b)) => a.key == b.key,
            _ => false,
        };
        same_key
            || self.is_opaque()
            || other.is_opaque()
            || (!self.accepted.contract.independent && other.is_writer())
            || (!other.accepted.contract.independent && self.is_writer())
            || overlap(&self.writes, &other.writes)
            || overlap(&self.writes, &other.reads)
            || overlap(&self.reads, &other.writes)
    }

    fn planned(&self, wave: u32, after: Vec<CallId>) -> PlannedCall {
        PlannedCall {
            call_id: self.call_id,
            provider_call_id: self.accepted.call.provider_call_id.clone(),
            tool: self.accepted.call.tool.clone(),
            arguments: self.accepted.call.arguments.clone(),
            contract: self.accepted.contract.clone(),
            effect: self.effect.clone(),
            wave,
            after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A call of order 7, with what its tool declares beside the necessary.
    fn call(ordinal: usize, declares: &Value) -> AcceptedCall {
        let mut contract = json!({"tool": "t", "timeout_ms": 1_000});
        contract.as_object_mut().unwrap().extend(declares.as_object().unwrap().clone());
        let (provider_call_id, arguments) = (format!("c{ordinal}"), json!({"order": 7, "n": ordinal}));
        let call = ProposedCall { provider_call_id, tool: "t".into(), arguments };
        AcceptedCall { call, contract: serde_json::from_value(contract).unwrap() }
    }

    fn build(declarations: &[Value]) -> Result<Plan, Vec<FindingCode>> {
        let (tenant, invocation_id) = (Tenant("acme".into()), InvocationId(uuid::Uuid::nil()));
        let place = PlanPlace { tenant: &tenant, invocation_id, step: Step(1), round: Round(0) };
        let calls: Vec<_> =
            declarations.iter().enumerate().map(|(ordinal, declares)| call(ordinal, declares)).collect();
        let codes = |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.code).collect();
        Plan::build(place, &calls).map_err(codes)
    }

    /// The waves of two calls, in proposal order.
    fn waves(first: &Value, second: &Value) -> [u32; 2] {
        let plan = build(&[first.clone(), second.clone()]).unwrap();
        [plan.calls[0].wave, plan.calls[1].wave]
    }

    fn effect(key: &str, reads: &str) -> Value {
        let effect = json!({"key": key, "owner": "payments", "dedupe": "key", "query": true});
        json!({"effect": effect, "reads": [reads]})
    }

    #[test]
    fn a_batch_holds_one_call_to_the_limit() {
        let of = |count| build(&vec![json!({}); count]).map(|plan| plan.calls.len());
        assert_eq!(of(0), Err(vec![FindingCode::EmptyBatch]));
        assert_eq!((of(1), of(MAX_BATCH_CALLS)), (Ok(1), Ok(MAX_BATCH_CALLS)));
        assert_eq!(of(MAX_BATCH_CALLS + 1), Err(vec![FindingCode::TooManyCalls]));
    }

    #[test]
    fn calls_wait_for_one_another_where_one_writes_what_the_other_touches() {
        let (read, write) = (json!({"reads": ["order:{order}"]}), json!({"writes": ["order:{order}"]}));
        assert_eq!(waves(&read, &read), [0, 0]);
        assert_eq!((waves(&read, &write), waves(&write, &read), waves(&write, &write)), ([0, 1], [0, 1], [0, 1]));
        let elsewhere = json!({"writes": ["invoice:{order}"]});
        assert_eq!((waves(&write, &elsewhere), waves(&elsewhere, &read)), ([0, 0], [0, 0]));
    }

    #[test]
    fn a_tool_that_is_not_independent_runs_beside_reads_and_never_beside_a_writer() {
        let (alone, read) = (json!({"independent": false}), json!({"reads": ["order:{order}"]}));
        assert_eq!((waves(&alone, &read), waves(&read, &alone), waves(&alone, &alone)), ([0, 0], [0, 0], [0, 0]));
        for writer in [json!({"writes": ["order:{order}"]}), effect("per_invocation", "order:{order}")] {
            assert_eq!((waves(&alone, &writer), waves(&writer, &alone)), ([0, 1], [0, 1]), "{writer}");
            assert_eq!((waves(&json!({}), &writer), waves(&writer, &json!({}))), ([0, 0], [0, 0]), "{writer}");
        }
    }

    #[test]
    fn two_calls_for_one_change_wait_for_one_another_whatever_they_declare_to_touch() {
        let (one, other) = (effect("refund:{order}", "order:{order}"), effect("refund:{n}", "order:{order}"));
        assert_eq!((waves(&one, &one), waves(&one, &other)), ([0, 1], [0, 0]));
    }
}
