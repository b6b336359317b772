use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use turnwright_chassis::{Error, OutOfRange, names};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_consumer_is_counted_and_rebuilt() {
    let world = World::new(1);
    let mut config = world.config();
    config.runtime.silence_ms = 400;
    let running = world.run(config, nothing());
    world.produce(0, "a", "before").await;
    world.until_committed(0, 1).await;
    let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN; 100_000];
    world.broker.with(move |cluster| cluster.request_errors(RDKafkaApiKey::Fetch, &errors));
    world.produce(0, "a", "after").await;
    running.until("the watchdog", |r| r.metrics.total(names::SILENT_CONSUMERS) > 0).await;
    world.broker.with(|cluster| cluster.clear_request_errors(RDKafkaApiKey::Fetch));
    world.until_committed(0, 2).await;
    assert_eq!(running.handler.values(), ["before", "after"]);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_consumer_is_not_called_silent() {
    let world = World::new(3);
    let mut config = world.config();
    config.runtime.silence_ms = 20;
    let running = world.run(config, nothing());
    world.produce(0, "a", "one").await;
    world.until_committed(0, 1).await;
    world.produce(0, "a", "two").await;
    world.until_committed(0, 2).await;
    assert_eq!(running.metrics.total(names::SILENT_CONSUMERS), 0);
    running.stop().await.unwrap();
}

/// Fills the mock broker's 5 MiB until the committed offset 1 is gone from the log.
async fn lose_records(world: &World) {
    world.produce(0, "a", "first").await;
    let running = world.run(world.config(), nothing());
    world.until_committed(0, 1).await;
    running.stop().await.unwrap();
    for n in 0..12 {
        world.produce_with(0, &format!("k{n}"), &vec![b'x'; 900_000], &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_gone_from_the_log_are_counted_and_the_rest_is_consumed() {
    let world = World::new(1);
    lose_records(&world).await;
    let running = world.run(world.config(), nothing());
    world.until_committed(0, 13).await;
    assert_eq!(running.metrics.total(names::OUT_OF_RANGE), 1);
    let consumed = running.metrics.total(names::CONSUMED);
    assert!(consumed > 0 && consumed < 12, "{consumed}");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_operator_wants_it_lost_records_stop_the_service() {
    let world = World::new(1);
    lose_records(&world).await;
    let mut config = world.config();
    config.kafka.out_of_range = OutOfRange::Stop;
    let running = world.run(config, nothing());
    let error = running.end().await.unwrap_err();
    assert!(matches!(&error, Error::Fatal(message) if message.contains("out of range")), "{error}");
    assert_eq!(world.committed(0).await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_group_reads_a_topic_from_its_beginning_without_an_alarm() {
    let world = World::new(1);
    for n in 0..3 {
        world.produce(0, "a", &format!("v{n}")).await;
    }
    let running = world.run(world.config(), nothing());
    world.until_committed(0, 3).await;
    assert_eq!(running.metrics.total(names::OUT_OF_RANGE), 0);
    assert_eq!(running.handler.values(), ["v0", "v1", "v2"]);
    running.stop().await.unwrap();
}
