use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use turnwright_chassis::{Reply, names};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn back_pressure_pauses_and_resumes_and_loses_nothing() {
    let world = World::new(2);
    let gates = Gates::closed(&["slow"]);
    let mut config = world.config();
    config.runtime.partition_max_records = 10;
    config.runtime.max_in_flight = 4;
    config.runtime.max_batch = 4;
    let running = world.run(config, gates.answer());
    for n in 0..200 {
        let value = if n == 0 { "slow".to_owned() } else { format!("v{n}") };
        // All of partition 0 waits behind one slow key; partition 1 flows.
        let (partition, key) = if n % 2 == 0 { (0, "a".to_owned()) } else { (1, format!("k{n}")) };
        world.produce(partition, &key, &value).await;
    }
    world.until_committed(1, 100).await;
    running.until("a pause", |r| r.metrics.total(names::PAUSES) > 0).await;
    assert!(running.metrics.total(names::CONSUMED) <= 100 + 10 + 1, "the paused partition delivered more");
    gates.open("slow");
    world.until_committed(0, 100).await;
    let mut seen = running.handler.values();
    assert_eq!(seen.len(), 200);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_produce_is_repeated_until_it_is_acknowledged() {
    let world = World::new(1);
    let gates = Gates::closed(&["v"]);
    let gated = gates.answer();
    let running = world.run(
        world.config(),
        Box::new(move |batch| {
            let publish = batch.iter().map(|record| output(&text(record))).collect();
            let waited = gated(batch);
            Box::pin(async move {
                waited.await?;
                Ok(Reply { publish, ..Reply::default() })
            })
        }),
    );
    world.produce(0, "a", "v").await;
    running.until("the record", |r| r.handler.saw("v")).await;
    // Not retriable for librdkafka, so it comes back to the bus, and after three rounds to the runtime.
    let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 5];
    world.broker.with(move |cluster| cluster.request_errors(RDKafkaApiKey::Produce, &errors));
    gates.open("v");
    assert_eq!(text(&world.read(OUTPUT, 1).await[0]), "v");
    world.until_committed(0, 1).await;
    assert!(running.metrics.total(names::REPUBLISHED) >= 5);
    assert_eq!(running.metrics.total(names::PUBLISHED), 1);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_goes_away_and_comes_back_loses_nothing() {
    let world = World::new(1);
    let running = world.run(
        world.config(),
        answer(|batch| Ok(Reply { publish: batch.iter().map(|r| output(&text(r))).collect(), ..Reply::default() })),
    );
    world.produce(0, "a", "before").await;
    world.until_committed(0, 1).await;
    world.broker.with(|cluster| cluster.broker_down(1)).unwrap();
    world.broker.with(|cluster| cluster.broker_up(1)).unwrap();
    for n in 0..20 {
        world.produce(0, &format!("k{n}"), &format!("after{n}")).await;
    }
    world.until_committed(0, 21).await;
    let mut seen: Vec<_> = world.read(OUTPUT, 21).await.iter().map(text).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 21);
    running.stop().await.unwrap();
}
