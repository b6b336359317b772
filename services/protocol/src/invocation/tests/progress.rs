//! Progress as the decider uses it: what is stopped before it runs, by which name, and what an answer has to wait for.

use serde_json::{Value, json};

use super::world::*;
use crate::*;

/// A run under these limits, with these goal predicates.
fn admitted(progress: ProgressLimits, goals: Value) -> World {
    let budget = Budget { max_steps: 20, max_tool_calls: 20, ..budget() };
    let change = |profile: &mut Profile| {
        (profile.budget, profile.ceiling, profile.progress) = (budget, budget, progress);
    };
    admitted_as(change, goals)
}

/// A run under another profile.
pub fn admitted_as(change: impl FnOnce(&mut Profile), goals: Value) -> World {
    let mut asked = serde_json::to_value(request()).unwrap();
    asked["goal_predicates"] = goals;
    let request: Request = serde_json::from_value(asked).unwrap();
    let mut profile = profile();
    change(&mut profile);
    let profile = Some(profile);
    let mut world = World::new();
    let (digest, requested_at) = (request.digest(), world.now);
    let requested = Requested { request, digest, requested_at, profile, horizon_ms: 1_000_000 };
    world.input(Input::Requested(Box::new(requested))).unwrap();
    world
}

fn look(world: &mut World, q: &str, outcome: AttemptOutcome) -> Vec<&'static str> {
    let facts = world.plan(vec![call("a", LOOKUP, json!({"q": q}))]).unwrap();
    if facts.contains(&"turn_planned") {
        let dispatch = world.last_dispatch();
        world.settle(&dispatch, outcome).unwrap();
    }
    facts
}

fn progress(world: &World) -> TurnProgress {
    let turn = world.events.iter().rev().find_map(|event| match &event.fact {
        Fact::TurnCommitted(turn) => Some(turn.progress.clone()),
        _ => None,
    });
    turn.expect("a turn was committed")
}

/// The end, and the signal that its detail names.
fn stopped(world: &World) -> (TerminalReason, String) {
    let end = world.last_end();
    (end.reason, end.detail.split(": ").nth(1).unwrap_or_default().to_owned())
}

fn no_progress(signal: &str) -> (TerminalReason, String) {
    (TerminalReason::NoProgress, signal.to_owned())
}

#[test]
fn a_plan_that_may_not_be_repeated_stops_before_its_second_execution() {
    let mut world = World::new();
    let mut asked = request();
    asked.budget.max_repeated_plan = Some(0);
    world.request(asked).unwrap();
    look(&mut world, "same", ok(json!(1)));
    assert_eq!(look(&mut world, "same", ok(json!(1))), ["decision_rejected", "ended"]);
    assert_eq!((stopped(&world), world.dispatches().len()), (no_progress("repeated_plan"), 1));
}

#[test]
fn a_loop_of_two_plans_is_stopped_and_its_event_counts_what_came_before() {
    let mut world = admitted(ProgressLimits::default(), json!([]));
    for (q, repeats) in [("x", 0), ("y", 0), ("x", 1), ("y", 1)] {
        look(&mut world, q, ok(json!(q)));
        let turn = progress(&world);
        assert_eq!((turn.evidence_repeats, turn.new_results), (repeats, 1 - repeats));
    }
    assert_eq!(progress(&world).no_state_delta, 2);
    assert_eq!(look(&mut world, "x", ok(json!("x"))), ["decision_rejected", "ended"]);
    assert_eq!((stopped(&world), world.dispatches().len()), (no_progress("evidence_repeats"), 4));
    let Fact::DecisionRejected { findings, repair: false, .. } = &world.events[world.events.len() - 2].fact else {
        panic!("the findings are recorded")
    };
    assert_eq!(findings[0].code, FindingCode::NoProgress);
}

#[test]
fn turns_without_a_delta_stop_the_next_plan_and_never_the_answer() {
    let limits = ProgressLimits { no_state_delta: Limit::after(2), ..ProgressLimits::default() };
    let idle = || {
        let mut world = admitted(limits, json!([]));
        for q in ["a", "b", "c"] {
            assert_eq!(look(&mut world, q, ok(json!([]))), ["turn_planned", "wave_released"]);
        }
        world
    };
    let mut world = idle();
    look(&mut world, "d", ok(json!([])));
    assert_eq!((stopped(&world), world.dispatches().len()), (no_progress("no_state_delta"), 3));
    let mut world = idle();
    assert_eq!(world.answer(json!("nothing there")).unwrap(), ["turn_committed", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::Completed);
}

#[test]
fn a_tool_that_keeps_failing_in_one_way_is_not_called_again() {
    let limits = ProgressLimits { error_cycle: Limit::after(2), ..ProgressLimits::default() };
    let mut world = admitted(limits, json!([]));
    for q in ["a", "b"] {
        look(&mut world, q, AttemptOutcome::Failed { error: error(ErrorClass::InvalidArguments) });
    }
    assert_eq!(progress(&world).error_cycle, 2);
    let calls = vec![call("a", "read_order", json!({"order": 1})), call("b", LOOKUP, json!({"q": "c"}))];
    assert_eq!(world.plan(calls).unwrap(), ["decision_rejected", "ended"]);
    assert_eq!((stopped(&world), world.dispatches().len()), (no_progress("error_cycle"), 2));
    assert!(world.last_end().detail.starts_with("calls[1]: "), "{}", world.last_end().detail);
}

#[test]
fn a_polling_tool_may_be_called_until_its_budget_ends() {
    let mut world = admitted(ProgressLimits::default(), json!([]));
    let mut poll = call("a", LOOKUP, json!({"q": "job"}));
    poll.contract.polling = true;
    for _ in 0..20 {
        assert_eq!(world.plan(vec![poll.clone()]).unwrap(), ["turn_planned", "wave_released"]);
        let dispatch = world.last_dispatch();
        world.settle(&dispatch, ok(json!("pending"))).unwrap();
    }
    assert_eq!(world.last_end().reason, TerminalReason::MaxSteps);
}

const PAID: &str = "/refund";

fn paid() -> Value {
    json!([{"name": "paid", "tool": REFUND, "pointer": PAID, "equals": "r1"}])
}

#[test]
fn an_answer_waits_for_the_goal_predicates_and_the_repair_may_meet_them() {
    let mut world = admitted(ProgressLimits::default(), paid());
    assert_eq!(world.answer(json!("paid, I believe")).unwrap(), ["decision_rejected"]);
    let Fact::DecisionRejected { findings, repair: true, .. } = &world.events.last().unwrap().fact else {
        panic!("it may be repaired")
    };
    assert_eq!((findings[0].code, findings[0].path.as_str()), (FindingCode::InvalidAnswer, "answer"));
    assert!(findings[0].message.contains("goal predicate `paid` is not met"), "{}", findings[0].message);
    world.plan(vec![call("a", REFUND, json!({"order": 7}))]).unwrap();
    let dispatch = world.last_dispatch();
    world.claim(&dispatch).unwrap();
    world.settle(&dispatch, committed("r1")).unwrap();
    assert_eq!((progress(&world).goals_met, progress(&world).effects_committed), (vec!["paid".to_owned()], 1));
    assert_eq!(world.answer(json!("paid")).unwrap(), ["turn_committed", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::Completed);
}

#[test]
fn an_answer_that_insists_on_an_unmet_goal_ends_invalid_decision_and_giving_up_does_not() {
    let mut world = admitted(ProgressLimits::default(), paid());
    world.answer(json!("paid")).unwrap();
    assert_eq!(world.answer(json!("paid")).unwrap(), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::InvalidDecision);
    let mut world = admitted(ProgressLimits::default(), paid());
    let decision = AcceptedDecision::CannotContinue { reason: "the bank is closed".into() };
    world.judge(Judgement::Accepted { decision, evidence: evidence() }).unwrap();
    assert_eq!(world.last_end().reason, TerminalReason::CannotContinue);
}

#[test]
fn turns_that_meet_no_goal_are_bounded_where_the_profile_says_so() {
    let limits = ProgressLimits { unmet_goal_predicates: Limit::after(2), ..ProgressLimits::default() };
    let mut world = admitted(limits, paid());
    ["a", "b"].iter().for_each(|q| drop(look(&mut world, q, ok(json!(q)))));
    look(&mut world, "c", ok(json!("c")));
    assert_eq!((stopped(&world), world.dispatches().len()), (no_progress("unmet_goal_predicates"), 2));
    assert!(world.last_end().detail.ends_with("unmet are paid"), "{}", world.last_end().detail);
}

#[test]
fn a_goal_that_no_tool_of_the_run_can_meet_is_an_invalid_request() {
    let world = admitted(ProgressLimits::default(), json!([{"name": "g", "tool": "shell", "exists": true}]));
    let end = world.last_end();
    assert_eq!(end.reason, TerminalReason::InvalidRequest);
    assert!(end.detail.starts_with("goal_predicates[0].tool: `shell`"), "{}", end.detail);
}
