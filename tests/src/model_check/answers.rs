//! What the model may answer, as validation judges it, and the tools that it may call.

use protocol::{
    AcceptedCall, AcceptedDecision, ApprovalReason, Dedupe, Digest, EffectContract, EffectKeyRule, Finding,
    FindingCode, Judgement, ModelEvidence, ProbePolicy, ProposedCall, RetryPolicy, Template, ToolContract, Usage,
};
use serde_json::{Value, json};

use super::scenario::{HORIZON, TICK};

/// A tool by its name: two reads, an effect whose owner enforces the key, and one whose owner does not.
fn contract(tool: &str) -> ToolContract {
    let effect = |key: EffectKeyRule, owner: &str, dedupe| EffectContract {
        key,
        owner: owner.to_owned(),
        dedupe,
        query: true,
        tombstone: false,
        settle_ms: 0,
        // Questions run out before time does, so that "since when" stays out of a history's identity.
        probe: ProbePolicy { max_probes: 2, base_ms: 2 * TICK, cap_ms: 2 * TICK, give_up_after_ms: 100 * HORIZON },
    };
    let template = |text: &str| Template(text.to_owned());
    let (effect, reads, writes) = match tool {
        "refund" => {
            let key = EffectKeyRule::Business(template("refund:{order}"));
            (Some(effect(key, "payments", Dedupe::Key)), vec![], vec![template("order:{order}")])
        }
        "wire" => {
            let key = EffectKeyRule::PerInvocation;
            (Some(effect(key, "bank", Dedupe::None)), vec![], vec![template("order:{order}")])
        }
        "read_order" => (None, vec![template("order:{order}")], vec![]),
        _ => (None, vec![], vec![]),
    };
    ToolContract {
        tool: tool.into(),
        effect,
        reads,
        writes,
        timeout_ms: TICK,
        // The wait between attempts is between one half and all of it: one tick.
        retry: RetryPolicy { max_attempts: 2, base_ms: 2 * TICK, cap_ms: 2 * TICK },
        volatile: vec![],
        polling: false,
        independent: true,
        required: false,
    }
}

fn evidence(usage: Usage) -> ModelEvidence {
    ModelEvidence {
        response_id: "r".to_owned(),
        model: "checked".to_owned(),
        usage,
        context_digest: Digest::of("context", &[]),
    }
}

/// What an ordinary answer costs.
const USAGE: Usage = Usage { input_tokens: 10, output_tokens: 5, cost_micros: 7 };

fn accepted(decision: AcceptedDecision) -> Judgement {
    Judgement::Accepted { decision, evidence: evidence(USAGE) }
}

/// The model answers.
pub fn finish() -> Judgement {
    accepted(AcceptedDecision::Final { answer: json!("done") })
}

/// The model gives up.
pub fn give_up() -> Judgement {
    accepted(AcceptedDecision::CannotContinue { reason: "no way".to_owned() })
}

/// The model proposes these calls.
pub fn calls(calls: &[(&str, Value)]) -> Judgement {
    let calls = calls.iter().enumerate().map(|(ordinal, (tool, arguments))| AcceptedCall {
        call: ProposedCall {
            provider_call_id: format!("c{ordinal}"),
            tool: (*tool).into(),
            arguments: arguments.clone(),
        },
        contract: contract(tool),
    });
    accepted(AcceptedDecision::ToolCalls { calls: calls.collect() })
}

/// The same proposal, its calls' contracts changed.
fn tuned(mut judgement: Judgement, tune: impl Fn(&mut ToolContract)) -> Judgement {
    if let Judgement::Accepted { decision, .. } | Judgement::ApprovalRequired { decision, .. } = &mut judgement
        && let AcceptedDecision::ToolCalls { calls } | AcceptedDecision::RequestApproval { calls } = decision
    {
        calls.iter_mut().for_each(|call| tune(&mut call.contract));
    }
    judgement
}

/// The same calls, each with one attempt only.
pub fn once(judgement: Judgement) -> Judgement {
    tuned(judgement, |contract| contract.retry.max_attempts = 1)
}

/// The same calls, of tools without which the task cannot be done.
pub fn required(judgement: Judgement) -> Judgement {
    tuned(judgement, |contract| contract.required = true)
}

/// The model proposes these calls, and policy gates the first one.
pub fn gated(batch: &[(&str, Value)], four_eyes: bool) -> Judgement {
    let reason = ApprovalReason { path: "calls[0]".to_owned(), policy: "p".to_owned(), message: "ask".to_owned() };
    match calls(batch) {
        Judgement::Accepted { decision, evidence } => {
            Judgement::ApprovalRequired { decision, reasons: vec![reason], four_eyes, ttl_ms: None, evidence }
        }
        other => other,
    }
}

/// The model asks.
pub fn question() -> Judgement {
    accepted(AcceptedDecision::Clarification { question: "which one?".to_owned() })
}

/// The same answer at another price.
pub fn at_a_price(mut judgement: Judgement, tokens: u64, cost_micros: u64) -> Judgement {
    let usage = Usage { input_tokens: tokens, output_tokens: 0, cost_micros };
    match &mut judgement {
        Judgement::Accepted { evidence, .. }
        | Judgement::ApprovalRequired { evidence, .. }
        | Judgement::Rejected { evidence, .. } => evidence.usage = usage,
        Judgement::DecisionFailed { .. } => {}
    }
    judgement
}

/// Validation refuses what the model proposed.
pub fn invalid(code: FindingCode) -> Judgement {
    let findings = vec![Finding::new(code, "calls[0]", "no")];
    Judgement::Rejected { findings, evidence: evidence(USAGE) }
}

/// The model cannot be reached.
pub fn unreachable_model() -> Judgement {
    Judgement::DecisionFailed { message: "down".to_owned() }
}

/// Arguments that name an order.
pub fn order(number: u64) -> Value {
    json!({ "order": number })
}
