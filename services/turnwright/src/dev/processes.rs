//! `dev` as processes: a Redis, and each service as a child of this executable.

use std::path::PathBuf;
use std::time::Duration;

use chassis::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Progress;
use super::child::{Program, Status, last_lines};
use super::place::Place;
use super::redis::Redis;
use crate::error::Error;
use crate::wiring::Service;

/// How long the services may take to become ready.
const READY: Duration = Duration::from_secs(30);

pub struct Processes {
    redis: Redis,
    services: Vec<(Service, watch::Receiver<Status>, PathBuf)>,
    tasks: JoinSet<Result<(), Error>>,
    stop: Shutdown,
}

pub async fn start(place: &Place, redis: PathBuf, shutdown: &Shutdown, progress: Progress) -> Result<Processes, Error> {
    let executable = std::env::current_exe().map_err(|error| Error::failed("this executable", error))?;
    let mut redis = Redis::start(place, &executable, &redis, progress.clone())?;
    redis.answering(shutdown).await?;
    let mut processes = Processes { redis, services: Vec::new(), tasks: JoinSet::new(), stop: Shutdown::new() };
    for service in Service::ALL {
        let (sender, status) = watch::channel(Status::default());
        let log = place.log(service.name());
        let program = Program {
            name: service.name(),
            executable: executable.clone(),
            arguments: vec!["serve".into(), service.name().into(), "--supervised".into()],
            environment: environment(place),
            log: log.clone(),
        };
        processes.services.push((service, status, log));
        processes.tasks.spawn(program.keep(processes.stop.clone(), sender, progress.clone()));
    }
    Ok(processes)
}

/// What a service must know of this cluster, and what it must not take from the surroundings.
fn environment(place: &Place) -> Vec<(String, Option<String>)> {
    let settings = &place.settings;
    let set = |name: &str, value: String| (name.to_owned(), Some(value));
    let mut kafka = chassis::Config::from_env().map(|config| config.kafka);
    if let Ok(kafka) = &mut kafka {
        place.broker.configure(kafka);
    }
    let mut environment = vec![
        set("TURNWRIGHT_BROKERS", settings.brokers.clone()),
        set("TURNWRIGHT_STORE", settings.store.clone()),
        set("TURNWRIGHT_STORE_PREFIX", settings.store_prefix.clone()),
        set("TURNWRIGHT_SHARDS", settings.shards.to_string()),
        set("TURNWRIGHT_DURABILITY", "strict".to_owned()),
        set("TURNWRIGHT_CONFIG", place.config.display().to_string()),
        set("TURNWRIGHT_TOPIC_PREFIX", settings.topic_prefix.clone()),
        set("TURNWRIGHT_WIRE_PUBLIC", "json".to_owned()),
        set("TURNWRIGHT_HTTP", "127.0.0.1:0".to_owned()),
        set("TURNWRIGHT_CLUSTER_ID", place.broker.cluster_id().to_owned()),
        set("TURNWRIGHT_DRAIN_TIMEOUT_MS", "5000".to_owned()),
    ];
    if let Ok(kafka) = kafka {
        environment.push(set("TURNWRIGHT_FETCH_WAIT_MS", kafka.fetch_wait_ms.to_string()));
        environment.push(set("TURNWRIGHT_SESSION_TIMEOUT_MS", kafka.session_timeout_ms.to_string()));
    }
    let foreign = [
        "TURNWRIGHT_KAFKA_PROPERTIES",
        "TURNWRIGHT_CONSUMER_PROPERTIES",
        "TURNWRIGHT_PRODUCER_PROPERTIES",
        "TURNWRIGHT_SCHEMA_REGISTRY",
        "TURNWRIGHT_GROUP_PROTOCOL",
        "TURNWRIGHT_GROUP_INSTANCE_ID",
        "TURNWRIGHT_OUTPUT",
    ];
    environment.extend(foreign.map(|name| (name.to_owned(), None)));
    environment
}

impl Processes {
    /// Returns once every service says that it is ready.
    pub async fn ready(&self, shutdown: &Shutdown) -> Result<(), Error> {
        let all = futures::future::join_all(self.services.iter().map(|(_, status, _)| ready(status.clone())));
        tokio::select! {
            _ = all => Ok(()),
            () = shutdown.triggered() => Ok(()),
            () = tokio::time::sleep(READY) => {
                self.explain();
                Err(Error::failed("dev", format!("the services are not ready after {} s", READY.as_secs())))
            }
        }
    }

    /// Prints the end of every log.
    pub fn explain(&self) {
        for (service, status, log) in &self.services {
            let starts = status.borrow().starts;
            eprintln!("--- {} (started {starts} times), {}", service.name(), log.display());
            last_lines(log, 5).iter().for_each(|line| eprintln!("  {line}"));
        }
    }

    /// Services first, so that they can still write what they have.
    pub async fn stop(mut self) {
        self.stop.trigger();
        while self.tasks.join_next().await.is_some() {}
        self.redis.stop().await;
    }
}

async fn ready(mut status: watch::Receiver<Status>) {
    loop {
        let address = status.borrow_and_update().http.clone();
        match address {
            Some(address) if answers(&address).await => return,
            Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            // The sender lives as long as the child is kept.
            None => drop(status.changed().await),
        }
    }
}

/// Whether `/readyz` says yes.
async fn answers(address: &str) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer.split(|byte| *byte == b' ').nth(1) == Some(b"200"))
    };
    matches!(tokio::time::timeout(Duration::from_secs(3), ask).await, Ok(Ok(true)))
}
