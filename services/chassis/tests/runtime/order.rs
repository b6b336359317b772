use turnwright_chassis::names;

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_key_delays_no_other_of_its_partition() {
    let world = World::new(1);
    let gates = Gates::closed(&["slow"]);
    world.produce(0, "a", "slow").await;
    for n in 0..20 {
        world.produce(0, &format!("k{n}"), &format!("fast{n}")).await;
    }
    let running = world.run(world.config(), gates.answer());
    running.until("all the fast ones", |r| (0..20).all(|n| r.handler.saw(&format!("fast{n}")))).await;
    gates.open("slow");
    world.until_committed(0, 21).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_one_key_stay_in_order() {
    let world = World::new(1);
    let running = world.run(world.config(), nothing());
    for n in 0..200 {
        world.produce(0, &format!("k{}", n % 3), &format!("{n}")).await;
    }
    running.until("all", |r| r.handler.values().len() == 200).await;
    let seen: Vec<usize> = running.handler.values().iter().map(|v| v.parse().unwrap()).collect();
    for key in 0..3 {
        let of_key: Vec<_> = seen.iter().filter(|n| *n % 3 == key).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_behind_a_busy_key_are_handed_over_together_over_all_partitions() {
    let world = World::new(2);
    let gates = Gates::closed(&["first"]);
    let running = world.run(world.config(), gates.answer());
    world.produce(0, "a", "first").await;
    running.until("the first", |r| r.handler.saw("first")).await;
    world.produce(0, "a", "second").await;
    world.produce(1, "a", "third").await;
    world.produce(1, "b", "other").await;
    // "other" came after "third" in its partition, so by now "third" is queued; "second" may be a fetch behind.
    running.until("the other", |r| r.handler.saw("other") && r.metrics.total(names::CONSUMED) == 4).await;
    gates.open("first");
    running.until("all", |r| r.handler.values().len() == 4).await;
    let mut last = running.handler.batches().last().unwrap().clone();
    last.sort();
    assert_eq!(last, ["second", "third"]);
    running.stop().await.unwrap();
}
