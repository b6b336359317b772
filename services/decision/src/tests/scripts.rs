use std::sync::Arc;

use futures::executor::block_on;
use protocol::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::*;
use crate::{
    Context, ModelProvider, ModelReply, ModelRequest, PastOutcome, PastResult, PastTurn, ProviderError, Said,
    ScriptedProvider,
};

fn provider(text: &str) -> (ScriptedProvider, Arc<JumpingClock>) {
    let clock = Arc::new(JumpingClock::default());
    (ScriptedProvider::from_text("desk".into(), "s.yaml", text, clock.clone()).unwrap(), clock)
}

fn problems(text: &str) -> Vec<String> {
    let clock = Arc::new(JumpingClock::default());
    ScriptedProvider::from_text("desk".into(), "s.yaml", text, clock).err().expect("problems").0
}

fn request(goal: Value, step: u32, attempt: u32) -> ModelRequest {
    let result =
        |id: &str, outcome| PastResult { call_id: id.into(), tool_name: "look".into(), outcome, effect_status: None };
    let error = PastOutcome::Error { class: ErrorClass::NotFound, message: "none".into() };
    let turn = |step, output| PastTurn {
        step: Step(step),
        decision: json!({}),
        results: vec![result("c1", PastOutcome::Output(output)), result("c2", error.clone())],
        answer: None,
    };
    let context = Context {
        system: String::new(),
        goal,
        tools: Vec::new(),
        output_schema: None,
        goal_predicates: Vec::new(),
        omitted_turns: 0,
        turns: vec![turn(1, json!("old")), turn(2, json!({"n": 5, "list": [{"id": "x"}], "text": "hi"}))],
        findings: Vec::new(),
    };
    ModelRequest {
        invocation_id: InvocationId(Uuid::from_u128(7)),
        step: Step(step),
        round: Round(0),
        basis: Basis { version: Version(1), hash: Digest::default() },
        agent: "desk".into(),
        model: "m".into(),
        attempt,
        digest: context.digest(),
        context,
    }
}

fn ask(provider: &ScriptedProvider, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
    block_on(provider.decide(request))
}

fn said(text: &str, goal: Value) -> Value {
    match ask(&provider(text).0, &request(goal, 1, 1)).unwrap().said {
        Said::Decision(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn one(decision: &str) -> String {
    format!("runs: [{{steps: [{{step: 1, decision: {decision}}}]}}]")
}

#[test]
fn places_take_the_newest_result_and_a_whole_string_keeps_the_type() {
    let answer = r#"{kind: final, answer: {n: "{c1.output.n}", s: "n={c1.output.n} {c1.output.text} {{x}}",
        id: "{c1.output.list.0.id}", class: "{c2.error.class}", order: "{goal.order}", list: ["{goal}"]}}"#;
    let expected =
        json!({"n": 5, "s": "n=5 hi {x}", "id": "x", "class": "not_found", "order": 7, "list": [{"order": 7}]});
    let decision = said(&one(answer), json!({"order": 7}));
    assert_eq!(decision, json!({"schema_version": 1, "kind": "final", "answer": expected}));
}

#[test]
fn a_place_that_cannot_be_filled_is_a_final_error_that_names_it() {
    for place in ["c9.output.n", "c1.output.none", "c1.error.class", "c2.output", "goal.none"] {
        let answer = format!("{{kind: final, answer: \"{{{place}}}\"}}");
        let error = ask(&provider(&one(&answer)).0, &request(json!({}), 1, 1)).unwrap_err();
        let ProviderError::Final { message } = error else { panic!("final") };
        assert!(message.contains(place) && message.contains("s.yaml"), "{message}");
    }
}

#[test]
fn the_first_run_whose_part_is_in_the_goal_is_played() {
    let text = "runs:\n- {match: slow, steps: [{step: 1, text: a}]}\n- {steps: [{step: 1, text: b}]}\n";
    let (provider, _) = provider(text);
    let said = |goal| ask(&provider, &request(goal, 1, 1)).unwrap().said;
    assert_eq!(said(json!("a slow one")), Said::Decision("a".into()));
    assert_eq!(said(json!({"speed": "slow"})), Said::Decision("a".into()));
    assert_eq!(said(json!("quick")), Said::Decision("b".into()));
}

#[test]
fn a_step_that_is_not_in_the_scenario_is_a_final_error_that_names_it() {
    let (provider, _) = provider(&one("{kind: final, answer: 1}"));
    let error = ask(&provider, &request(json!("x"), 2, 1)).unwrap_err();
    let ProviderError::Final { message } = error else { panic!("final") };
    assert!(message.contains("s.yaml: runs[0] has no decision for step 2, round 0"), "{message}");
}

#[test]
fn delays_failures_and_usage_are_as_written_and_keep_no_state() {
    let text = "runs: [{steps: [{step: 1, text: x, delay_ms: 40, fail: {times: 2, error: transient}, \
                usage: {input_tokens: 9}}]}]";
    let (provider, clock) = provider(text);
    for _ in 0..2 {
        let outcomes = [1, 2, 3].map(|attempt| ask(&provider, &request(json!("x"), 1, attempt)));
        assert!(matches!(outcomes[0], Err(ProviderError::Transient { .. })));
        assert!(matches!(outcomes[1], Err(ProviderError::Transient { .. })));
        assert_eq!(outcomes[2].as_ref().unwrap().usage.input_tokens, 9);
    }
    assert_eq!(clock.sleeps_ms(), [40; 6]);
}

#[test]
fn the_response_id_depends_on_invocation_and_turn_only() {
    let (provider, _) = provider("runs: [{steps: [{step: 1, text: x}, {step: 2, text: x}]}]");
    let id = |step| ask(&provider, &request(json!("x"), step, 1)).unwrap().response_id;
    assert_eq!(id(1), id(1));
    assert_ne!(id(1), id(2));
}

#[test]
fn everything_wrong_with_a_scenario_is_reported_with_file_key_and_fix() {
    let text = "runs:\n- steps:\n  - {step: 0, text: x}\n  - {step: 1}\n  - {step: 2, text: x, no_decision: empty}\n  \
                - {step: 2, decision: {kind: final, answer: \"{c1}\"}}\n  - {step: 3, decision: {kind: \"{oops\"}}\n\
                - {match: never, steps: []}\n";
    let found = problems(text);
    for part in [
        "s.yaml: runs[0].steps[0].step: counts from 1",
        "runs[0].steps[1]: must have exactly one of",
        "runs[0].steps[2]: must have exactly one of",
        "runs[0].steps[3]: step 2, round 0 stands twice",
        "runs[0].steps[3].decision.answer: `{c1}` must be",
        "runs[0].steps[4].decision.kind: `{oops` has a brace that is no place; write it twice",
        "runs[1]: is never reached",
    ] {
        assert!(found.iter().any(|problem| problem.contains(part)), "{part} not in {found:#?}");
    }
    assert!(problems("runs: [{steps: [{step: 1, txet: x}]}]")[0].contains("txet"));
    assert!(problems("runs: []")[0].contains("at least one run"));
}
