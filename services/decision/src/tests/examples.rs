//! The examples that the repository ships load, and their scenarios play to the end.

use std::path::Path;
use std::sync::Arc;

use chassis::Handler;
use chassis::registry::Registry;
use futures::executor::block_on;
use protocol::{AttemptOutcome, Decision, JsonLimits, ModelAnswer};
use serde_json::{Value, json};

use super::world::*;
use crate::ScriptedProvider;

fn example(name: &str) -> Arc<Registry> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/examples").join(name);
    Registry::read(&directory).unwrap_or_else(|problems| panic!("{problems}"))
}

fn provider(registry: &Registry) -> Arc<ScriptedProvider> {
    let provider = ScriptedProvider::read(registry, Arc::new(JumpingClock::default()));
    Arc::new(provider.unwrap_or_else(|problems| panic!("{problems}")))
}

fn decide(world: &World, provider: &Arc<ScriptedProvider>) -> Decision {
    let record = world.record(&world.turn());
    let mut reply = block_on(world.handler_with(provider.clone()).handle(&[record])).unwrap();
    assert_eq!(reply.rejected, []);
    match world.decoded(reply.publish.remove(0)).answer {
        ModelAnswer::Proposed { body, .. } => Decision::parse(&body, JsonLimits::default()).unwrap(),
        ModelAnswer::Failed { message } => panic!("{message}"),
    }
}

fn read(id: &str) -> AttemptOutcome {
    ok(match id {
        "c1" => json!({"status": "active", "orders": 3}),
        _ => json!({"rule": "refund-under-100"}),
    })
}

fn last(world: &World, provider: &Arc<ScriptedProvider>) -> Value {
    match decide(world, provider) {
        Decision::Final { answer } => answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_demo_reads_twice_in_parallel_and_gives_its_answer() {
    let registry = example("demo");
    let provider = provider(&registry);
    let world = World::of(registry, "refund-desk", json!("May order 7 of customer c-1001 be refunded?"));
    let Decision::ToolCalls { calls } = decide(&world, &provider) else { panic!("calls") };
    assert_eq!(calls.iter().map(|call| call.tool.as_str()).collect::<Vec<_>>(), ["customer_profile", "refund_policy"]);
    for call in &calls {
        let chassis::registry::ToolKind::Lookup { argument, rows, .. } = &world.registry.tool(&call.tool).unwrap().run
        else {
            panic!("a lookup")
        };
        let row = &rows[call.arguments[argument].as_str().unwrap()];
        assert!(row["status"] == "active" || row["rule"] == "refund-under-100", "{row}");
    }
    world.run_proposed(calls, read);
    assert_eq!(last(&world, &provider), json!("profile=active; policy=refund-under-100"));
}

#[test]
fn the_demos_slow_run_calls_the_slow_tool() {
    let registry = example("demo");
    let provider = provider(&registry);
    let world = World::of(registry, "refund-desk", json!("a slow one"));
    let Decision::ToolCalls { calls } = decide(&world, &provider) else { panic!("calls") };
    assert_eq!(calls[0].tool.as_str(), "slow_lookup");
    world.run_proposed(calls, read);
    assert_eq!(last(&world, &provider), json!("orders=3"));
}

#[test]
fn the_benchmark_loads_and_starts_with_two_reads() {
    let registry = example("bench");
    let provider = provider(&registry);
    let incr = registry.tool(&"incr".into()).unwrap();
    assert_eq!(incr.effect.as_ref().unwrap().key, protocol::EffectKeyRule::PerInvocation);
    let world = World::of(registry.clone(), "lookup-3", json!("go"));
    let Decision::ToolCalls { calls } = decide(&world, &provider) else { panic!("calls") };
    assert_eq!(calls.len(), 2);
    world.run_proposed(calls, read);
    assert!(matches!(decide(&world, &provider), Decision::ToolCalls { calls } if calls[0].tool.as_str() == "incr"));
}
