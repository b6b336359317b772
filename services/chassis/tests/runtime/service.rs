use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use schemas::Inbound;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use turnwright_chassis::{Failure, Handler, Periodic, Reply, ServiceSpec, Shutdown, Telemetry, run_service};

use crate::support::*;

struct Echo;

#[async_trait]
impl Handler for Echo {
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        record.key.clone().unwrap_or_default()
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        Ok(Reply { publish: batch.iter().map(|record| output(&text(record))).collect(), ..Reply::default() })
    }
}

/// Speaks twice at once, then rests; fails in between.
#[derive(Default)]
struct Clockwork {
    ticks: AtomicU32,
    acknowledged: AtomicU32,
}

#[async_trait]
impl Periodic for Clockwork {
    fn name(&self) -> &'static str {
        "clockwork"
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(5)
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        match self.ticks.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Failure::Unavailable("not yet".to_owned())),
            1 => panic!("a bug in a periodic"),
            n @ 2..4 => {
                let publish = vec![output(&format!("tick{n}"))];
                Ok((Reply { publish, receipt: Some(Box::new(())), ..Reply::default() }, true))
            }
            _ => Ok((Reply::default(), false)),
        }
    }

    fn acknowledged(&self, _receipt: Box<dyn std::any::Any + Send>) {
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
}

async fn fetch(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer[9..12].parse().unwrap(), answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_consumes_ticks_answers_its_probes_and_stops() {
    let world = World::new(1);
    let mut config = world.config();
    config.http.address = Some("127.0.0.1:0".to_owned());
    let (told, bound) = oneshot::channel();
    let clockwork = Arc::new(Clockwork::default());
    let store_up = Arc::new(AtomicBool::new(false));
    let seen = store_up.clone();
    let shutdown = Shutdown::new();
    let service = tokio::spawn(run_service(ServiceSpec {
        name: "test".to_owned(),
        topics: vec![INPUT.to_owned()],
        handler: Arc::new(Echo),
        periodics: vec![clockwork.clone()],
        dead_letters: dead_letters(),
        config,
        telemetry: Telemetry::quiet().unwrap(),
        ready_check: Some(Arc::new(move || {
            let up = seen.load(Ordering::SeqCst);
            Box::pin(async move { if up { Ok(()) } else { Err("the store does not answer".to_owned()) } })
        })),
        http_bound: Some(told),
        bus: None,
        shutdown: shutdown.clone(),
    }));
    let address = bound.await.unwrap();
    let (status, body) = fetch(address, "/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains("the store does not answer"), "{body}");
    store_up.store(true, Ordering::SeqCst);

    world.produce(0, "a", "hello").await;
    let mut replies: Vec<_> = world.read(OUTPUT, 3).await.iter().map(text).collect();
    replies.sort();
    assert_eq!(replies, ["hello", "tick2", "tick3"]);
    world.until_committed(0, 1).await;
    assert_eq!(clockwork.acknowledged.load(Ordering::SeqCst), 2);
    assert_eq!(fetch(address, "/readyz").await.0, 200);
    assert_eq!(fetch(address, "/livez").await.0, 200);
    let (_, metrics) = fetch(address, "/metrics").await;
    assert!(metrics.contains("turnwright_consumed_total{"), "{metrics}");

    shutdown.trigger();
    tokio::time::timeout(DEADLINE, service).await.unwrap().unwrap().unwrap();
}
