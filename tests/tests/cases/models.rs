//! Models that are slow, and histories that are long.

use protocol::TerminalReason;
use schemas::Topic;
use serde_json::json;

use crate::stage::*;

/// One slow model call stalls every key on its worker.
#[test]
fn a_slow_model_call_holds_up_nobody_else() {
    let scenario = r#"
runs:
  - match: slow
    steps: [{step: 1, decision: {kind: final, answer: slow}, delay_ms: 30000}]
  - steps: [{step: 1, decision: {kind: final, answer: quick}, delay_ms: 100}]
"#;
    let mut pipeline = pipeline(scenario, &World::echoing());
    let mut slow = request(1_000);
    slow.goal = json!("slow");
    pipeline.request(&slow);
    pipeline.run_for(500);
    let took = quick_runs(&mut pipeline);
    assert!(took < 2_000, "they took {took} ms beside a model call of 30 s");
    assert!(pipeline.seen().terminals(id(1_000)).is_empty(), "which is still running");
    assert_eq!(ended(&mut pipeline, id(1_000)).answer, Some(json!("slow")));
}

/// A model turn outlives the queue's redelivery window: it is billed twice, and the loser overwrites the terminal record.
#[test]
fn a_turn_that_is_delivered_again_while_the_model_thinks_is_asked_once() {
    let scenario = "runs: [{steps: [{step: 1, decision: {kind: final, answer: done}, delay_ms: 20000}]}]";
    let world = World::echoing();
    let mut pipeline = pipeline(scenario, &world);
    pipeline.request(&request(1));
    for _ in 0..5 {
        pipeline.run_for(3_000);
        pipeline.redeliver(Topic::Turns);
    }
    let ended = ended(&mut pipeline, id(1));
    assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!("done"))));
    assert_eq!(world.asked().len(), 1);
    // Its answer was journaled: what is redelivered after it is answered with the same.
    pipeline.redeliver(Topic::Turns);
    pipeline.redeliver(Topic::Decisions);
    pipeline.redeliver(Topic::Verdicts);
    pipeline.run_for(60_000);
    assert_eq!(world.asked().len(), 1);
    assert_eq!(pipeline.seen().terminals(id(1)).len(), 1, "the first terminal event stands");
}

/// The process that asked the model dies after the answer is stored: the stored answer is used, and the model is not asked
/// again.
#[test]
fn an_answer_that_is_journaled_survives_the_process_that_asked() {
    let scenario = "runs: [{steps: [{step: 1, decision: {kind: final, answer: done}, delay_ms: 1000}]}]";
    let (mut point, mut most) = (0, 0);
    loop {
        point += 1;
        let world = World::echoing();
        let mut pipeline = pipeline(scenario, &world);
        pipeline.crash_at(point);
        let ended = run(&mut pipeline, &request(1));
        assert_eq!((ended.reason, ended.answer), (TerminalReason::Completed, Some(json!("done"))), "point {point}");
        most = most.max(world.asked().len());
        if pipeline.crashes() == 0 {
            break;
        }
        let turns = facts(&events(&pipeline, id(1)));
        assert_eq!(turns, ["admitted", "turn_committed", "ended"], "point {point}: one answer counts");
    }
    assert_eq!(most, 2, "it is asked again only where nothing was stored yet");
}

/// A long chat of large tool outputs kills the run with its own history.
#[test]
fn a_long_run_of_large_outputs_does_not_die_of_its_own_history() {
    let steps: Vec<String> = (1..=8)
        .map(|n| {
            let call = |i: u32| format!("{{call_id: x{i}, tool_name: a, arguments: {{n: {}}}}}", 10 * n + i);
            let calls: Vec<_> = (0..4).map(call).collect();
            format!("      - {{step: {n}, decision: {{kind: tool_calls, calls: [{}]}}}}", calls.join(", "))
        })
        .collect();
    let scenario = format!(
        "runs:\n  - steps:\n{}\n      - {{step: 9, decision: {{kind: final, answer: done}}}}\n",
        steps.join("\n")
    );
    let world = World::new(|call| (1, answered(200, json!({"of": call.arguments, "text": "x".repeat(15_000)}))));
    let mut pipeline = pipeline(&scenario, &world);
    let ended = run(&mut pipeline, &request(1));
    assert_eq!((ended.reason, ended.spent.steps), (TerminalReason::Completed, 9), "{ended:?}");
    let requests = world.asked();
    let last = requests.last().unwrap();
    assert!(last.context.omitted_turns > 0, "the oldest turns are left out, and the model is told so");
    let bytes = serde_json::to_vec(&last.context).unwrap().len();
    assert!(bytes < 300_000, "a context of {bytes} bytes");
}
