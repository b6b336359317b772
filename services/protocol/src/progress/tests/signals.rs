//! Each signal alone: what raises it, what does not, and what it stops.

use serde_json::{Value, json};

use super::*;

#[test]
fn a_limit_is_a_number_from_one_or_off() {
    let read = |value: Value| serde_json::from_value::<ProgressLimits>(value);
    let limits = read(json!({"no_state_delta": 3, "error_cycle": "off"})).unwrap();
    assert_eq!((limits.no_state_delta, limits.error_cycle), (Limit::after(3), Limit::Off));
    assert_eq!(limits.evidence_repeats, ProgressLimits::default().evidence_repeats);
    assert_eq!(serde_json::to_value(limits).unwrap()["error_cycle"], "off");
    assert_eq!(read(serde_json::to_value(limits).unwrap()).unwrap(), limits);
    for wrong in [json!({"error_cycle": 0}), json!({"error_cycle": "no"}), json!({"error_cycles": 1})] {
        assert!(read(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(
        !Limit::Off.is_reached_by(u32::MAX) && !Limit::after(2).is_reached_by(1) && Limit::after(2).is_reached_by(2)
    );
    let window = |window| ProgressLimits { window, ..ProgressLimits::default() }.problem().is_some();
    assert_eq!([1, 2, MAX_WINDOW, MAX_WINDOW + 1].map(window), [true, false, false, true]);
}

#[test]
fn a_fingerprint_knows_tools_and_lasting_arguments_and_nothing_else() {
    let of = |calls: &[AcceptedCall]| fingerprint(calls);
    let (a, b) = (call("a", json!({"n": 1, "at": 1})), call("b", json!({"n": 1})));
    assert_eq!(of(&[a.clone(), b.clone()]), of(&[b.clone(), a.clone()]), "the order says nothing");
    assert_eq!(of(std::slice::from_ref(&a)), of(&[call("a", json!({"at": 2, "n": 1.0}))]));
    assert_ne!(of(std::slice::from_ref(&a)), of(&[call("a", json!({"n": 2}))]));
    assert_ne!(of(std::slice::from_ref(&a)), of(&[call("b", json!({"n": 1}))]));
    assert_ne!(of(std::slice::from_ref(&a)), of(&[a.clone(), a.clone()]), "twice is not once");
    let nested = |at| call("a", json!({"in": {"at": at}}));
    assert_ne!(of(&[nested(1)]), of(&[nested(2)]), "volatile fields stand at the top");
}

#[test]
fn a_plan_may_follow_itself_as_often_as_its_budget_says() {
    for max_repeated_plan in 0..3 {
        let mut run = Run::new(only(|_| {}));
        let calls = [call("a", json!({}))];
        for turn in 0..=max_repeated_plan {
            assert_eq!(run.stopped_by(&calls, max_repeated_plan), [""; 0], "turn {turn}");
            assert_eq!(run.turn(&calls, &[output(json!(turn))]).repeated_plan, turn);
        }
        assert_eq!(run.stopped_by(&calls, max_repeated_plan), ["repeated_plan"]);
        assert_eq!(run.stopped_by(&[call("b", json!({}))], max_repeated_plan), [""; 0], "another plan may run");
    }
}

#[test]
fn a_loop_of_two_plans_stops_where_it_would_come_back_once_more() {
    let mut run = Run::new(only(|limits| limits.evidence_repeats = Limit::after(1)));
    assert_eq!((run.read("a").evidence_repeats, run.read("b").evidence_repeats), (0, 0));
    assert_eq!((run.stopped("a", 1), run.stopped("b", 1)), (vec![], vec![]), "once is no loop");
    assert_eq!((run.read("a").evidence_repeats, run.stopped("b", 1)), (1, vec![]));
    assert_eq!(run.read("b").evidence_repeats, 1);
    assert_eq!(run.stopped("a", 1), ["evidence_repeats"]);
    assert_eq!(run.stopped("a", 2), [""; 0], "other arguments are another plan");
}

#[test]
fn a_plan_that_brings_something_else_each_time_is_no_loop() {
    let mut run = Run::new(only(|limits| limits.evidence_repeats = Limit::after(1)));
    for turn in 0..8 {
        assert_eq!(run.stopped("a", 1), [""; 0]);
        run.one("a", 1, output(json!(turn)));
        assert_eq!(run.read("b").evidence_repeats, turn.min(3), "the window holds it four times");
    }
    // Only the volatile part of the output differs.
    let mut run = Run::new(only(|limits| limits.evidence_repeats = Limit::after(1)));
    for turn in 0..2 {
        run.one("a", 1, output(json!({"status": "open", "at": turn})));
        run.one("b", 1, output(json!(turn)));
    }
    assert_eq!(run.stopped("a", 1), ["evidence_repeats"]);
}

#[test]
fn a_direct_repetition_is_the_business_of_its_own_budget() {
    let mut run = Run::new(only(|limits| limits.evidence_repeats = Limit::after(1)));
    for _ in 0..6 {
        assert_eq!(run.stopped("a", 1), [""; 0]);
        assert_eq!(run.read("a").evidence_repeats, 0);
    }
}

#[test]
fn what_is_outside_the_window_is_forgotten() {
    let limits = only(|limits| (limits.window, limits.evidence_repeats) = (3, Limit::after(1)));
    let mut run = Run::new(limits);
    for _ in 0..4 {
        for tool in ["a", "b", "c"] {
            assert_eq!(run.stopped(tool, 1), [""; 0]);
            run.read(tool);
        }
    }
    let wide = only(|limits| (limits.window, limits.evidence_repeats) = (4, Limit::after(1)));
    let mut run = Run::new(wide);
    ["a", "b", "c", "a"].iter().for_each(|tool| drop(run.read(tool)));
    assert_eq!(run.stopped("a", 1), [""; 0], "that would be a direct repetition");
    assert_eq!(run.stopped("b", 1), [""; 0]);
    let mut run = Run::new(wide);
    ["a", "b", "a", "c"].iter().for_each(|tool| drop(run.read(tool)));
    assert_eq!(run.stopped("a", 1), ["evidence_repeats"]);
}

#[test]
fn a_plan_that_comes_back_after_a_poll_is_seen() {
    let mut run = Run::new(only(|limits| limits.evidence_repeats = Limit::after(1)));
    for _ in 0..2 {
        assert_eq!(run.stopped("a", 1), [""; 0]);
        run.read("a");
        run.read("poll");
    }
    assert_eq!(run.stopped("a", 1), ["evidence_repeats"]);
}

#[test]
fn turns_that_bring_nothing_new_are_counted_until_one_does() {
    let mut run = Run::new(only(|limits| limits.no_state_delta = Limit::after(2)));
    let none = || output(json!([]));
    let first = run.one("search", 1, none());
    assert_eq!((first.new_results, first.no_state_delta), (1, 0));
    let second = run.one("search", 2, none());
    assert_eq!((second.new_results, second.no_state_delta), (0, 1), "another question, the same answer");
    assert_eq!(run.stopped("search", 3), [""; 0]);
    assert_eq!(run.one("search", 3, none()).no_state_delta, 2);
    assert_eq!(run.stopped("search", 4), ["no_state_delta"]);
    assert_eq!(run.one("search", 4, output(json!([7]))).no_state_delta, 0);
    assert_eq!(run.stopped("search", 5), [""; 0]);
    assert_eq!(run.one("other", 1, none()).new_results, 1, "another tool's answer is another result");
    assert_eq!(run.one("other", 1, failure(ErrorClass::NotFound)).new_results, 1);
    assert_eq!(run.one("other", 1, failure(ErrorClass::NotFound)).new_results, 0);
    assert_eq!(run.one("other", 1, output(json!("not_found"))).new_results, 1, "an output is no error");
}

#[test]
fn an_effect_that_is_committed_is_a_delta_and_one_that_is_given_again_is_none() {
    let mut run = Run::new(only(|_| {}));
    let committed = |attempts| {
        let effect_status = Some(EffectStatus::Committed);
        CallOutcome { attempts, effect_status, ..output(json!({"ok": true})) }
    };
    let turn = run.one("refund", 1, committed(1));
    assert_eq!((turn.effects_committed, turn.new_results, turn.no_state_delta), (1, 1, 0));
    let turn = run.one("refund", 2, committed(2));
    assert_eq!((turn.effects_committed, turn.new_results, turn.no_state_delta), (1, 0, 0));
    let turn = run.one("refund", 2, committed(0));
    assert_eq!((turn.effects_committed, turn.no_state_delta), (0, 1), "the recorded outcome");
    let prepared = CallOutcome { effect_status: Some(EffectStatus::Rejected), ..failure(ErrorClass::BusinessRejected) };
    assert_eq!(run.one("refund", 3, prepared).effects_committed, 0);
}

#[test]
fn remembered_results_are_bounded_and_the_oldest_is_forgotten_first() {
    let mut run = Run::new(only(|_| {}));
    let most = u32::try_from(MAX_EVIDENCE).unwrap();
    (0..most).for_each(|n| assert_eq!(run.one("a", n, output(json!(n))).new_results, 1));
    assert_eq!(run.one("a", 0, output(json!(0))).new_results, 0, "seen, and so the newest again");
    assert_eq!(run.one("a", most, output(json!(most))).new_results, 1);
    assert_eq!(run.0.evidence.len(), MAX_EVIDENCE);
    assert_eq!(run.one("a", 0, output(json!(0))).new_results, 0);
    assert_eq!(run.one("a", 1, output(json!(1))).new_results, 1, "forgotten");
}

#[test]
fn a_polling_plan_is_exempt_from_every_signal() {
    let mut run = Run::new(only(|limits| {
        let one = Limit::after(1);
        *limits = ProgressLimits {
            window: 8,
            evidence_repeats: one,
            no_state_delta: one,
            unmet_goal_predicates: one,
            error_cycle: one,
        };
    }));
    let calls = [call("poll_job", json!({})), call("poll_page", json!({}))];
    for _ in 0..5 {
        let turn = run.turn(&calls, &[failure(ErrorClass::Unavailable), output(json!("pending"))]);
        assert_eq!((turn.repeated_plan, turn.evidence_repeats, turn.no_state_delta, turn.error_cycle), (0, 0, 0, 0));
        assert_eq!(run.stopped_by(&calls, 0), [""; 0]);
    }
    // Polling raises no signal and hides none: a standing one stops other plans, and new evidence ends it.
    run.read("a");
    run.one("b", 1, output(json!("b")));
    assert_eq!(run.one("b", 2, output(json!("b"))).no_state_delta, 1);
    assert_eq!(run.turn(&calls, &[failure(ErrorClass::Unavailable), output(json!("pending"))]).no_state_delta, 1);
    assert_eq!((run.stopped("b", 3), run.stopped_by(&calls, 0)), (vec!["no_state_delta".to_owned()], vec![]));
    assert_eq!(run.turn(&calls, &[failure(ErrorClass::Unavailable), output(json!("done"))]).no_state_delta, 0);
    // One call that does not poll makes it a plan like any other, and its own errors count.
    let mixed = [call("poll_job", json!({})), call("save", json!({}))];
    run.turn(&mixed, &[failure(ErrorClass::Unavailable), failure(ErrorClass::Conflict)]);
    assert_eq!(run.0.errors.len(), 1);
    assert_eq!(run.stopped_by(&mixed, 0), ["repeated_plan", "error_cycle"]);
}

#[test]
fn a_turn_without_a_plan_moves_nothing() {
    let mut run = Run::new(only(|_| {}));
    run.read("a");
    run.one("a", 2, output(json!("a")));
    let answer = AcceptedDecision::Final { answer: json!(1) };
    let (next, turn) = run.0.after(None, &answer, &[]);
    assert_eq!(next, run.0);
    assert_eq!((turn.no_state_delta, turn.new_results, turn.repeated_plan), (1, 0, 0));
    let question = AcceptedDecision::Clarification { question: "which?".into() };
    let (next, turn) = run.0.after(None, &question, &[]);
    assert_eq!((turn.no_state_delta, next.last_plan), (0, run.0.last_plan), "what a person answers is new");
}
