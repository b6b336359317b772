//! What must survive on real Kafka and Redis: killed services, stopped services, a lost Kafka cluster.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol::{InvocationId, TerminalReason};
use schemas::Topic;
use serde_json::json;
use tokio::runtime::Runtime;
use turnwright_tests::cluster::{
    Cluster, ClusterSpec, Error, Files, Kafka, Observed, Producer, Request, ServiceName, Start,
};
use turnwright_tests::owner::{Faults, Owner, OwnerConfig, spawn_owner};

/// Far above what a run takes, a killed service's included; a busy machine may use it.
const PATIENCE: Duration = Duration::from_secs(90);

/// An owner that takes its time, so that there is a call under way whenever something is done to a service.
fn slow_owner(runtime: &Runtime, slow_ms: u64) -> Owner {
    let config = OwnerConfig { faults: Faults { slow_ms, ..Faults::default() }, ..OwnerConfig::default() };
    runtime.block_on(spawn_owner("127.0.0.1:0".parse().unwrap(), config)).unwrap()
}

fn refund(order: &str) -> Request {
    Request::new("tests", "refunds", json!({ "order": order }))
}

/// How often each order was refunded, by the owner's own books.
fn refunds(owner: &Owner) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for applied in owner.books().applied() {
        *counts.entry(applied.request["order"].as_str().unwrap_or_default().to_owned()).or_insert(0) += 1;
    }
    counts
}

/// One request every so often until told to stop; gives their IDs.
fn load(producer: &Producer, topic: &str, every: Duration, stop: &AtomicBool) -> Result<Vec<InvocationId>, Error> {
    let mut ids = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let request = refund(&format!("o-{}", ids.len()));
        producer.request(topic, &request)?;
        ids.push(request.id);
        std::thread::sleep(every);
    }
    Ok(ids)
}

#[test]
fn ten_services_killed_under_load_lose_nothing_and_repeat_nothing() {
    const KILLS: usize = 10;
    let runtime = Runtime::new().unwrap();
    let owner = slow_owner(&runtime, 500);
    let mut cluster = Cluster::start(ClusterSpec::new(Files::refunds(owner.addr))).unwrap();
    let (topic, producer) = (cluster.topic(Topic::Invocations), cluster.producer().unwrap());
    let mut requests = cluster.reader(Topic::Invocations, Start::Beginning).unwrap();
    let mut ends = cluster.reader(Topic::Terminals, Start::Beginning).unwrap();
    let (mut asked, mut observed) = (0, Observed::default());
    let stop = AtomicBool::new(false);
    let ids = std::thread::scope(|scope| {
        // A failed kill must end the load too, or the scope would wait for it forever.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stopping = Stop(&stop);
        let loading = scope.spawn(|| load(&producer, &topic, Duration::from_millis(100), &stop));
        for name in ServiceName::ALL.into_iter().cycle().take(KILLS) {
            // Only a kill that hits work under way shows anything.
            let deadline = Instant::now() + PATIENCE;
            let open = loop {
                asked += requests.rest().unwrap().len();
                for record in ends.rest().unwrap() {
                    observed.take(cluster.codec(), &record).unwrap();
                }
                match asked.saturating_sub(observed.finished()) {
                    open @ 3.. if observed.finished() > 0 => break open,
                    open => assert!(Instant::now() < deadline, "of {asked} asked only {open} are open"),
                }
            };
            let start = Instant::now();
            cluster.kill(name).unwrap();
            cluster.restart(name).unwrap();
            println!("killed the {} with {open} open; ready again after {:?}", name.as_str(), start.elapsed());
        }
        drop(stopping);
        loading.join().unwrap().unwrap()
    });
    cluster.wait_finished(&mut ends, &mut observed, ids.len(), PATIENCE).unwrap();
    cluster.lag().unwrap().wait_idle(PATIENCE).unwrap();

    let (observed, log) = cluster.read_back().unwrap();
    let (mut unknown, counts) = (0, refunds(&owner));
    for (n, id) in ids.iter().enumerate() {
        let ended = observed.only(*id).unwrap();
        assert_eq!((ended.reason, ended.effects_unresolved), (TerminalReason::Completed, false), "{ended:?}");
        let events = log.verified(*id).unwrap();
        unknown += usize::from(events.iter().any(|event| event.fact.name() == "effect_unknown"));
        assert_eq!(counts.get(&format!("o-{n}")), Some(&1), "refunds of o-{n}, invocation {id}");
    }
    assert_eq!(counts.len(), ids.len());
    println!("{} invocations, {unknown} with an effect of unknown outcome on the way", ids.len());
}

#[test]
fn a_service_that_is_told_to_stop_drains_and_exits_with_zero() {
    let runtime = Runtime::new().unwrap();
    let owner = slow_owner(&runtime, 800);
    let spec = ClusterSpec::new(Files::refunds(owner.addr)).env("TURNWRIGHT_DRAIN_TIMEOUT_MS", 10_000);
    let mut cluster = Cluster::start(spec).unwrap();
    let (topic, producer) = (cluster.topic(Topic::Invocations), cluster.producer().unwrap());
    let mut ends = cluster.reader(Topic::Terminals, Start::Beginning).unwrap();
    let mut ids = Vec::new();
    for name in ServiceName::ALL {
        let mut dispatches = cluster.reader(Topic::Dispatches, Start::Now).unwrap();
        let request = refund(name.as_str());
        producer.request(&topic, &request).unwrap();
        ids.push(request.id);
        let key = Some(request.id.to_string().into_bytes());
        let mut calls = 0;
        let is_refund = |record: schemas::Inbound| {
            calls += usize::from(record.key == key);
            calls == 2
        };
        dispatches.until("the refund's dispatch", PATIENCE, is_refund).unwrap();

        // The call is under way or about to be. The drain's own limit, and a little for the machine.
        let start = Instant::now();
        let exits = cluster.terminate(name, Duration::from_secs(15)).unwrap();
        assert!(exits.iter().all(|exit| exit.code() == Some(0)), "{}: {exits:?}", name.as_str());
        println!("the {} has drained in {:?}", name.as_str(), start.elapsed());
        cluster.restart(name).unwrap();
    }
    cluster.wait_finished(&mut ends, &mut Observed::default(), ids.len(), PATIENCE).unwrap();
    cluster.lag().unwrap().wait_idle(PATIENCE).unwrap();
    let (observed, log) = cluster.read_back().unwrap();
    for id in &ids {
        assert_eq!(observed.only(*id).unwrap().reason, TerminalReason::Completed);
        // What was under way was finished and reported, not left for the reconciler to find out.
        let names: Vec<&str> = log.verified(*id).unwrap().iter().map(|event| event.fact.name()).collect();
        assert!(!names.contains(&"effect_unknown"), "{names:?}");
    }
    assert!(refunds(&owner).values().all(|count| *count == 1) && refunds(&owner).len() == ids.len());
}

#[test]
fn an_open_run_completes_on_another_kafka_cluster_with_the_same_store() {
    let runtime = Runtime::new().unwrap();
    let owner = slow_owner(&runtime, 0);
    let first = Kafka::start().unwrap();
    // Declared before the services, so that it goes after them and their logs end with what matters.
    let second;
    let mut cluster = Cluster::start_on(&first, ClusterSpec::new(Files::refunds(owner.addr))).unwrap();
    let (topic, producer) = (cluster.topic(Topic::Invocations), cluster.producer().unwrap());

    let ended = refund("before");
    producer.request(&topic, &ended).unwrap();
    let mut ends = cluster.reader(Topic::Terminals, Start::Beginning).unwrap();
    let mut observed = Observed::default();
    cluster.wait_finished(&mut ends, &mut observed, 1, PATIENCE).unwrap();
    let event_ids = observed.event_ids(ended.id).join(",");

    // Without an executor the second run stays open, at a dispatch that is lost with the cluster.
    cluster.kill(ServiceName::ToolExecutor).unwrap();
    let mut dispatches = cluster.reader(Topic::Dispatches, Start::Now).unwrap();
    let open = refund("across");
    producer.request(&topic, &open).unwrap();
    let key = Some(open.id.to_string().into_bytes());
    dispatches.until("the open run's dispatch", PATIENCE, |record| record.key == key).unwrap();
    drop((dispatches, ends, producer));

    first.stop().unwrap();
    second = Kafka::start().unwrap();
    cluster.move_to(&second).unwrap();
    let mut ends = cluster.reader(Topic::Terminals, Start::Beginning).unwrap();
    cluster.wait_finished(&mut ends, &mut Observed::default(), 2, PATIENCE).unwrap();
    cluster.lag().unwrap().wait_idle(PATIENCE).unwrap();

    let (observed, log) = cluster.read_back().unwrap();
    assert_eq!(observed.only(open.id).unwrap().reason, TerminalReason::Completed);
    assert_eq!(observed.event_ids(ended.id).join(","), event_ids, "what had ended is said again as it was");
    for id in [open.id, ended.id] {
        log.verified(id).unwrap();
    }
    let expected = [("across".to_owned(), 1), ("before".to_owned(), 1)];
    assert_eq!(refunds(&owner), expected.into());
}
