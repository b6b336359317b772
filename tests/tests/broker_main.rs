//! The main job on real Kafka and Redis, every service a process of its own: one request gives one end, with one process
//! of each service, with two, and when every record between them comes twice; what cannot be a request is a dead letter.

use std::time::{Duration, Instant};

use protocol::{InvocationId, TerminalReason};
use schemas::{DeadLetterCode, Topic};
use serde_json::{Value, json};
use turnwright_tests::cluster::{Cluster, ClusterSpec, Duplicator, Files, Observed, Request, Start, kcat};
use turnwright_tests::owner::{Fault, Faults, OwnerConfig, spawn_owner};

/// Far above what a run takes; a busy machine may use it.
const PATIENCE: Duration = Duration::from_secs(60);

fn demo(goal: &str) -> Request {
    Request::new("demo", "refund-desk", goal)
}

/// Waits until all have ended and nothing more is to come, then asserts one end each and a log that proves itself.
fn ends_once_with_the_demos_answer(cluster: &Cluster, ids: &[InvocationId]) {
    let mut reader = cluster.reader(Topic::Terminals, Start::Beginning).unwrap();
    cluster.wait_finished(&mut reader, &mut Observed::default(), ids.len(), PATIENCE).unwrap();
    cluster.lag().unwrap().wait_idle(PATIENCE).unwrap();
    let (observed, log) = cluster.read_back().unwrap();
    for id in ids {
        assert_eq!(observed.event_ids(*id).len(), 1, "{id}");
        let ended = observed.only(*id).unwrap();
        assert_eq!(ended.reason, TerminalReason::Completed, "{}", ended.detail);
        assert_eq!(ended.answer, Some(json!("profile=active; policy=refund-under-100")));
        assert_eq!((ended.spent.steps, ended.spent.tool_calls), (2, 2));
        let names: Vec<&str> = log.verified(*id).unwrap().iter().map(|event| event.fact.name()).collect();
        assert_eq!((names.first(), names.last()), (Some(&"admitted"), Some(&"ended")));
    }
    assert_eq!(observed.finished(), ids.len());
}

#[test]
fn a_json_request_from_kcat_ends_once() {
    let cluster = Cluster::start(ClusterSpec::demo()).unwrap();
    let request = demo("What is refunded?");
    kcat(cluster.brokers(), &cluster.topic(Topic::Invocations), std::slice::from_ref(&request)).unwrap();
    ends_once_with_the_demos_answer(&cluster, &[request.id]);
}

#[test]
fn json_requests_from_kcat_end_once_with_two_replicas_of_every_service() {
    let cluster = Cluster::start(ClusterSpec::demo().replicas(2)).unwrap();
    let requests: Vec<Request> = (0..24).map(|n| demo(&format!("What is refunded? {n}"))).collect();
    let topic = cluster.topic(Topic::Invocations);
    kcat(cluster.brokers(), &topic, &requests).unwrap();
    // A caller that is not sure sends again: the same request is the same invocation.
    kcat(cluster.brokers(), &topic, &requests[..8]).unwrap();
    let ids: Vec<InvocationId> = requests.iter().map(|request| request.id).collect();
    ends_once_with_the_demos_answer(&cluster, &ids);
}

#[test]
fn every_record_between_the_services_delivered_twice_changes_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Three of the first applications are made and never answered for, so that the reconciler has its part to do.
    let faults = Faults { fault: Some(Fault::CommitThenDrop), slow_ms: 0, times: Some(3) };
    let config = OwnerConfig { faults, ..OwnerConfig::default() };
    let owner = runtime.block_on(spawn_owner("127.0.0.1:0".parse().unwrap(), config)).unwrap();
    let cluster = Cluster::start(ClusterSpec::new(Files::refunds(owner.addr))).unwrap();
    let doubled = Duplicator::start(&cluster).unwrap();
    let order = |n| Request::new("tests", "refunds", json!({"order": format!("o-{n}")}));
    let requests: Vec<Request> = (0..12).map(order).collect();
    kcat(cluster.brokers(), &cluster.topic(Topic::Invocations), &requests).unwrap();

    let mut reader = cluster.reader(Topic::Terminals, Start::Beginning).unwrap();
    cluster.wait_finished(&mut reader, &mut Observed::default(), requests.len(), PATIENCE).unwrap();
    let (lag, deadline) = (cluster.lag().unwrap(), Instant::now() + PATIENCE);
    // The last answers may still be copied when all is idle; then there is more to handle.
    while !doubled.has_doubled(&lag.wait_idle(PATIENCE).unwrap()).unwrap() {
        assert!(Instant::now() < deadline, "not everything was doubled: {:?}", doubled.copies());
    }
    let copies = doubled.copies().unwrap();
    for topic in [Topic::Turns, Topic::Decisions, Topic::Verdicts, Topic::Dispatches, Topic::Results] {
        assert!(copies.get(&topic).is_some_and(|n| *n >= 12), "{topic:?} was not doubled: {copies:?}");
    }
    for topic in [Topic::OutcomeUnknown, Topic::Resolutions] {
        assert!(copies.get(&topic).is_some_and(|n| *n >= 3), "{topic:?} was not doubled: {copies:?}");
    }

    let (observed, log) = cluster.read_back().unwrap();
    for request in &requests {
        let ended = observed.only(request.id).unwrap();
        assert_eq!(ended.reason, TerminalReason::Completed, "{}", ended.detail);
        log.verified(request.id).unwrap();
    }
    let mut applied: Vec<Value> = owner.books().applied().iter().map(|entry| entry.request["order"].clone()).collect();
    applied.sort_by_key(Value::to_string);
    let mut asked: Vec<Value> = requests.iter().map(|request| request.body["goal"]["order"].clone()).collect();
    asked.sort_by_key(Value::to_string);
    assert_eq!(applied, asked, "each order is refunded once");
}

#[test]
fn what_cannot_be_a_request_is_a_typed_dead_letter_and_the_partition_moves_on() {
    use DeadLetterCode as Code;
    // With one partition the good request can only come after the bad ones.
    let cluster = Cluster::start(ClusterSpec::demo().partitions(1)).unwrap();
    let (topic, producer) = (cluster.topic(Topic::Invocations), cluster.producer().unwrap());
    let nested = |depth| (0..depth).fold(json!("x"), |inner, _| json!([inner]));
    // Over the codec's limit, and below the broker's by its compressed size: a bomb.
    let bomb = "x".repeat(3 * 1024 * 1024);
    let bad: Vec<(Request, Code, &str, &str)> = vec![
        (demo("x").with("agent", Value::Null), Code::Malformed, "agent", "is required"),
        (demo("x").with("budget", json!({"max_steps": "four"})), Code::Malformed, "budget.max_steps", "whole number"),
        (demo("x").with("gaol", json!("x")), Code::Malformed, "gaol", "goal"),
        (demo(&bomb), Code::Oversize, "value", "bytes"),
        (demo("x").with("goal", nested(40)), Code::TooDeep, "value", "32"),
        (demo("x").with("schema_version", json!(2)), Code::UnknownVersion, "schema_version", "must be 1"),
        (demo("x").with("tenant", json!("somebody-else")), Code::TenantMismatch, "tenant", ""),
    ];
    producer.bytes(&topic, "not-a-uuid", b"{\"tenant\": ").unwrap();
    for (request, ..) in &bad {
        producer.request(&topic, request).unwrap();
    }
    let good = demo("What is refunded?");
    producer.request(&topic, &good).unwrap();
    ends_once_with_the_demos_answer(&cluster, &[good.id]);

    let mut letters = cluster.reader(Topic::DeadLetters, Start::Beginning).unwrap().rest().unwrap();
    letters.sort_by_key(|record| cluster.codec().decode_dead_letter(record).unwrap().record.offset);
    let letters: Vec<_> = letters.iter().map(|record| cluster.codec().decode_dead_letter(record).unwrap()).collect();
    let found: Vec<_> = letters.iter().map(|letter| &letter.rejection).collect();
    assert_eq!(letters.len(), bad.len() + 1, "{found:#?}");
    assert_eq!((letters[0].rejection.code, &letters[0].record.key), (Code::Malformed, &Some(b"not-a-uuid".to_vec())));
    for (letter, (request, code, field, message)) in letters[1..].iter().zip(&bad) {
        let rejection = &letter.rejection;
        assert_eq!((rejection.code, rejection.field.as_str()), (*code, *field), "{rejection:?}");
        assert!(rejection.message.contains(message), "{rejection:?}");
        assert_eq!(letter.record.key.as_deref(), Some(request.id.to_string().as_bytes()));
        assert_eq!((letter.record.topic.as_str(), letter.service.as_str()), (topic.as_str(), "committer"));
        assert_eq!(letter.value_length, request.body.to_string().len());
    }
}

#[test]
fn a_slow_call_holds_up_no_other_invocation_of_its_partition() {
    // With one partition of every topic all invocations share all of them.
    let cluster = Cluster::start(ClusterSpec::demo().partitions(1)).unwrap();
    let (topic, producer) = (cluster.topic(Topic::Invocations), cluster.producer().unwrap());
    let mut ends = cluster.reader(Topic::Terminals, Start::Now).unwrap();
    let mut one = |goal: &str| {
        let (request, start) = (demo(goal), Instant::now());
        producer.request(&topic, &request).unwrap();
        let key = Some(request.id.to_string().into_bytes());
        ends.until("the end of a quick invocation", PATIENCE, |record| record.key == key).unwrap();
        start.elapsed()
    };
    for _ in 0..3 {
        one("warm up");
    }
    let mut alone: Vec<Duration> = (0..20).map(|_| one("alone")).collect();
    alone.sort();
    let median = alone[alone.len() / 2];

    let mut dispatches = cluster.reader(Topic::Dispatches, Start::Now).unwrap();
    let slow = demo("slow");
    producer.request(&topic, &slow).unwrap();
    let key = Some(slow.id.to_string().into_bytes());
    dispatches.until("the slow call's dispatch", PATIENCE, |record| record.key == key).unwrap();
    let dispatched = Instant::now();
    let mut beside = Vec::new();
    while beside.len() < 20 && dispatched.elapsed() < Duration::from_secs(8) {
        beside.push(one("beside"));
    }
    assert!(dispatched.elapsed() < Duration::from_secs(10), "one was held up until the slow call was over: {beside:?}");
    assert!(beside.len() >= 10, "too few ran beside the slow call to tell: {beside:?}");
    beside.sort();
    // Who waits for a slow call waits every time; who waits for a busy machine does so now and then. Hence nine in ten.
    let (most, worst) = (beside[beside.len() * 9 / 10 - 1], beside[beside.len() - 1]);
    let bound = 2 * median + Duration::from_millis(250);
    println!("alone: median {median:?}; beside: nine in ten within {most:?}, worst {worst:?}");
    assert!(most <= bound, "over {bound:?}: {beside:?}");

    ends.until("the slow invocation's end", PATIENCE, |record| record.key == key).unwrap();
    let (observed, _) = cluster.read_back().unwrap();
    assert_eq!(observed.only(slow.id).unwrap().answer, Some(json!("orders=3")));
}
