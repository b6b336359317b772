//! Random and mutated decisions. What is accepted is checked by rules written out here, not by the judge's own code.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use protocol::{AcceptedDecision, Judgement, Round};
use serde_json::{Map, Value, json};

use super::world::*;

const WORDS: [&str; 22] = [
    "lookup",
    "refund",
    "audit",
    "forbidden",
    "nothing",
    "q",
    "order",
    "amount",
    "case",
    "id",
    "abc",
    "A b",
    "c1",
    "c2",
    "kind",
    "calls",
    "call_id",
    "tool_name",
    "arguments",
    "schema_version",
    "{order}",
    "\u{0}\u{202e}é",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_i64..120).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(&WORDS[..]), inner), 0..5).prop_map(|pairs| pairs
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// A call that is right, or nearly.
fn near_call() -> impl Strategy<Value = Value> {
    let arguments = prop_oneof![
        Just(json!({"q": "abc"})),
        Just(json!({"order": "7", "amount": 50})),
        Just(json!({"order": "7", "amount": 500})),
        Just(json!({"case": {"id": "x"}, "more": 1})),
        any_value(),
    ];
    (prop::sample::select(&["c1", "c2", "c3", ""][..]), prop::sample::select(&WORDS[..5]), arguments)
        .prop_map(|(id, tool, arguments)| call(id, tool, arguments))
}

fn decision() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => prop::collection::vec(near_call(), 0..6).prop_map(|calls| serde_json::from_str(&batch(&calls)).unwrap()),
        1 => any_value().prop_map(|value| serde_json::from_str(&answer(value)).unwrap()),
        1 => any_value(),
    ]
}

/// Changes something somewhere: a key, a value, a type; or the text itself.
fn mutate(value: &mut Value, path: &[u8], with: &Value) {
    let Some((at, rest)) = path.split_first() else {
        *value = with.clone();
        return;
    };
    match value {
        Value::Array(list) if !list.is_empty() => {
            let i = usize::from(*at) % list.len();
            mutate(&mut list[i], rest, with);
        }
        Value::Object(object) if *at % 7 == 0 => {
            object.insert(WORDS[usize::from(*at) % WORDS.len()].to_owned(), with.clone());
        }
        Value::Object(object) if !object.is_empty() => {
            let key = object.keys().nth(usize::from(*at) % object.len()).unwrap().clone();
            mutate(&mut object[&key], rest, with);
        }
        other => *other = with.clone(),
    }
}

fn follows_the_rules(text: &str, round: Round, accepted: &AcceptedDecision) {
    let value: Value = serde_json::from_str(text).expect("accepted text is JSON");
    let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(value["schema_version"].as_u64(), Some(1));
    match accepted {
        AcceptedDecision::Final { .. } => assert_eq!(keys, ["answer", "kind", "schema_version"].into()),
        AcceptedDecision::CannotContinue { .. } => assert_eq!(keys, ["kind", "reason", "schema_version"].into()),
        AcceptedDecision::Clarification { .. } => assert_eq!(keys, ["kind", "question", "schema_version"].into()),
        AcceptedDecision::ToolCalls { calls } | AcceptedDecision::RequestApproval { calls } => {
            assert_eq!(keys, ["calls", "kind", "schema_version"].into());
            let ids: BTreeSet<_> = calls.iter().map(|call| &call.call.provider_call_id).collect();
            assert!(ids.len() == calls.len() && !calls.is_empty() && ids.iter().all(|id| !id.is_empty()));
            assert!(round > Round(0) || calls.len() <= 3, "budget");
            for accepted in calls {
                let arguments = accepted.call.arguments.as_object().unwrap();
                let only = |names: &[&str]| arguments.keys().all(|key| names.contains(&key.as_str()));
                match accepted.call.tool.as_str() {
                    "lookup" => {
                        let q = arguments["q"].as_str().unwrap();
                        assert!(only(&["q", "nested"]) && !q.is_empty() && q.chars().all(|c| c.is_ascii_lowercase()));
                    }
                    "refund" => {
                        assert!(only(&["order", "amount"]) && arguments["order"].is_string());
                        let amount = arguments.get("amount").map(|amount| amount.as_f64().unwrap());
                        assert!(amount.is_none_or(|amount| (1.0..=100.0).contains(&amount) && amount.fract() == 0.0));
                    }
                    "audit" => assert!(arguments["case"].get("id").is_some()),
                    other => panic!("{other} is not allowed"),
                }
                assert_eq!(accepted.contract.tool, accepted.call.tool);
            }
        }
    }
}

#[test]
fn no_generated_decision_that_breaks_the_rules_is_accepted_and_none_panics() {
    let judge = judge();
    let (mut taken, mut refused) = (0, 0);
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 2_000, failure_persistence: None, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let path = prop::collection::vec(any::<u8>(), 0..5);
    let inputs = (decision(), prop::option::weighted(0.4, (path, any_value())), 0_u32..2, any::<u16>());
    let counts = std::cell::RefCell::new((&mut taken, &mut refused));
    runner
        .run(&inputs, |(mut value, change, round, cut)| {
            if let Some((path, with)) = change {
                mutate(&mut value, &path, &with);
            }
            let mut text = value.to_string();
            if cut % 8 == 0 {
                text = text.chars().take(usize::from(cut) % (text.chars().count() + 1)).collect();
            }
            let mut turn = turn();
            turn.scope.round = Round(round);
            let mut counts = counts.borrow_mut();
            match judge.judge(&proposed(turn, text.clone())) {
                Judgement::Accepted { decision, .. } => {
                    follows_the_rules(&text, Round(round), &decision);
                    *counts.0 += 1;
                }
                Judgement::Rejected { findings, .. } => {
                    assert!(!findings.is_empty());
                    assert!(findings.iter().all(|finding| finding.message.len() <= 2_000 && finding.path.len() <= 512));
                    *counts.1 += 1;
                }
                Judgement::ApprovalRequired { .. } => panic!("no policy gates a call here"),
                Judgement::DecisionFailed { .. } => panic!("a proposal never fails"),
            }
            Ok(())
        })
        .unwrap();
    assert!(taken > 100 && refused > 1_000, "{taken} accepted, {refused} refused");
}
