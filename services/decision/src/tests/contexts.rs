use protocol::*;
use serde_json::json;

use super::world::*;
use crate::committed::History;
use crate::{Context, PastOutcome};

fn asked(world: &World) -> Context {
    world.will_say([decision("x")]);
    world.answer(&world.turn());
    world.provider.requests.lock().unwrap().last().unwrap().context.clone()
}

#[test]
fn the_first_turn_shows_prompt_goal_and_tools() {
    let world = World::admitted();
    let context = asked(&world);
    assert_eq!((context.system.as_str(), &context.goal["order"]), ("Be careful.", &json!(7)));
    assert_eq!(context.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["look", "peek"]);
    assert_eq!(
        (context.tools[0].description.as_str(), &context.tools[0].arguments),
        ("Looks.", &json!({"type": "object"}))
    );
    assert!(context.turns.is_empty() && context.findings.is_empty() && context.omitted_turns == 0);
}

#[test]
fn a_later_turn_shows_results_in_proposal_order_with_the_providers_call_ids() {
    let world = World::admitted();
    world.run_calls(&[("a", "look"), ("b", "peek")], |id| match id {
        "a" => ok(json!({"of": "a"})),
        _ => AttemptOutcome::Failed { error: CallError::new(ErrorClass::NotFound, "none") },
    });
    let context = asked(&world);
    let turn = &context.turns[0];
    assert_eq!(turn.step, Step(1));
    let call = json!({"call_id": "a", "tool_name": "look", "arguments": {"q": "a"}});
    assert_eq!(turn.decision["calls"][0], call);
    assert_eq!(turn.results.iter().map(|result| result.call_id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(turn.results[0].outcome, PastOutcome::Output(json!({"of": "a"})));
    let error = PastOutcome::Error { class: ErrorClass::NotFound, message: "none".into() };
    assert_eq!(turn.results[1].outcome, error);
}

#[test]
fn a_repair_shows_the_findings_of_its_step_and_the_next_step_does_not() {
    let world = World::admitted();
    let findings = vec![Finding::new(FindingCode::UnknownTool, "calls[0].tool_name", "no such tool")];
    world.judge(Judgement::Rejected { findings: findings.clone(), evidence: evidence() });
    assert_eq!(world.turn().scope.round, Round(1));
    assert_eq!(asked(&world).findings, findings);
    world.run_calls(&[("a", "look")], |_| ok(json!(1)));
    assert!(asked(&world).findings.is_empty());
}

#[test]
fn a_refused_proposal_is_shown_as_results_and_a_question_with_its_answer() {
    let world = World::admitted();
    let proposed = ProposedCall { provider_call_id: "a".into(), tool: "look".into(), arguments: json!({"q": 1}) };
    let contract = world.registry.tool(&"look".into()).unwrap().contract();
    let calls = vec![AcceptedCall { call: proposed, contract }];
    let decision = AcceptedDecision::RequestApproval { calls };
    world.judge(Judgement::Accepted { decision, evidence: evidence() });
    let proposal_digest = world.proposal().digest;
    let (actor, reason) = ("grace".into(), "not today".into());
    world.input(Input::Control(Control::Reject { actor, proposal_digest, reason }));
    let decision = AcceptedDecision::Clarification { question: "which order?".into() };
    world.judge(Judgement::Accepted { decision, evidence: evidence() });
    world.input(Input::Control(Control::Clarify { actor: "ada".into(), answer: json!({"order": 7}), step: None }));
    let context = asked(&world);
    let message = "a person refused this call: not today".to_owned();
    let refused = PastOutcome::Error { class: ErrorClass::Unauthorized, message };
    assert_eq!(context.turns[0].results[0].outcome, refused);
    assert_eq!(context.turns[1].decision, json!({"kind": "clarification", "question": "which order?"}));
    assert_eq!((context.turns[0].answer.clone(), context.turns[1].answer.clone()), (None, Some(json!({"order": 7}))));
}

#[test]
fn a_context_keeps_the_newest_turns_and_says_how_many_it_leaves_out() {
    let mut world = World::admitted();
    for id in ["a", "b", "c"] {
        world.run_calls(&[(id, "look")], |id| ok(json!(id.repeat(400))));
    }
    world.config.context_bytes = 1_700;
    let context = asked(&world);
    assert_eq!((context.omitted_turns, context.turns.len()), (1, 2));
    assert_eq!(context.turns.iter().map(|turn| turn.step.0).collect::<Vec<_>>(), [2, 3]);
    assert!(canonical(&serde_json::to_value(&context).unwrap()).len() <= 1_700);
}

#[test]
fn of_the_newest_turn_the_largest_outputs_are_left_out_first() {
    let mut world = World::admitted();
    world.run_calls(&[("a", "look"), ("b", "look")], |id| match id {
        "a" => ok(json!("small")),
        _ => ok(json!("x".repeat(5_000))),
    });
    world.config.context_bytes = 2_000;
    let results = asked(&world).turns.remove(0).results;
    assert_eq!(results[0].outcome, PastOutcome::Output(json!("small")));
    assert_eq!(results[1].outcome, PastOutcome::OmittedOutput { bytes: 5_002 });
}

#[test]
fn the_same_history_gives_the_same_digest_and_another_gives_another() {
    let digest = |output: i32| {
        let world = World::admitted();
        world.run_calls(&[("a", "look")], |_| ok(json!(output)));
        asked(&world).digest()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn what_must_hold_before_the_answer_is_shown_from_the_start() {
    let world = World::admitted();
    let turn = world.turn();
    let records = world.store.all_events().remove(&world.address).unwrap();
    let mut events = History::default().extended(&records, turn.scope.basis).unwrap().events;
    let Fact::Admitted(admitted) = &mut events[0].fact else { panic!("admitted") };
    let paid: GoalPredicate = serde_json::from_value(json!({"name": "paid", "tool": "look", "exists": true})).unwrap();
    admitted.request.goal_predicates = vec![paid.clone()];
    let agent = &world.registry.agents.agents[0];
    let context = Context::build(&turn, agent, &world.registry, &events, 10_000).unwrap();
    assert_eq!(context.goal_predicates, [paid]);
}
