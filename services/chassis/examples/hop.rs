//! Measures one hop: consume, handle, publish, consume. Two services hand one record back and forth.
//!
//! `cargo run --release -p turnwright-chassis --example hop -- [hops]`, with `TURNWRIGHT_BROKERS` for a real broker.

#![expect(clippy::disallowed_methods, reason = "a measurement makes topics of its own and asks which broker it has")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use protocol::EventId;
use schemas::{Inbound, Outbound, Topic};
use turnwright_chassis::*;
use uuid::Uuid;

/// Answers each record on the other topic, and notes when.
struct Player {
    to: Topic,
    left: Arc<AtomicUsize>,
    times: Arc<Mutex<Vec<Instant>>>,
}

fn ball(topic: Topic) -> Outbound {
    let key = b"ball".to_vec();
    Outbound { topic, key, value: vec![0; 1024], headers: Vec::new(), event_id: EventId(Uuid::nil()) }
}

#[async_trait]
impl Handler for Player {
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        record.key.clone().unwrap_or_default()
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        self.times.lock().expect("no panic holds it").push(Instant::now());
        let goes_on = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let publish = if goes_on { batch.iter().map(|_| ball(self.to)).collect() } else { Vec::new() };
        Ok(Reply { publish, ..Reply::default() })
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Error> {
    let hops = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5_000);
    let mut config = Config::from_env()?;
    let run = Uuid::now_v7().simple().to_string();
    config.kafka.group_prefix = format!("hop-{run}");
    let real = std::env::var("TURNWRIGHT_BROKERS").is_ok();
    config.kafka.topic_prefix = format!("hop-{run}");
    let prefix = config.kafka.topic_prefix.clone();
    let topics = [Topic::Turns, Topic::Decisions].map(|topic| topic.name(&prefix));
    let broker = if real {
        create(&config.kafka.brokers, &topics).await;
        None
    } else {
        let topics = topics.clone().map(|name| MockTopic { name, partitions: 1 });
        let broker = MockBroker::start(&topics)?;
        let wait = config.kafka.fetch_wait_ms;
        broker.configure(&mut config.kafka);
        if std::env::var("TURNWRIGHT_FETCH_WAIT_MS").is_ok() {
            config.kafka.fetch_wait_ms = wait;
        }
        Some(broker)
    };
    let left = Arc::new(AtomicUsize::new(hops));
    let times = Arc::new(Mutex::new(Vec::with_capacity(hops + 1)));
    let shutdown = Shutdown::new();
    let mut players = Vec::new();
    let mut healths = Vec::new();
    for (at, to) in [(0, Topic::Decisions), (1, Topic::Turns)] {
        let service = format!("player{at}");
        let metrics = Metrics::silent(&service);
        let health = Health::new(Duration::from_secs(30));
        let bus = KafkaBus::new(&config.kafka, &service, config.runtime.retry_policy(), metrics.clone())?;
        let consumer = Consumer::new(ConsumerParts {
            service,
            topics: vec![topics[at].clone()],
            handler: Arc::new(Player { to, left: left.clone(), times: times.clone() }),
            bus: Arc::new(bus),
            dead_letters: Arc::new(|_, _, _, _| ball(Topic::DeadLetters)),
            config: config.clone(),
            metrics,
            health: health.clone(),
        });
        healths.push(health);
        players.push(tokio::spawn(consumer.run(shutdown.clone())));
    }
    let bus = KafkaBus::new(&config.kafka, "server", config.runtime.retry_policy(), Metrics::silent("server"))?;
    bus.publish(vec![ball(Topic::Turns)]).await.map_err(|failure| Error::Fatal(failure.to_string()))?;
    while times.lock().expect("no panic holds it").len() <= hops {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    shutdown.trigger();
    for player in players {
        player.await.map_err(|error| Error::Fatal(error.to_string()))??;
    }
    let times = times.lock().expect("no panic holds it");
    let mut micros: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_micros()).skip(hops / 10).collect();
    micros.sort_unstable();
    let at = |part: f64| micros[((micros.len() - 1) as f64 * part) as usize];
    println!(
        "{{\"broker\":\"{}\",\"hops\":{hops},\"p50_us\":{},\"p95_us\":{},\"p99_us\":{},\"max_us\":{}}}",
        if real { "real" } else { "mock" },
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0)
    );
    drop(broker);
    Ok(())
}

async fn create(brokers: &str, topics: &[String]) {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    let admin: AdminClient<_> = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .create()
        .expect("a client with only its brokers set");
    let new: Vec<_> = topics.iter().map(|name| NewTopic::new(name, 1, TopicReplication::Fixed(1))).collect();
    for created in admin.create_topics(&new, &AdminOptions::new()).await.expect("the broker answers") {
        created.expect("the topic is new");
    }
}
