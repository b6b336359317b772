use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use schemas::{DeadLetterCode, Rejection};
use turnwright_chassis::{Beside, Error, Failure, Reply, names};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_goes_to_dead_letters_after_its_tries_and_the_partition_moves_on() {
    let world = World::new(1);
    for value in ["good", "poison", "panics", "better"] {
        world.produce(0, value, value).await;
    }
    let mut config = world.config();
    config.runtime.max_tries = 5;
    let running = world.run(
        config,
        answer(|batch| match text(&batch[0]).as_str() {
            "poison" => Err(Failure::Retry("cannot".to_owned())),
            "panics" => panic!("a bug in a handler"),
            _ => Ok(Reply::default()),
        }),
    );
    world.until_committed(0, 4).await;
    let mut letters: Vec<_> = world.read(LETTERS, 2).await.iter().map(text).collect();
    letters.sort();
    assert_eq!(letters, ["retries_exhausted  5 test", "retries_exhausted  5 test"]);
    assert_eq!(running.handler.values().iter().filter(|v| *v == "poison").count(), 5);
    assert_eq!(running.metrics.total(names::DEAD_LETTERED), 2);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_batch_only_the_record_at_fault_is_dead_lettered() {
    let world = World::new(1);
    let gates = Gates::closed(&["first"]);
    let gated = gates.answer();
    let running = world.run(
        world.config(),
        Box::new(move |batch| {
            let bad = batch.iter().any(|record| text(record) == "bad");
            let handled = gated(batch);
            Box::pin(async move {
                handled.await?;
                if bad {
                    return Err(Failure::Reject(Rejection::new(DeadLetterCode::Malformed, "goal", "not text")));
                }
                Ok(Reply::default())
            })
        }),
    );
    world.produce(0, "a", "first").await;
    running.until("the first", |r| r.handler.saw("first")).await;
    for value in ["second", "bad", "third"] {
        world.produce(0, "a", value).await;
    }
    running.until("all arrived", |r| r.metrics.total(names::CONSUMED) == 4).await;
    gates.open("first");
    world.until_committed(0, 4).await;
    let expected = [vec!["first"], vec!["second", "bad", "third"], vec!["second"], vec!["bad"], vec!["third"]];
    assert_eq!(running.handler.batches(), expected);
    let letters = world.read(LETTERS, 1).await;
    assert_eq!(text(&letters[0]), "malformed goal 1 test");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejection_inside_a_reply_names_its_field_and_keeps_headers() {
    let world = World::new(1);
    world.produce_with(0, "a", b"v", &[("ce_id", "7")]).await;
    let running = world.run(
        world.config(),
        answer(|_| {
            let rejection = Rejection::new(DeadLetterCode::InvalidRequest, "budgets.steps", "must be above zero");
            Ok(Reply { rejected: vec![(0, rejection)], ..Reply::default() })
        }),
    );
    world.until_committed(0, 1).await;
    let letters = world.read(LETTERS, 1).await;
    assert_eq!(text(&letters[0]), "invalid_request budgets.steps 1 test");
    assert_eq!(letters[0].header("ce_id"), Some("7"));
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_dependency_never_dead_letters() {
    let world = World::new(1);
    for n in 0..5 {
        world.produce(0, &format!("k{n}"), "v").await;
    }
    let mut config = world.config();
    config.runtime.max_tries = 2;
    let asked = Arc::new(AtomicU32::new(0));
    let running = world.run(
        config,
        answer(move |_| {
            if asked.fetch_add(1, Ordering::SeqCst) < 100 {
                return Err(Failure::Unavailable("the store is down".to_owned()));
            }
            Ok(Reply::default())
        }),
    );
    world.until_committed(0, 5).await;
    assert_eq!(running.metrics.total(names::DEAD_LETTERED), 0);
    assert!(running.metrics.total(names::RETRIES) >= 100);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fatal_failure_drains_and_ends_with_its_message() {
    let world = World::new(1);
    world.produce(0, "a", "good").await;
    world.produce(0, "b", "fatal").await;
    world.produce(0, "c", "good").await;
    let running = world.run(
        world.config(),
        answer(|batch| match text(&batch[0]).as_str() {
            "fatal" => Err(Failure::Fatal("the store lost data".to_owned())),
            _ => Ok(Reply::default()),
        }),
    );
    let error = running.end().await.unwrap_err();
    assert!(matches!(&error, Error::Fatal(message) if message == "the store lost data"), "{error}");
    assert_eq!(world.committed(0).await, Some(1), "nothing behind the fatal record is committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_context_passes_through_to_replies_and_dead_letters() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let world = World::new(1);
    world.produce_with(0, "a", b"speaks", &[("traceparent", PARENT), ("tracestate", "v=1")]).await;
    world.produce_with(0, "b", b"bad", &[("traceparent", PARENT)]).await;
    let running = world.run(
        world.config(),
        answer(|batch| match text(&batch[0]).as_str() {
            "bad" => Err(Failure::Reject(Rejection::new(DeadLetterCode::Malformed, "", "bad"))),
            value => Ok(Reply { publish: vec![output(value)], ..Reply::default() }),
        }),
    );
    let replies = world.read(OUTPUT, 1).await;
    // The trace's ID stays; the parent may be a span of ours.
    assert_eq!(replies[0].header("traceparent").map(|v| v[3..35].to_owned()), Some(PARENT[3..35].to_owned()));
    assert_eq!(replies[0].header("tracestate"), Some("v=1"));
    let letters = world.read(LETTERS, 1).await;
    assert!(letters[0].header("traceparent").is_some());
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_beside_publishing_holds_the_offset_and_a_failure_hands_the_record_over_again() {
    let world = World::new(1);
    world.produce(0, "a", "first").await;
    let times = Arc::new(AtomicU32::new(0));
    let counted = times.clone();
    let running = world.run(
        world.config(),
        answer(move |batch| {
            let time = counted.fetch_add(1, Ordering::SeqCst);
            let beside = async move {
                match time {
                    0 => Err(Failure::Unavailable("the store is away".to_owned())),
                    1 => panic!("a bug beside"),
                    _ => Ok(()),
                }
            };
            let publish = vec![output(&format!("{}-{time}", text(&batch[0])))];
            Ok(Reply { publish, beside: vec![Beside(Box::pin(beside))], ..Reply::default() })
        }),
    );
    world.until_committed(0, 1).await;
    assert_eq!(times.load(Ordering::SeqCst), 3, "handled until what goes beside was done");
    let published: Vec<_> = world.read(OUTPUT, 3).await.iter().map(text).collect();
    assert_eq!(published, ["first-0", "first-1", "first-2"], "publishing does not wait for it");
    running.stop().await.unwrap();
}
