//! The store of `dev`: a redis-server on a loopback port that keeps what it acknowledges.

use std::path::Path;
use std::time::Duration;

use chassis::Shutdown;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Progress;
use super::child::{Program, Status, last_lines};
use super::place::Place;
use crate::error::Error;

/// How long it may take to load its data.
const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(5);

pub struct Redis {
    url: String,
    log: std::path::PathBuf,
    stop: Shutdown,
    task: JoinHandle<Result<(), Error>>,
}

impl Redis {
    /// Starts it as a child that cannot outlive this process.
    pub fn start(place: &Place, executable: &Path, program: &Path, progress: Progress) -> Result<Self, Error> {
        let data = place.data.join("redis");
        std::fs::create_dir_all(&data).map_err(|error| Error::failed(data.display().to_string(), error))?;
        let port = place.redis_port.ok_or_else(|| Error::failed("redis", "this cluster has its store in memory"))?;
        let settings = [
            ("--bind", "127.0.0.1"),
            ("--port", &port.to_string()),
            ("--dir", &data.display().to_string()),
            ("--appendonly", "yes"),
            ("--appendfsync", "always"),
            ("--no-appendfsync-on-rewrite", "no"),
            ("--maxmemory-policy", "noeviction"),
            ("--save", ""),
            ("--daemonize", "no"),
        ];
        let mut arguments = vec!["guard".to_owned(), program.display().to_string()];
        arguments.extend(settings.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]));
        let log = place.log("redis");
        let program = Program {
            name: "redis",
            executable: executable.to_owned(),
            arguments,
            environment: Vec::new(),
            log: log.clone(),
        };
        let stop = Shutdown::new();
        let (sender, _) = watch::channel(Status::default());
        let task = tokio::spawn(program.keep(stop.clone(), sender, progress));
        Ok(Self { url: place.settings.store.clone(), log, stop, task })
    }

    /// Returns once it answers.
    pub async fn answering(&mut self, shutdown: &Shutdown) -> Result<(), Error> {
        let answered = async {
            while !ping(&self.url).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = answered => Ok(()),
            () = shutdown.triggered() => Ok(()),
            () = tokio::time::sleep(START) => {
                let why = format!("no answer after {} s; {}", START.as_secs(), last_lines(&self.log, 3).join(" / "));
                Err(Error::failed("redis-server", why))
            }
        }
    }

    /// Asks it to end, which it does in order; ends it if it does not.
    pub async fn stop(self) {
        let ended = async {
            // From here on an end is what was wanted, so it is not started again.
            self.stop.trigger();
            ask(&self.url, "SHUTDOWN").await;
            let _ = self.task.await;
        };
        if tokio::time::timeout(STOP, ended).await.is_err() {
            eprintln!("redis-server does not stop in time; it ends with this process");
        }
    }
}

async fn ping(url: &str) -> bool {
    ask(url, "PING").await
}

async fn ask(url: &str, command: &str) -> bool {
    let asked = async {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd(command).query_async::<redis::Value>(&mut connection).await
    };
    matches!(tokio::time::timeout(Duration::from_secs(2), asked).await, Ok(Ok(_)))
}
