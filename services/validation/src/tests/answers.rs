//! Validators of final answers that an agent's profile names (M14).

use protocol::Finding;
use protocol::FindingCode::InvalidAnswer;
use serde_json::{Value, json};

use super::world::*;
use crate::{DecisionLimits, Judge};

const VALIDATORS: &str = r#"
agents:
  - name: refunds
    provider: {kind: scripted, scenario: none}
    model: scripted
    tools: []
    validators:
      - {kind: required_text, at: /summary, text: "order"}
      - {kind: forbidden_text, text: "password"}
      - {kind: max_bytes, at: /summary, bytes: 12}
      - {kind: pattern, at: /orders/0, pattern: "^A-[0-9]+$"}
"#;

fn judged(agents: &str, value: Value) -> Vec<Finding> {
    let mut registry = registry("tools: []");
    registry.agents = serde_yaml_ng::from_str(agents).unwrap();
    let judge = Judge::new(&registry, policy(PERMIT), DecisionLimits::default()).unwrap();
    match judge.judge(&proposed(turn(), answer(value))) {
        protocol::Judgement::Rejected { findings, .. } => findings,
        _ => Vec::new(),
    }
}

#[test]
fn an_answer_that_passes_every_validator_is_accepted() {
    assert_eq!(judged(VALIDATORS, json!({"summary": "order paid", "orders": ["A-17"]})), []);
}

#[test]
fn every_validator_that_fails_is_a_finding_at_its_place() {
    let found = judged(VALIDATORS, json!({"summary": "the password is x", "orders": ["B-1"]}));
    let expected = [
        (InvalidAnswer, "answer.summary"),
        (InvalidAnswer, "answer"),
        (InvalidAnswer, "answer.summary"),
        (InvalidAnswer, "answer.orders.0"),
    ];
    assert_eq!(places(&found), expected, "{found:?}");
    assert!(found.iter().all(|finding| !finding.message.contains("the password is x")), "{found:?}");
}

#[test]
fn what_must_be_there_and_is_not_is_required() {
    let found = judged(VALIDATORS, json!("nothing here"));
    assert_eq!(places(&found), [(InvalidAnswer, "answer.summary"), (InvalidAnswer, "answer.orders.0")]);
    assert!(found.iter().all(|finding| finding.message == "is required"), "{found:?}");
    let not_a_text = judged(VALIDATORS, json!({"summary": "order", "orders": [7]}));
    assert_eq!(places(&not_a_text), [(InvalidAnswer, "answer.orders.0")]);
}

#[test]
fn the_text_of_a_structure_is_its_json() {
    let rule = |rule: &str| VALIDATORS.replace(&VALIDATORS[VALIDATORS.find("      - {").unwrap()..], rule);
    let agents = rule("      - {kind: max_bytes, bytes: 10}\n");
    assert_eq!(judged(&agents, json!({"a": [1]})), []);
    assert_eq!(places(&judged(&agents, json!({"a": [1, 2, 3]}))), [(InvalidAnswer, "answer")]);
    let agents = rule("      - {kind: required_text, at: /a~1b, text: '\"x\":1'}\n");
    assert_eq!(judged(&agents, json!({"a/b": {"x": 1}})), []);
}

#[test]
fn an_answer_of_an_agent_that_is_not_declared_has_passed_nothing() {
    assert_eq!(places(&judged("agents: []", json!("x"))), [(InvalidAnswer, "")]);
}

#[test]
fn a_pattern_that_does_not_compile_is_reported_at_start() {
    let mut registry = registry("tools: []");
    registry.agents = serde_yaml_ng::from_str(&VALIDATORS.replace("^A-[0-9]+$", "(?=x)")).unwrap();
    let problems = Judge::new(&registry, policy(PERMIT), DecisionLimits::default()).err().unwrap();
    let at = "agents.yaml: agents[0] (refunds): validators[3].pattern";
    assert!(problems.0.len() == 1 && problems.0[0].starts_with(at), "{problems}");
}
