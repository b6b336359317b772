//! The log is enough: what the `events` topic says is what the store has.

use protocol::{Invocation, Tenant, apply};
use serde_json::json;

use crate::stage::*;

#[test]
fn a_replay_of_the_events_topic_gives_the_stored_state() {
    let scenario = r#"
runs:
  - steps:
      - step: 1
        decision:
          kind: tool_calls
          calls:
            - {call_id: x, tool_name: read_order, arguments: {n: 7}}
            - {call_id: y, tool_name: refund, arguments: {n: 7}}
      - {step: 2, text: "no decision"}
      - {step: 2, round: 1, decision: {kind: final, answer: done}}
"#;
    let world = World::new(|request| (20, answered(200, json!({"effect_id": "r-1", "echo": request.arguments}))));
    for seed in 1..=5 {
        let mut pipeline = pipeline_with(seed, registry(), scenario, &world);
        for n in 1..=8 {
            pipeline.request(&request(n));
        }
        for n in 1..=8 {
            ended(&mut pipeline, id(n));
            let tenant = Tenant(TENANT.to_owned());
            let log = pipeline.seen().log(id(n));
            assert_eq!(log, pipeline.stored(&tenant, id(n)), "every event is on the topic, in order");
            let replayed = log.iter().fold(Invocation::absent(tenant.clone(), id(n)), |state, event| {
                assert!(event.is_authentic() && event.previous == state.head, "the chain holds");
                apply(state, event).unwrap_or_else(|error| panic!("version {}: {error}", event.version))
            });
            let stored = pipeline.snapshot(&tenant, id(n));
            assert_eq!(json!(replayed), json!(stored), "state is a fold over events");
        }
    }
}
