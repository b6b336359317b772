//! Turns: decisions, batches, results, repairs.

use std::path::Path;
use std::sync::Arc;

use chassis::Clock;
use chassis::registry::Registry;
use decision::ScriptedProvider;
use protocol::{CallResult, ErrorClass, Fact, FindingCode, MixedBatches, TerminalReason};
use reconciler::{OwnerQuery, OwnerReply, Question};
use serde_json::{Value, json};
use tool_executor::LookupTransport;
use turnwright_tests::sim::{Edges, Pipeline, SimClock};

use crate::stage::*;

#[test]
fn a_direct_answer_takes_one_step_and_no_call() {
    let world = World::echoing();
    let scenario = "runs: [{steps: [{step: 1, decision: {kind: final, answer: {sum: 42}}}]}]";
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!((ended.reason, ended.resumable), (TerminalReason::Completed, false));
    assert_eq!(ended.answer, Some(json!({"sum": 42})));
    assert_eq!((ended.spent.steps, ended.spent.tool_calls), (1, 0));
    assert_eq!(facts(&events(&pipeline, id(1))), ["admitted", "turn_committed", "ended"]);
    assert!(world.called().is_empty() && pipeline.seen().dead_letters().is_empty());
}

#[test]
fn one_valid_call_is_committed_before_the_model_is_asked_again() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 1}}]}
      - {step: 2, decision: {kind: final, answer: "{x.output.echo.n}"}}
"#;
    let world = World::echoing();
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!(1))));
    let events = events(&pipeline, id(1));
    let expected =
        ["admitted", "turn_planned", "wave_released", "call_settled", "turn_committed", "turn_committed", "ended"];
    assert_eq!(facts(&events), expected);
    let asked = world.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].basis, events[4].basis(), "the second question rests on the first turn's commit");
    assert_eq!(asked[1].context.turns[0].results.len(), 1);
}

#[test]
fn a_final_answer_that_fails_its_schema_is_repaired_once_and_then_ends_the_run() {
    let scenario = |second: &str| {
        format!(
            r#"
runs:
  - steps:
      - {{step: 1, decision: {{kind: final, answer: {{sum: many}}}}}}
      - {{step: 1, round: 1, decision: {{kind: final, answer: {{sum: {second}}}}}}}
"#
        )
    };
    let ends = |second| {
        let mut pipeline = pipeline(&scenario(second), &World::echoing());
        let mut asked = request(1);
        asked.output_schema = Some(json!({"type": "object", "properties": {"sum": {"type": "integer"}}}));
        let ended = run(&mut pipeline, &asked);
        let codes = events(&pipeline, id(1)).into_iter().filter_map(|event| match event.fact {
            Fact::DecisionRejected { findings, .. } => Some(findings[0].code),
            _ => None,
        });
        (ended.reason, ended.answer, codes.collect::<Vec<_>>())
    };
    let invalid = FindingCode::InvalidAnswer;
    assert_eq!(ends("42"), (TerminalReason::Completed, Some(json!({"sum": 42})), vec![invalid]));
    assert_eq!(ends("more"), (TerminalReason::InvalidDecision, None, vec![invalid, invalid]));
}

#[test]
fn a_call_waits_for_what_it_conflicts_with_and_is_skipped_when_that_fails() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: refund, arguments: {n: 7}}
            - {call_id: y, tool_name: read_order, arguments: {n: 7}}
            - {call_id: z, tool_name: read_order, arguments: {n: 8}}
      - {step: 2, decision: {kind: final, answer: "{x.error.class} {y.error.class} {z.output.ok}"}}
"#;
    let world = World::new(|request| match request.tool.name.as_str() {
        "refund" => (100, answered(422, json!({"outcome": "rejected"}))),
        _ => (10, answered(200, json!({"ok": true}))),
    });
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.answer, Some(json!("business_rejected skipped true")));
    let mut called = world.called();
    called.sort();
    assert_eq!(called, ["read_order", "refund"], "the read of order 7 was never made");
}

const THREE_READS: &str = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: a, arguments: {n: 1}}
            - {call_id: y, tool_name: b, arguments: {n: 2}}
            - {call_id: z, tool_name: c, arguments: {n: 3}}
      - step: 2
        decision: {kind: final, answer: "{x.output.echo.n}{y.output.echo.n}{z.output.echo.n}"}
"#;

#[test]
fn results_keep_the_proposals_order_when_the_first_tool_is_delayed() {
    let world = World::new(|request| {
        let delay_ms = match request.tool.name.as_str() {
            "a" => 900,
            "b" => 100,
            _ => 500,
        };
        (delay_ms, answered(200, json!({"echo": request.arguments})))
    });
    let mut pipeline = pipeline(THREE_READS, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.answer, Some(json!("123")));
    let events = events(&pipeline, id(1));
    let settled = events.iter().filter_map(|event| match &event.fact {
        Fact::CallSettled { outcome, .. } => Some(output(&outcome.result)["echo"]["n"].clone()),
        _ => None,
    });
    assert_eq!(settled.collect::<Vec<_>>(), [json!(2), json!(3), json!(1)], "they came back in this order");
    let results = &turns(&events)[0].results;
    assert_eq!(results.iter().map(|result| result.provider_call_id.as_str()).collect::<Vec<_>>(), ["x", "y", "z"]);
    let outputs: Vec<_> = results.iter().map(|result| output(&result.outcome.result)["echo"]["n"].clone()).collect();
    assert_eq!(outputs, [json!(1), json!(2), json!(3)]);
    let waves = events.iter().filter(|event| matches!(event.fact, Fact::WaveReleased { .. })).count();
    assert_eq!(waves, 1, "independent reads are one wave");
}

fn output(result: &CallResult) -> &Value {
    match result {
        CallResult::Output(output) => output,
        CallResult::Error(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_malformed_decision_is_repaired_once() {
    let scenario = r#"
runs:
  - steps:
      - {step: 1, text: "I think I should look at the order first."}
      - {step: 1, round: 1, decision: {kind: final, answer: repaired}}
"#;
    let mut pipeline = pipeline(scenario, &World::echoing());
    let ended = run(&mut pipeline, &request(1));
    assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!("repaired"))));
    let events = events(&pipeline, id(1));
    assert_eq!(facts(&events), ["admitted", "decision_rejected", "turn_committed", "ended"]);
    assert!(matches!(events[1].fact, Fact::DecisionRejected { repair: true, .. }));
    assert_eq!(ended.spent.steps, 1, "a repair is a round of its step");
}

#[test]
fn every_finding_of_a_rejected_batch_is_reported_and_a_second_rejection_ends_the_run() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: nowhere, arguments: {n: 1}}
            - {call_id: x, tool_name: a, arguments: {n: "one", more: true}}
      - {step: 1, round: 1, decision: {kind: tool_calls, calls: []}}
"#;
    let world = World::echoing();
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.reason, TerminalReason::InvalidDecision);
    let events = events(&pipeline, id(1));
    let Fact::DecisionRejected { findings, .. } = &events[1].fact else { panic!("{:?}", events[1]) };
    let codes: Vec<FindingCode> = findings.iter().map(|finding| finding.code).collect();
    for code in [FindingCode::UnknownTool, FindingCode::DuplicateCallId, FindingCode::InvalidArguments] {
        assert!(codes.contains(&code), "{code:?} is missing in {findings:?}");
    }
    assert!(world.called().is_empty(), "nothing of a rejected batch runs");
}

#[test]
fn one_failed_call_leaves_the_others_their_outcomes() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: a, arguments: {n: 1}}
            - {call_id: y, tool_name: b, arguments: {n: 2}}
            - {call_id: z, tool_name: c, arguments: {n: 3}}
      - step: 2
        decision: {kind: final, answer: "{x.output.echo.n} {y.error.class} {z.error.class}"}
"#;
    let world = World::new(|request| match request.tool.name.as_str() {
        "b" => (1, answered(404, json!({}))),
        "c" => (1, answered(503, json!({}))),
        _ => (1, answered(200, json!({"echo": request.arguments}))),
    });
    let mut pipeline = pipeline(scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!(ended.answer, Some(json!("1 not_found unavailable")));
    let expected = [(None, 1), (Some(ErrorClass::NotFound), 1), (Some(ErrorClass::Unavailable), 2)];
    assert_eq!(outcomes(&pipeline), expected, "an absent row is final, an unavailable service is tried again");
    assert_eq!(ended.spent.tool_calls, 4, "a retry is a call, too");
}

struct NoOwner;

#[async_trait::async_trait]
impl OwnerQuery for NoOwner {
    async fn ask(&self, _: &Question<'_>) -> OwnerReply {
        OwnerReply::Unreachable
    }
}

#[test]
fn the_demo_ends_with_its_answer_in_two_steps_and_two_calls() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/examples/demo");
    let registry = Registry::read(&directory).unwrap_or_else(|problems| panic!("{problems}"));
    let scripts = registry.clone();
    let mut pipeline = Pipeline::new(1, registry, |time| {
        let clock: Arc<dyn Clock> = Arc::new(SimClock(time.clone()));
        let model = ScriptedProvider::read(&scripts, clock.clone()).unwrap_or_else(|problems| panic!("{problems}"));
        Edges { model: Arc::new(model), tools: Arc::new(LookupTransport::new(clock)), owners: Arc::new(NoOwner) }
    });
    let mut asked = request(1);
    (asked.tenant, asked.agent) = ("demo".into(), "refund-desk".into());
    let ended = run(&mut pipeline, &asked);
    assert_eq!(ended.reason, TerminalReason::Completed);
    assert_eq!(ended.answer, Some(json!("profile=active; policy=refund-under-100")));
    assert_eq!((ended.spent.steps, ended.spent.tool_calls), (2, 2));
}

#[test]
fn a_call_of_ten_seconds_holds_up_nobody_else() {
    let scenario = r#"
runs:
  - match: slow
    steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 10000}}]}
      - {step: 2, decision: {kind: final, answer: slow}}
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: a, arguments: {n: 1}}]}
      - {step: 2, decision: {kind: final, answer: quick}}
"#;
    let world = World::new(|request| {
        let delay_ms = request.arguments["n"].as_u64().unwrap();
        (delay_ms, answered(200, json!({})))
    });
    let took = |slow: bool| {
        let mut pipeline = pipeline(scenario, &world);
        if slow {
            let mut asked = request(1_000);
            asked.goal = json!("slow");
            pipeline.request(&asked);
            pipeline.run_for(500);
        }
        let took = quick_runs(&mut pipeline);
        if slow {
            assert!(pipeline.seen().terminals(id(1_000)).is_empty(), "the slow call is still running");
            assert_eq!(ended(&mut pipeline, id(1_000)).answer, Some(json!("slow")));
        }
        took
    };
    let (alone, beside) = (took(false), took(true));
    assert!(beside <= 2 * alone + 250, "{alone} ms alone, {beside} ms beside a slow call");
}

#[test]
fn a_profile_that_rejects_mixed_batches_sends_them_back_for_repair() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: refund, arguments: {n: 7}}
            - {call_id: y, tool_name: read_order, arguments: {n: 7}}
      - {step: 1, round: 1, decision: {kind: tool_calls, calls: [{call_id: y, tool_name: read_order, arguments: {n: 7}}]}}
      - {step: 2, decision: {kind: final, answer: done}}
"#;
    let world = World::echoing();
    let mut registry = registry();
    registry.agents.agents[0].mixed_batches = MixedBatches::Reject;
    let mut pipeline = pipeline_with(1, registry, scenario, &world);
    assert_eq!(run(&mut pipeline, &request(1)).reason, TerminalReason::Completed);
    let events = events(&pipeline, id(1));
    let Fact::DecisionRejected { findings, repair: true, .. } = &events[1].fact else { panic!("{:?}", events[1]) };
    assert_eq!((findings[0].code, findings[0].path.as_str()), (FindingCode::PlanRefused, "calls[1]"));
    assert_eq!(world.called(), ["read_order"]);
}
