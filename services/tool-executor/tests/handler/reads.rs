use std::time::Duration;

use protocol::{AttemptOutcome, ErrorClass, Input};
use serde_json::json;
use store::{Entries, Store};
use turnwright_tool_executor::{Answered, Transported, names};

use crate::support::{Seen, World};

fn profile(_: &Seen) -> Option<(Duration, Transported)> {
    Some((Duration::from_millis(5), Transported::Answered(Answered::new(200, r#"{"status":"active"}"#))))
}

#[test]
fn a_read_runs_without_a_claim() {
    let world = World::new(&["profile"]);
    let dispatch = world.planned(&["profile"]);
    world.tool_answers(profile);
    let results = world.handle(&dispatch);
    let output = json!({"status": "active"});
    assert_eq!(results[0].outcome, AttemptOutcome::Succeeded { output, receipt: None });
    assert_eq!(world.tool.seen.lock().unwrap()[0].key, None);
    assert!(world.bus.published.lock().unwrap().is_empty());
    world.decide(Input::CallSettled(Box::new(results[0].clone())));
    assert_eq!(world.handle(&dispatch), [], "settled");
    assert_eq!(world.metrics.total(chassis::names::IGNORED), 1);
}

#[test]
fn a_read_that_runs_past_its_lease_times_out_and_one_that_is_cancelled_says_so() {
    let world = World::new(&["profile"]);
    let dispatch = world.planned(&["profile"]);
    let class = |outcome: &AttemptOutcome| match outcome {
        AttemptOutcome::Failed { error } => error.class,
        other => panic!("{other:?}"),
    };
    assert_eq!(class(&world.handle(&dispatch)[0].outcome), ErrorClass::Timeout);
    let (decider, address) = (world.decider.clone(), world.address());
    world.tool_answers(move |_| {
        let cancel = protocol::Control::Cancel { actor: "ada".into(), reason: "enough".into() };
        futures::executor::block_on(decider.decide(&address, &[Input::Control(cancel)])).unwrap();
        None
    });
    assert_eq!(class(&world.handle(&dispatch)[0].outcome), ErrorClass::Cancelled);
    assert_eq!(world.metrics.total(names::ABORTED), 1);
}

#[test]
fn a_read_of_an_unknown_tool_is_unavailable() {
    let world = World::new(&[]);
    let dispatch = world.planned(&["profile"]);
    let AttemptOutcome::Failed { error } = &world.handle(&dispatch)[0].outcome else { panic!("not a failure") };
    assert_eq!(error.class, ErrorClass::Unavailable);
}

#[test]
fn a_read_of_an_older_epoch_is_dropped() {
    let world = World::new(&["profile"]);
    let dispatch = world.planned(&["profile"]);
    world.tool_answers(profile);
    world.store.raise_epoch(store::Shard(0));
    assert_eq!(world.handle(&dispatch), []);
    assert!(world.tool.seen.lock().unwrap().is_empty());
}

#[test]
fn a_read_that_proves_a_lost_commit_freezes_its_invocation() {
    let (world, amnesiac) = (World::new(&["profile"]), World::new(&["profile"]));
    let dispatch = world.planned(&["profile"]);
    amnesiac.tool_answers(profile);
    assert_eq!(amnesiac.handle(&dispatch), []);
    let loaded = amnesiac.run(amnesiac.store.load(&amnesiac.address(), &Entries::All, None)).unwrap();
    assert!(loaded.frozen.is_some());
    assert!(amnesiac.tool.seen.lock().unwrap().is_empty());
}
