use protocol::{AcceptedDecision, DecisionProposed, FindingCode::*, Judgement, ModelAnswer, Round};
use serde_json::{Value, json};

use super::world::*;
use crate::{DecisionLimits, Judge};

#[test]
fn accepted_calls_carry_their_tools_contracts() {
    let body =
        batch(&[call("c1", "lookup", json!({"q": "a"})), call("c2", "refund", json!({"order": "7", "amount": 5}))]);
    let AcceptedDecision::ToolCalls { calls } = accepted(turn(), &body) else { panic!("calls") };
    assert_eq!(calls[1].contract, standard().tool(&"refund".into()).unwrap().contract());
    assert_eq!(calls[0].call.provider_call_id, "c1");
}

#[test]
fn every_finding_is_reported_with_its_path_and_in_protocol_order() {
    let calls = [
        call("c1", "lookup", json!({"q": 5, "x": 1})),
        call("c1", "nothing", json!({})),
        call("c2", "forbidden", json!({})),
        call("c3", "refund", json!({"amount": 500})),
    ];
    let found = findings(turn(), &batch(&calls));
    assert_eq!(
        places(&found),
        vec![
            (DuplicateCallId, "calls[1].call_id"),
            (InvalidArguments, "calls[0].arguments.q"),
            (UnknownField, "calls[0].arguments.x"),
            (UnknownTool, "calls[1].tool_name"),
            (ToolNotAllowed, "calls[2].tool_name"),
            (InvalidArguments, "calls[3].arguments.amount"),
            (InvalidArguments, "calls[3].arguments.order"),
            (BudgetExceeded, "calls"),
        ],
        "{found:#?}"
    );
}

#[test]
fn a_top_level_schema_is_closed_unless_it_says_otherwise_and_sees_fields_behind_references() {
    let open = batch(&[call("c1", "audit", json!({"case": {"id": "9"}, "anything": [1]}))]);
    accepted(turn(), &open);
    let behind_reference = batch(&[call("c1", "refund", json!({"order": "7"}))]);
    accepted(turn(), &behind_reference);
    let nested = batch(&[call("c1", "lookup", json!({"q": "a", "nested": {"other": 1}}))]);
    accepted(turn(), &nested);
    let unknown = batch(&[call("c1", "refund", json!({"order": "7", "odd name": 1}))]);
    assert_eq!(places(&findings(turn(), &unknown)), vec![(UnknownField, "calls[0].arguments[\"odd name\"]")]);
}

#[test]
fn a_resource_template_that_cannot_be_filled_is_a_finding() {
    let found = findings(turn(), &batch(&[call("c1", "audit", json!({"case": {}}))]));
    assert_eq!(places(&found), vec![(InvalidArguments, "calls[0].arguments")]);
    assert!(found[0].message.contains("case.id"), "{found:?}");
}

#[test]
fn sizes_and_depth_are_bounded() {
    let long = "a".repeat(70_000);
    let found = findings(turn(), &batch(&[call("c1", "lookup", json!({"q": long}))]));
    assert_eq!(places(&found), vec![(TooLarge, "calls[0].arguments")]);
    let found = findings(turn(), &batch(&[call(&"c".repeat(200), "lookup", json!({"q": "a"}))]));
    assert_eq!(places(&found), vec![(TooLarge, "calls[0].call_id")]);
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(places(&findings(turn(), &answer(deep))), vec![(TooDeep, "")]);
    assert_eq!(places(&findings(turn(), &answer(json!("x".repeat(300_000))))), vec![(TooLarge, "")]);
    let reason = json!({"schema_version": 1, "kind": "cannot_continue", "reason": "x".repeat(5_000)}).to_string();
    assert_eq!(places(&findings(turn(), &reason)), vec![(TooLarge, "reason")]);
    let many: Vec<_> = (0..2_000).map(|i| call(&format!("c{i}"), "audit", json!({}))).collect();
    let mut wide = turn();
    wide.budget.max_tool_calls = 10_000;
    assert_eq!(places(&findings(wide, &batch(&many)))[0], (TooManyCalls, "calls"));
}

#[test]
fn findings_are_bounded_and_say_how_many_are_left_out() {
    let calls: Vec<_> = (0..30).map(|i| call(&format!("c{i}"), "lookup", json!({"a": 1, "b": 2, "c": 3}))).collect();
    let mut wide = turn();
    wide.budget.max_tool_calls = 100;
    let found = findings(wide, &batch(&calls));
    assert_eq!(found.len(), DecisionLimits::default().findings + 1);
    assert!(found.last().unwrap().message.contains("more findings"), "{found:?}");
}

#[test]
fn an_overspent_batch_may_be_repaired_and_a_repair_that_overspends_is_the_committers_to_end() {
    let calls: Vec<_> = (0..4).map(|i| call(&format!("c{i}"), "lookup", json!({"q": "a"}))).collect();
    let found = findings(turn(), &batch(&calls));
    assert_eq!(places(&found), vec![(BudgetExceeded, "calls")]);
    assert!(found[0].message.contains("3 of 4 are left"), "{found:?}");
    let mut repair = turn();
    repair.scope.round = Round(1);
    accepted(repair.clone(), &batch(&calls));
    repair.spent.steps = 4;
    assert_eq!(places(&findings(repair, &batch(&calls)))[0], (BudgetExceeded, ""));
}

#[test]
fn a_final_answer_must_satisfy_the_output_schema() {
    let mut turn = turn();
    turn.output_schema =
        Some(json!({"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}}));
    accepted(turn.clone(), &answer(json!({"total": 3})));
    assert_eq!(places(&findings(turn.clone(), &answer(json!({"total": "3"})))), vec![(InvalidAnswer, "answer.total")]);
    assert_eq!(places(&findings(turn, &answer(json!({})))), vec![(InvalidAnswer, "answer.total")]);
}

#[test]
fn an_output_schema_that_cannot_be_used_is_named() {
    for schema in [
        json!({"type": 7}),
        json!({"$ref": "https://example.org/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"pattern": "(?=look)ahead"}),
        json!({"$ref": "#/$defs/missing"}),
    ] {
        let mut turn = turn();
        turn.output_schema = Some(schema.clone());
        let found = findings(turn, &answer(json!("x")));
        assert_eq!(places(&found), vec![(InvalidAnswer, "output_schema")], "{schema}");
    }
}

#[test]
fn schemas_that_refer_to_themselves_neither_hang_nor_overflow() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"allOf": [{"$ref": "#"}, {"not": {"$ref": "#"}}]}),
        json!({"properties": {"a": {"$ref": "#"}}, "unevaluatedProperties": {"$ref": "#"}}),
    ] {
        let mut turn = turn();
        turn.output_schema = Some(schema);
        judge().judge(&proposed(turn, answer(json!({"a": {"a": {"b": 1}}}))));
    }
}

#[test]
fn the_other_kinds_of_the_union_are_accepted_and_their_calls_and_texts_are_judged() {
    let calls = |q: Value| {
        let calls = [call("c1", "lookup", json!({"q": q}))];
        json!({"schema_version": 1, "kind": "request_approval", "calls": calls}).to_string()
    };
    assert!(matches!(accepted(turn(), &calls(json!("a"))), AcceptedDecision::RequestApproval { .. }));
    assert_eq!(places(&findings(turn(), &calls(json!(7)))), vec![(InvalidArguments, "calls[0].arguments.q")]);
    let question = |text: &str| json!({"schema_version": 1, "kind": "clarification", "question": text}).to_string();
    assert!(matches!(accepted(turn(), &question("which?")), AcceptedDecision::Clarification { .. }));
    assert_eq!(places(&findings(turn(), &question(&"?".repeat(100_000)))), vec![(TooLarge, "question")]);
    let stop = json!({"schema_version": 1, "kind": "cannot_continue", "reason": "no data"}).to_string();
    assert!(matches!(accepted(turn(), &stop), AcceptedDecision::CannotContinue { .. }));
}

#[test]
fn refused_empty_and_cut_off_answers_are_named_for_what_they_are() {
    for body in
        [r#"{"no_decision":"refused"}"#, r#"{"no_decision":"empty"}"#, r#"{"no_decision":"cut_off"}"#, "", " \n"]
    {
        assert_eq!(places(&findings(turn(), body)), vec![(NoDecision, "")], "{body}");
    }
    assert_eq!(places(&findings(turn(), "I cannot help with that."))[0].0, Malformed);
    assert_eq!(places(&findings(turn(), r#"{"no_decision":"other"}"#))[0].0, UnknownVersion);
}

#[test]
fn a_failed_decision_passes_through() {
    let failed = DecisionProposed { turn: turn(), answer: ModelAnswer::Failed { message: "down".into() } };
    assert_eq!(judge().judge(&failed), Judgement::DecisionFailed { message: "down".into() });
}

#[test]
fn every_tool_whose_schema_does_not_compile_is_reported_at_start() {
    let tools = "tools:\n- {name: a, arguments: {type: 5}, run: {kind: lookup, argument: q, rows: {}}}\n\
                 - {name: b, arguments: {pattern: '('}, run: {kind: lookup, argument: q, rows: {}}}\n";
    let problems = Judge::new(&registry(tools), policy(PERMIT), DecisionLimits::default()).err().unwrap();
    assert_eq!(problems.0.len(), 2, "{problems}");
    assert!(problems.0[0].starts_with("tools.yaml: tools[0] (a): arguments: "), "{problems}");
}

#[test]
fn an_output_schema_whose_references_multiply_is_refused_before_it_runs() {
    let doubling = |n: usize| {
        let refer = |i: usize| json!({"$ref": format!("#/$defs/a{i}")});
        let mut defs: serde_json::Map<_, _> =
            (0..n).map(|i| (format!("a{i}"), json!({"anyOf": [refer(i + 1), refer(i + 1)]}))).collect();
        defs.insert(format!("a{n}"), json!({"type": "string"}));
        json!({"$defs": defs, "$ref": "#/$defs/a0"})
    };
    let branch = json!({"properties": {"x": {"$ref": "#"}}});
    for schema in [doubling(20), doubling(60), json!({"anyOf": [branch, branch]}), json!({"$dynamicRef": "#x"})] {
        let mut turn = turn();
        turn.output_schema = Some(schema);
        assert_eq!(places(&findings(turn, &answer(json!(5)))), vec![(InvalidAnswer, "output_schema")]);
    }
    let mut turn = turn();
    turn.output_schema = Some(json!({"type": "object", "properties": {"children": {"items": {"$ref": "#"}}}}));
    accepted(turn, &answer(json!({"children": [{"children": []}]})));
}
