//! Asks an agent for something and waits for what came of it: produce a request, consume the terminal event. Needs nothing
//! of Turnwright but its topics.

use std::collections::HashSet;
use std::error::Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};
use uuid::Uuid;

fn main() -> Result<(), Box<dyn Error>> {
    let brokers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:29092".to_owned());
    let ended = ask(&brokers, "turnwright", "May customer c-1001 have a refund?")?;
    println!("{} {} unresolved effects: {}", ended["reason"], ended["answer"], ended["effects_unresolved"]);
    Ok(())
}

/// Produces one request to topics with that prefix, and returns its final terminal event.
pub fn ask(brokers: &str, prefix: &str, goal: &str) -> Result<Value, Box<dyn Error>> {
    // The same ID with the same fields is the same task, however often it is sent: after a crash, send it again.
    let id = Uuid::now_v7().to_string();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let request = json!({
        "tenant": "demo",
        "actor": "ada",
        "task_type": "refund",
        "agent": "refund-desk",
        "goal": goal,
        "requested_at": u64::try_from(now_ms)?,
    })
    .to_string();

    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", brokers).set("enable.idempotence", "true").create()?;
    let topic = format!("{prefix}.invocations.v1");
    producer.send(BaseRecord::to(&topic).key(&id).payload(&request)).map_err(|(error, _)| error)?;
    producer.flush(Duration::from_secs(30))?;

    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "my-service")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()?;
    consumer.subscribe(&[&format!("{prefix}.terminals.v1")])?;
    let mut seen = HashSet::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let Some(message) = consumer.poll(Duration::from_secs(1)) else { continue };
        let message = message?;
        let event_id = message.headers().and_then(|headers| headers.iter().find(|header| header.key == "ce_id"));
        let event_id = event_id.and_then(|header| header.value).unwrap_or_default().to_vec();
        // Publishing may repeat: what has the same `ce_id` says the same.
        if !seen.insert(event_id) {
            continue;
        }
        let ended: Value = serde_json::from_slice(message.payload().unwrap_or_default())?;
        if ended["invocation_id"] == id.as_str() && ended["resumable"] == false {
            return Ok(ended);
        }
    }
    Err("no terminal event within a minute".into())
}
