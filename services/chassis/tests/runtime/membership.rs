use std::collections::BTreeSet;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use turnwright_chassis::names;

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_what_is_in_flight_finish_and_commits_it() {
    let world = World::new(1);
    let gates = Gates::closed(&["slow"]);
    world.produce(0, "a", "slow").await;
    world.produce(0, "b", "fast").await;
    let running = world.run(world.config(), gates.answer());
    running.until("both handed over", |r| r.handler.values().len() == 2).await;
    assert_eq!(world.committed(0).await, None);
    running.shutdown.trigger();
    gates.open("slow");
    running.end().await.unwrap();
    assert_eq!(world.committed(0).await, Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_joins_and_one_that_leaves_lose_nothing() {
    let world = World::new(4);
    let first = world.run(world.config(), nothing());
    first.until("the group", |r| r.health.is_joined()).await;
    let mut expected = BTreeSet::new();
    let mut produced = 0;
    let mut more = async |world: &World, count: usize| {
        for _ in 0..count {
            let value = format!("v{produced}");
            world.produce(produced % 4, &value, &value).await;
            expected.insert(value);
            produced += 1;
        }
    };
    more(&world, 40).await;
    let second = world.run(world.config(), nothing());
    // Records flow all the while the group rebalances.
    while !second.health.is_joined() || second.metrics.total(names::CONSUMED) == 0 {
        more(&world, 4).await;
    }
    more(&world, 40).await;
    let early = first.handler.clone();
    first.stop().await.unwrap();
    more(&world, 40).await;
    for partition in 0..4 {
        world.until_committed(partition, i64::from(produced / 4)).await;
    }
    let seen: BTreeSet<_> = early.values().into_iter().chain(second.handler.values()).collect();
    assert_eq!(seen, expected);
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_in_flight_past_a_revocation_is_given_to_the_other_member() {
    let world = World::new(2);
    let gates = Gates::closed(&["stuck0", "stuck1"]);
    let mut config = world.config();
    config.runtime.revoke_timeout_ms = 50;
    let first = world.run(config, gates.answer());
    world.produce(0, "a", "stuck0").await;
    world.produce(1, "b", "stuck1").await;
    first.until("both handed over", |r| r.handler.values().len() == 2).await;
    // One of the partitions moves; its record is still in flight at the first member and counts for nothing there.
    let second = world.run(world.config(), nothing());
    second.until("the redelivery", |r| r.handler.values().len() == 1).await;
    gates.open("stuck0");
    gates.open("stuck1");
    first.until("the late result", |r| r.metrics.total(names::LATE_RESULTS) == 1).await;
    world.until_committed(0, 1).await;
    world.until_committed(1, 1).await;
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_offset_commit_is_repeated_and_stalls_nothing() {
    let world = World::new(1);
    let running = world.run(world.config(), nothing());
    running.until("the group", |r| r.health.is_joined()).await;
    let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID; 1];
    world.broker.with(move |cluster| cluster.request_errors(RDKafkaApiKey::OffsetCommit, &errors));
    world.produce(0, "a", "one").await;
    running.until("the failure", |r| r.metrics.total(names::COMMIT_FAILURES) > 0).await;
    world.produce(0, "a", "two").await;
    world.until_committed(0, 2).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_given_no_partition_is_ready_all_the_same() {
    let world = World::new(1);
    let first = world.run(world.config(), nothing());
    let second = world.run(world.config(), nothing());
    first.until("the group", |r| r.health.is_joined() && second.health.is_joined()).await;
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}
