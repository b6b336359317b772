//! A registry of four tools, a turn that may use three of them, and short ways to have a decision judged.

use std::path::PathBuf;
use std::sync::Arc;

use chassis::registry::Registry;
use protocol::{
    AcceptedDecision, Basis, Budget, DecisionProposed, Digest, Finding, FindingCode, InvocationId, Judgement,
    ModelAnswer, ModelEvidence, Round, Scope, Spent, Step, Timestamp, TurnReady, Usage, Version,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::policy::{Policy, PolicyFiles};
use crate::{DecisionLimits, Judge};

pub const TOOLS: &str = r##"
tools:
  - name: lookup
    arguments:
      type: object
      required: [q]
      properties: {q: {type: string, pattern: "^[a-z]+$"}, nested: {type: object, properties: {n: {type: integer}}}}
    run: {kind: lookup, argument: q, rows: {}}
  - name: refund
    arguments:
      $defs: {order: {type: object, required: [order], properties: {order: {type: string}}}}
      allOf: [{$ref: "#/$defs/order"}]
      properties: {amount: {type: integer, minimum: 1, maximum: 100}}
    effect: {key: per_invocation, owner: payments, dedupe: key, query: true}
    writes: ["order:{order}"]
    run: {kind: http, endpoint: {url: "http://127.0.0.1:1/refund"}, reconcile: {url: "http://127.0.0.1:1/refunds"}}
  - name: audit
    arguments: {type: object, additionalProperties: true}
    reads: ["case:{case.id}"]
    run: {kind: lookup, argument: q, rows: {}}
  - name: forbidden
    arguments: {type: object}
    run: {kind: lookup, argument: q, rows: {}}
"##;

pub const AGENTS: &str = "
agents:
  - {name: refunds, provider: {kind: scripted, scenario: none}, model: scripted, tools: [lookup, refund, audit]}
";

pub fn registry(tools: &str) -> Registry {
    Registry {
        agents: serde_yaml_ng::from_str(AGENTS).unwrap(),
        tools: serde_yaml_ng::from_str(tools).unwrap(),
        ingress: serde_yaml_ng::from_str("ingress: []").unwrap(),
        digest: Digest::of("registry", &[tools.as_bytes()]),
        directory: PathBuf::new(),
    }
}

pub fn standard() -> Arc<Registry> {
    Arc::new(registry(TOOLS))
}

/// Allows everything.
pub const PERMIT: &str = "permit(principal, action, resource);";

pub fn policy(text: &str) -> Arc<Policy> {
    Arc::new(Policy::compile(&PolicyFiles::of(text)).unwrap_or_else(|problems| panic!("{problems}")))
}

pub fn judge() -> Judge {
    judge_by(PERMIT)
}

/// A judge with this policy.
pub fn judge_by(text: &str) -> Judge {
    Judge::new(&standard(), policy(text), DecisionLimits::default()).unwrap()
}

pub fn turn() -> TurnReady {
    let scope = Scope {
        tenant: "acme".into(),
        invocation_id: InvocationId(Uuid::from_u128(7)),
        task_type: "refund".into(),
        step: Step(2),
        round: Round(0),
        basis: Basis { version: Version(4), hash: Digest::of("event", &[]) },
    };
    TurnReady {
        scope,
        actor: "ada".into(),
        agent: "refunds".into(),
        tools: vec!["lookup".into(), "refund".into(), "audit".into()],
        budget: Budget { max_steps: 4, max_tool_calls: 4, ..Budget::default() },
        spent: Spent { steps: 1, tool_calls: 1, usage: Usage::default() },
        deadline: Timestamp(1_000_000),
        last_plan: None,
        output_schema: None,
        profile_digest: Digest::default(),
    }
}

pub fn evidence() -> ModelEvidence {
    ModelEvidence {
        response_id: "r".into(),
        model: "m".into(),
        usage: Usage::default(),
        context_digest: Digest::of("context", &[]),
    }
}

pub fn proposed(turn: TurnReady, body: impl Into<String>) -> DecisionProposed {
    DecisionProposed { turn, answer: ModelAnswer::Proposed { body: body.into(), evidence: evidence() } }
}

pub fn call(id: &str, tool: &str, arguments: Value) -> Value {
    json!({"call_id": id, "tool_name": tool, "arguments": arguments})
}

pub fn batch(calls: &[Value]) -> String {
    json!({"schema_version": 1, "kind": "tool_calls", "calls": calls}).to_string()
}

pub fn answer(answer: Value) -> String {
    json!({"schema_version": 1, "kind": "final", "answer": answer}).to_string()
}

pub fn accepted(turn: TurnReady, body: &str) -> AcceptedDecision {
    match judge().judge(&proposed(turn, body)) {
        Judgement::Accepted { decision, .. } => decision,
        other => panic!("{other:?}"),
    }
}

pub fn findings(turn: TurnReady, body: &str) -> Vec<Finding> {
    match judge().judge(&proposed(turn, body)) {
        Judgement::Rejected { findings, .. } => findings,
        other => panic!("{other:?}"),
    }
}

/// Code and path of each finding.
pub fn places(findings: &[Finding]) -> Vec<(FindingCode, &str)> {
    findings.iter().map(|finding| (finding.code, finding.path.as_str())).collect()
}
