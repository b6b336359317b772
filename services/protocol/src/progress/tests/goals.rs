//! Goal predicates: what they hold for, what is refused, what is remembered.

use serde_json::{Value, json};

use super::*;

#[test]
fn goal_predicates_that_were_met_are_remembered_and_turns_without_one_are_counted() {
    let goals = [
        goal("found", "lookup", json!({"pointer": "/rows/0/id", "exists": true})),
        goal("paid", "pay", json!({"pointer": "/status", "equals": "ok"})),
    ];
    let limits = only(|limits| limits.unmet_goal_predicates = Limit::after(2));
    let mut run = Run(Progress::new(limits, &goals));
    let names = |run: &Run| run.0.unmet().map(|goal| goal.name.clone()).collect::<Vec<_>>();
    assert_eq!(run.one("pay", 1, output(json!({"status": "later"}))).unmet_goal_predicates, 1);
    let turn = run.one("lookup", 1, output(json!({"rows": [{"id": null}]})));
    assert_eq!((turn.goals_met, turn.unmet_goal_predicates), (vec!["found".to_owned()], 0));
    assert_eq!(names(&run), ["paid"]);
    assert_eq!(run.one("lookup", 2, output(json!({"rows": []}))).unmet_goal_predicates, 1);
    assert_eq!(names(&run), ["paid"], "what was met stays met");
    assert_eq!(run.stopped("pay", 2), [""; 0]);
    assert_eq!(run.one("lookup", 3, output(json!({"rows": []}))).unmet_goal_predicates, 2);
    assert_eq!(run.stopped("pay", 2), ["unmet_goal_predicates"]);
    let turn = run.one("pay", 2, output(json!({"status": "ok"})));
    assert_eq!((turn.goals_met, names(&run)), (vec!["paid".to_owned()], vec![]));
    assert_eq!(run.one("lookup", 4, output(json!({"rows": []}))).unmet_goal_predicates, 0, "nothing is unmet");
}

#[test]
fn a_predicate_looks_at_outputs_of_its_tool_by_pointer() {
    let met = |rest: Value, tool: &str, outcome: CallOutcome| {
        let mut run = Run(Progress::new(only(|_| {}), &[goal("g", "t", rest)]));
        !run.one(tool, 1, outcome).goals_met.is_empty()
    };
    let said = json!({"a/b": [10, {"m~n": 1.0}], "null": null});
    let t = |rest| met(rest, "t", output(said.clone()));
    assert!(t(json!({"exists": true})), "an empty pointer is the whole output");
    assert!(t(json!({"pointer": "/a~1b/0", "equals": 10.0})));
    assert!(t(json!({"pointer": "/a~1b/1/m~0n", "equals": 1})));
    assert!(!t(json!({"pointer": "/a~1b/00", "exists": true})), "an index has no leading zero");
    assert!(!t(json!({"pointer": "/a~1b/-", "exists": true})));
    assert!(t(json!({"pointer": "/null", "exists": true})) && !t(json!({"pointer": "/none", "exists": true})));
    assert!(t(json!({"pointer": "/none", "exists": false})) && !t(json!({"pointer": "/null", "exists": false})));
    assert!(t(json!({"equals": {"null": null, "a/b": [10, {"m~n": 1}]}})), "keys have no order");
    assert!(!t(json!({"pointer": "/none", "equals": 10})));
    assert!(!met(json!({"exists": true}), "other", output(said.clone())));
    assert!(!met(json!({"exists": true}), "t", failure(ErrorClass::NotFound)), "an error is no output");
}

#[test]
fn a_predicate_that_cannot_be_used_is_refused_by_field() {
    let fine = || goal("g", "t", json!({"exists": true}));
    let refused = |goals: &[GoalPredicate]| check_goal_predicates(goals).unwrap_err().field;
    assert_eq!(check_goal_predicates(&[fine(), GoalPredicate { name: "h".into(), ..fine() }]), Ok(()));
    let named = |count| (0..count).map(|n| GoalPredicate { name: format!("g{n}"), ..fine() }).collect::<Vec<_>>();
    assert_eq!(check_goal_predicates(&named(MAX_GOAL_PREDICATES)), Ok(()));
    assert_eq!(refused(&named(MAX_GOAL_PREDICATES + 1)), "goal_predicates");
    assert_eq!(refused(&[fine(), fine()]), "goal_predicates[1].name");
    assert_eq!(refused(&[GoalPredicate { name: String::new(), ..fine() }]), "goal_predicates[0].name");
    assert_eq!(refused(&[GoalPredicate { tool: "".into(), ..fine() }]), "goal_predicates[0].tool");
    for pointer in ["a", "/~", "/~2", "/a~", &format!("/{}", "x".repeat(MAX_POINTER_BYTES))] {
        assert_eq!(refused(&[GoalPredicate { pointer: pointer.into(), ..fine() }]), "goal_predicates[0].pointer");
    }
    let longest = format!("/{}", "x".repeat(MAX_POINTER_BYTES - 1));
    assert_eq!(check_goal_predicates(&[GoalPredicate { pointer: longest, ..fine() }]), Ok(()));
    let equals = |value| GoalPredicate { equals: Some(value), exists: None, ..fine() };
    assert_eq!(refused(&[equals(Value::Null)]), "goal_predicates[0].equals");
    assert_eq!(refused(&[equals(json!("x".repeat(MAX_EQUALS_BYTES - 1)))]), "goal_predicates[0].equals");
    assert_eq!(check_goal_predicates(&[equals(json!("x".repeat(MAX_EQUALS_BYTES - 2)))]), Ok(()));
    assert_eq!(refused(&[GoalPredicate { exists: None, ..fine() }]), "goal_predicates[0]");
    assert_eq!(refused(&[GoalPredicate { exists: Some(true), ..equals(json!(1)) }]), "goal_predicates[0]");
}

#[test]
fn what_is_missing_of_a_goal_is_said() {
    let said = |rest: Value| goal("g", "t", rest).describe_unmet();
    let start = "goal predicate `g` is not met: no call of `t` has had an output";
    assert_eq!(said(json!({"pointer": "/a", "equals": "x"})), format!("{start} in which `/a` is \"x\""));
    assert_eq!(said(json!({"exists": true})), format!("{start} with the whole output"));
    assert_eq!(said(json!({"pointer": "/a", "exists": false})), format!("{start} without `/a`"));
}
