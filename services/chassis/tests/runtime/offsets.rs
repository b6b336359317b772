use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use schemas::Outbound;
use turnwright_chassis::{Bus, Failure, KafkaBus, Metrics, Reply, names};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_with_a_later_record_done_redelivers_from_the_earlier_one() {
    let world = World::new(1);
    let gates = Gates::closed(&["r2"]);
    for n in 0..4 {
        world.produce(0, &format!("k{n}"), &format!("r{n}")).await;
    }
    let mut config = world.config();
    config.runtime.drain_timeout_ms = 0;
    let running = world.run(config, gates.answer());
    running.until("all handed over", |r| r.handler.values().len() == 4).await;
    world.until_committed(0, 2).await;
    running.stop().await.unwrap();
    assert_eq!(world.committed(0).await, Some(2));

    let again = world.run(world.config(), nothing());
    world.until_committed(0, 4).await;
    let mut seen = again.handler.values();
    seen.sort();
    assert_eq!(seen, ["r2", "r3"]);
    again.stop().await.unwrap();
}

/// Refuses to publish until it is mended.
struct Broken {
    inner: KafkaBus,
    mended: AtomicBool,
}

#[async_trait]
impl Bus for Broken {
    async fn publish(&self, records: Vec<Outbound>) -> Result<(), Failure> {
        if self.mended.load(Ordering::SeqCst) {
            self.inner.publish(records).await
        } else {
            Err(Failure::Unavailable("no broker".to_owned()))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unacknowledged_reply_holds_the_offset() {
    let world = World::new(1);
    let config = world.config();
    let metrics = Metrics::silent("test");
    let inner = KafkaBus::new(&config.kafka, "test", config.runtime.retry_policy(), metrics.clone()).unwrap();
    let bus = Arc::new(Broken { inner, mended: AtomicBool::new(false) });
    let reply = answer(|batch| {
        let publish = batch.iter().filter(|r| text(r) == "speaks").map(|r| output(&text(r))).collect();
        Ok(Reply { publish, receipt: Some(Box::new(text(&batch[0]))), ..Reply::default() })
    });
    world.produce(0, "a", "silent").await;
    world.produce(0, "b", "speaks").await;
    world.produce(0, "c", "silent too").await;
    let running = world.run_with(config, bus.clone(), metrics, reply);
    running.until("several tries", |r| r.metrics.total(names::RETRIES) > 5).await;
    world.until_committed(0, 1).await;
    assert!(!running.handler.acknowledged.lock().unwrap().contains(&"speaks".to_owned()));
    bus.mended.store(true, Ordering::SeqCst);
    world.until_committed(0, 3).await;
    assert!(running.handler.acknowledged.lock().unwrap().contains(&"speaks".to_owned()));
    assert_eq!(running.handler.values().iter().filter(|v| *v == "speaks").count(), 1, "handled once, published again");
    assert_eq!(world.read(OUTPUT, 1).await.len(), 1);
    running.stop().await.unwrap();
}
