//! No progress, and goals: what is stopped before it runs, and what an answer has to wait for.

use chassis::registry::Registry;
use protocol::{
    BudgetRequest, Event, Fact, FindingCode, GoalPredicate, Limit, Request, RunEnded, TerminalReason, TurnProgress,
};
use schemas::{DeadLetterCode, Topic};
use serde_json::{Value, json};

use crate::stage::*;

/// A decision of one read.
pub fn read(tool: &str, n: usize) -> Value {
    json!({"kind": "tool_calls", "calls": [{"call_id": "x", "tool_name": tool, "arguments": {"n": n}}]})
}

pub fn answer() -> Value {
    json!({"kind": "final", "answer": "done"})
}

/// A scenario of one run: these decisions, one per step.
pub fn script(decisions: &[Value]) -> String {
    let steps = decisions.iter().enumerate().map(|(i, decision)| json!({"step": i + 1, "decision": decision}));
    json!({"runs": [{"steps": steps.collect::<Vec<_>>()}]}).to_string()
}

fn play(registry: Registry, scenario: &str, world: &World, asked: &Request) -> (RunEnded, Vec<Event>) {
    let mut pipeline = pipeline_with(1, registry, scenario, world);
    let ended = run(&mut pipeline, asked);
    (ended, events(&pipeline, asked.invocation_id))
}

/// How a run of these decisions ends, and how many calls were made.
fn ends(registry: Registry, decisions: &[Value], world: &World) -> (TerminalReason, String, usize) {
    let (ended, _) = play(registry, &script(decisions), world, &request(1));
    (ended.reason, signal(&ended), world.called().len())
}

/// The signal that the detail of an end names; nothing for another end.
fn signal(ended: &RunEnded) -> String {
    ended.detail.split(": ").nth(1).unwrap_or_default().to_owned()
}

fn no_progress(signal: &str, calls: usize) -> (TerminalReason, String, usize) {
    (TerminalReason::NoProgress, signal.to_owned(), calls)
}

fn progress(events: &[Event]) -> Vec<&TurnProgress> {
    turns(events).into_iter().map(|turn| &turn.progress).collect()
}

#[test]
fn a_repeated_plan_stops_before_its_second_execution() {
    let world = World::echoing();
    let mut asked = request(1);
    asked.budget = BudgetRequest { max_repeated_plan: Some(0), ..BudgetRequest::default() };
    let scenario = script(&[read("a", 1), read("a", 1), answer()]);
    let (ended, events) = play(registry(), &scenario, &world, &asked);
    assert_eq!((ended.reason, signal(&ended), world.called().len()), no_progress("repeated_plan", 1));
    let [.., rejected, end] = &events[..] else { panic!("{:?}", facts(&events)) };
    assert_eq!(end.fact.name(), "ended");
    let Fact::DecisionRejected { findings, repair: false, .. } = &rejected.fact else { panic!("{rejected:?}") };
    assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [FindingCode::NoProgress]);
}

#[test]
fn a_loop_of_two_alternating_plans_ends_no_progress() {
    let world = World::echoing();
    let decisions: Vec<Value> = (0..12).map(|i| read(["a", "b"][i % 2], 1)).collect();
    let (ended, events) = play(registry(), &script(&decisions), &world, &request(1));
    assert_eq!((ended.reason, signal(&ended), world.called().len()), no_progress("evidence_repeats", 4));
    let counted: Vec<_> = progress(&events).iter().map(|turn| (turn.evidence_repeats, turn.new_results)).collect();
    assert_eq!(counted, [(0, 1), (0, 1), (1, 0), (1, 0)], "each turn's event says where the signal stands");
}

#[test]
fn a_polling_tool_is_exempt_by_declaration_and_only_so() {
    let waits = || {
        let asked = std::sync::atomic::AtomicU32::new(0);
        World::new(move |_| {
            let n = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (10, answered(200, json!({"state": if n < 8 { "running" } else { "finished" }})))
        })
    };
    let mut decisions = vec![read("a", 1); 9];
    decisions.push(json!({"kind": "final", "answer": "{x.output.state}"}));
    let mut declared = registry();
    declared.tools.tools[0].polling = true;
    let world = waits();
    let (ended, _) = play(declared, &script(&decisions), &world, &request(1));
    assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!("finished"))));
    assert_eq!(world.called().len(), 9);
    assert_eq!(ends(registry(), &decisions, &waits()), no_progress("repeated_plan", 2));
}

#[test]
fn turns_that_bring_nothing_new_stop_the_next_plan_where_the_profile_says_so() {
    let decisions: Vec<Value> = (1..9).map(|n| read("a", n)).chain([answer()]).collect();
    let empty = || World::new(|_| (1, answered(200, json!({"rows": []}))));
    let with = |limit| {
        let mut registry = registry();
        registry.agents.agents[0].progress.no_state_delta = limit;
        registry
    };
    assert_eq!(ends(with(Limit::after(3)), &decisions, &empty()), no_progress("no_state_delta", 4));
    assert_eq!(ends(with(Limit::Off), &decisions, &empty()).0, TerminalReason::Completed);
}

#[test]
fn a_time_that_is_declared_volatile_does_not_pass_for_news() {
    let clock = || {
        let ticks = std::sync::atomic::AtomicU32::new(0);
        World::new(move |_| {
            let now = ticks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (1, answered(200, json!({"rows": [], "now": now})))
        })
    };
    let decisions: Vec<Value> = (1..9).map(|n| read("a", n)).chain([answer()]).collect();
    let mut declared = registry();
    declared.tools.tools[0].volatile = vec!["now".to_owned()];
    assert_eq!(ends(declared, &decisions, &clock()), no_progress("no_state_delta", 7));
    assert_eq!(ends(registry(), &decisions, &clock()).0, TerminalReason::Completed);
}

#[test]
fn a_tool_that_fails_the_same_way_again_after_every_fix_is_not_called_again() {
    let world = World::new(|request| match request.tool.name.as_str() {
        "a" => (1, answered(404, json!({}))),
        _ => (1, answered(200, json!({"echo": request.arguments}))),
    });
    let decisions: Vec<Value> = (0..12).map(|i| read(["a", "b"][i % 2], i)).collect();
    let (ended, events) = play(registry(), &script(&decisions), &world, &request(1));
    assert_eq!((ended.reason, signal(&ended)), (TerminalReason::NoProgress, "error_cycle".to_owned()));
    assert_eq!(world.called().iter().filter(|tool| *tool == "a").count(), 4);
    assert_eq!(progress(&events).last().unwrap().error_cycle, 4);
    assert!(ended.detail.contains("not_found"), "{}", ended.detail);
}

fn paid() -> GoalPredicate {
    serde_json::from_value(json!({"name": "paid", "tool": "refund", "pointer": "/status", "equals": "ok"})).unwrap()
}

fn pays() -> World {
    World::new(|_| (10, answered(200, json!({"effect_id": "r-1", "status": "ok"}))))
}

/// The model answers at once, and whatever `repair` says when it is told what is missing.
fn hasty(repair: &Value) -> String {
    let steps = [
        json!({"step": 1, "decision": answer()}),
        json!({"step": 1, "round": 1, "decision": repair}),
        json!({"step": 2, "decision": answer()}),
    ];
    json!({"runs": [{"steps": steps}]}).to_string()
}

#[test]
fn an_answer_with_an_unmet_goal_is_sent_back_and_taken_once_the_goal_is_met() {
    let mut asked = request(1);
    asked.goal_predicates = vec![paid()];
    let world = pays();
    let (ended, events) = play(registry(), &hasty(&read("refund", 7)), &world, &asked);
    assert_eq!((ended.reason, world.called().len()), (TerminalReason::Completed, 1));
    let Fact::DecisionRejected { findings, repair: true, .. } = &events[1].fact else { panic!("{:?}", events[1]) };
    assert_eq!((findings[0].code, findings[0].path.as_str()), (FindingCode::InvalidAnswer, "answer"));
    assert!(findings[0].message.contains("`paid` is not met"), "{}", findings[0].message);
    let turn = progress(&events)[0];
    assert_eq!((turn.goals_met.clone(), turn.effects_committed), (vec!["paid".to_owned()], 1));
}

#[test]
fn an_answer_that_insists_on_an_unmet_goal_ends_invalid_decision() {
    let mut asked = request(1);
    asked.goal_predicates = vec![paid()];
    let world = pays();
    let (ended, _) = play(registry(), &hasty(&answer()), &world, &asked);
    assert_eq!((ended.reason, world.called().len()), (TerminalReason::InvalidDecision, 0));
    assert!(ended.detail.contains("`paid` is not met"), "{}", ended.detail);
}

#[test]
fn turns_that_meet_no_goal_are_bounded_where_the_profile_says_so() {
    let mut limited = registry();
    limited.agents.agents[0].progress.unmet_goal_predicates = Limit::after(2);
    let mut asked = request(1);
    asked.goal_predicates = vec![paid()];
    let world = World::echoing();
    let scenario = script(&[read("a", 1), read("a", 2), read("a", 3), answer()]);
    let (ended, events) = play(limited, &scenario, &world, &asked);
    assert_eq!((ended.reason, signal(&ended), world.called().len()), no_progress("unmet_goal_predicates", 2));
    assert_eq!(progress(&events).last().unwrap().unmet_goal_predicates, 2);
}

#[test]
fn a_goal_predicate_that_cannot_be_used_is_refused_by_the_name_of_its_field() {
    let mut pipeline = pipeline(&script(&[answer()]), &World::echoing());
    let mut asked = json!({"tenant": TENANT, "actor": "ada", "task_type": "test", "agent": AGENT, "goal": "do it"});
    asked["goal_predicates"] = json!([{"name": "g", "tool": "a", "pointer": "status", "exists": true}]);
    pipeline.produce(Topic::Invocations, &id(1).to_string(), asked.to_string());
    pipeline.run_for(1_000);
    let letters = pipeline.seen().dead_letters();
    let found: Vec<_> = letters.iter().map(|letter| (letter.rejection.code, letter.rejection.field.as_str())).collect();
    assert_eq!(found, [(DeadLetterCode::InvalidRequest, "goal_predicates[0].pointer")]);
    // A tool that the run does not have is known only when the agent's profile is.
    let mut asked = request(2);
    asked.goal_predicates = vec![GoalPredicate { tool: "shell".into(), ..paid() }];
    let ended = run(&mut pipeline, &asked);
    assert_eq!(ended.reason, TerminalReason::InvalidRequest);
    assert!(ended.detail.starts_with("goal_predicates[0].tool: "), "{}", ended.detail);
}
