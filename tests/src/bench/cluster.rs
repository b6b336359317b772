//! What is measured: a Kafka, a Redis, the effect's owner and one process of each service, all new, all on loopback, and all
//! gone when it is dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::{Error, Options};
use crate::owner::{Owner, OwnerConfig, spawn_owner};

pub(super) const SERVICES: [&str; 5] = ["committer", "decision", "validation", "tool-executor", "reconciler"];
/// Where the example's files say that the owner is; the copy names its real address.
const OWNER_IN_FILES: &str = "127.0.0.1:28090";
const READY_WITHIN: Duration = Duration::from_secs(60);

pub(super) struct Cluster {
    services: Vec<Service>,
    pub owner: Owner,
    pub brokers: String,
    store: String,
    directory: TempDir,
}

struct Service {
    name: &'static str,
    child: Child,
    /// It ends when this is closed, even if we are killed.
    _stdin: Option<ChildStdin>,
    http: String,
}

impl Cluster {
    pub async fn start(options: &Options) -> Result<Self, Error> {
        let directory = tempfile::Builder::new().prefix("turnwright-bench.").tempdir();
        let directory = directory.map_err(|error| Error::failed("a directory for the data", error))?;
        let owner = spawn_owner(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), OwnerConfig::default()).await;
        let owner = owner.map_err(|error| Error::failed("the effect's owner", error))?;
        copy_configuration(&root().join("infra/examples/bench"), &directory.path().join("config"), &owner)?;
        let mut cluster = Self { services: Vec::new(), owner, brokers: String::new(), store: String::new(), directory };
        eprintln!("bench: starting Kafka and Redis in {}", cluster.directory.path().display());
        let (kafka, redis) = (cluster.data("kafka"), cluster.data("redis"));
        (cluster.brokers, cluster.store) = tokio::try_join!(
            script("infra/kafka/kafka.sh", "start", &kafka),
            script("infra/redis/redis.sh", "start", &redis)
        )?;
        let topics = topics_file(&cluster.data("topics.yaml"), options.partitions)?;
        let mut apply = cluster.command(options);
        apply.args(["topics", "apply", "--file"]).arg(topics);
        finished("turnwright topics apply", apply).await?;
        for name in SERVICES {
            let service = cluster.spawn(options, name).await?;
            cluster.services.push(service);
        }
        cluster.ready().await?;
        Ok(cluster)
    }

    /// The processes whose CPU and memory count.
    pub fn pids(&self) -> Vec<(String, u32)> {
        let services = self.services.iter().filter_map(|service| Some((service.name.to_owned(), service.child.id()?)));
        let kept = [("kafka", "kafka/node-1/kafka.pid"), ("redis", "redis/redis.pid")];
        let kept = kept.into_iter().filter_map(|(name, file)| {
            let text = std::fs::read_to_string(self.directory.path().join(file)).ok()?;
            Some((name.to_owned(), text.split_whitespace().next()?.parse().ok()?))
        });
        services.chain(kept).chain([("bench and owner".to_owned(), std::process::id())]).collect()
    }

    /// Metrics of a service in the Prometheus text format.
    pub async fn scrape(&self) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        for service in &self.services {
            let text = match reqwest::get(format!("http://{}/metrics", service.http)).await {
                Ok(response) => response.text().await.unwrap_or_default(),
                Err(_) => String::new(),
            };
            texts.push((service.name.to_owned(), text));
        }
        texts
    }

    /// The last lines of every service's log.
    pub fn logs(&self) -> String {
        let tail = |name: &str| {
            let text = std::fs::read_to_string(self.log(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {name}\n{}\n", lines[lines.len().saturating_sub(8)..].join("\n"))
        };
        SERVICES.iter().map(|name| tail(name)).collect()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.data(&format!("{name}.log"))
    }

    fn command(&self, options: &Options) -> Command {
        let mut command = Command::new(&options.binary);
        command
            .current_dir(self.directory.path())
            .env("TURNWRIGHT_BROKERS", &self.brokers)
            .env("TURNWRIGHT_STORE", &self.store)
            .env("TURNWRIGHT_CONFIG", self.data("config"))
            // What Helm sets: callers' topics are Avro in production.
            .env("TURNWRIGHT_WIRE_PUBLIC", "avro")
            .env("TURNWRIGHT_HTTP", "127.0.0.1:0")
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn spawn(&self, options: &Options, name: &'static str) -> Result<Service, Error> {
        let log = std::fs::File::create(self.log(name)).map_err(|error| Error::of_file(&self.log(name), error))?;
        let mut command = self.command(options);
        command.args(["serve", name, "--supervised"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| Error::of_file(&options.binary, error))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| Error::failed(name, "it has no standard output"))?;
        let first = tokio::time::timeout(READY_WITHIN, BufReader::new(stdout).lines().next_line()).await;
        let first = first.ok().and_then(Result::ok).flatten();
        let http = first.as_deref().and_then(|line| line.strip_prefix("http "));
        let http = http.ok_or_else(|| Error::failed(name, format!("it did not start\n{}", self.logs())))?.to_owned();
        Ok(Service { name, child, _stdin: stdin, http })
    }

    async fn ready(&self) -> Result<(), Error> {
        let until = Instant::now() + READY_WITHIN;
        for service in &self.services {
            let url = format!("http://{}/readyz", service.http);
            while !matches!(reqwest::get(&url).await, Ok(response) if response.status().is_success()) {
                if Instant::now() >= until {
                    return Err(Error::failed(service.name, format!("it is not ready\n{}", self.logs())));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The services first: they would only complain about a broker that is gone.
        for service in &mut self.services {
            let _ = service.child.start_kill();
        }
        for (path, name) in [("infra/redis/redis.sh", "redis"), ("infra/kafka/kafka.sh", "kafka")] {
            let mut stop = std::process::Command::new(root().join(path));
            stop.arg("stop").arg("--data").arg(self.data(name)).args(["--timeout", "3"]);
            if let Err(error) = stop.stdout(Stdio::null()).stderr(Stdio::null()).status() {
                eprintln!("bench: {name} may still run: {error}");
            }
        }
    }
}

/// The clone that this was built from: the infrastructure's scripts and the example's files.
pub(super) fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

fn copy_configuration(from: &Path, to: &Path, owner: &Owner) -> Result<(), Error> {
    std::fs::create_dir(to).map_err(|error| Error::of_file(to, error))?;
    for entry in std::fs::read_dir(from).map_err(|error| Error::of_file(from, error))? {
        let path = entry.map_err(|error| Error::of_file(from, error))?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_configuration(&path, &copy, owner)?;
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| Error::of_file(&path, error))?;
        let text = text.replace(OWNER_IN_FILES, &owner.addr.to_string());
        std::fs::write(&copy, text).map_err(|error| Error::of_file(&copy, error))?;
    }
    Ok(())
}

/// A copy of the topics' file with so many partitions each.
fn topics_file(to: &Path, partitions: u32) -> Result<PathBuf, Error> {
    let from = root().join("infra/topics.yaml");
    let text = std::fs::read_to_string(&from).map_err(|error| Error::of_file(&from, error))?;
    let mut file: serde_yaml_ng::Value =
        serde_yaml_ng::from_str(&text).map_err(|error| Error::of_file(&from, error))?;
    file["defaults"]["partitions"] = partitions.into();
    let text = serde_yaml_ng::to_string(&file).map_err(|error| Error::of_file(&from, error))?;
    std::fs::write(to, text).map_err(|error| Error::of_file(to, error))?;
    Ok(to.to_owned())
}

/// Runs one of the infrastructure's scripts; what it prints is the address.
async fn script(path: &str, action: &str, data: &Path) -> Result<String, Error> {
    let mut command = Command::new(root().join(path));
    command.arg(action).arg("--data").arg(data).args(["--port", "auto"]).stdin(Stdio::null());
    finished(path, command).await
}

/// What a command prints, once it has ended well.
async fn finished(what: &str, mut command: Command) -> Result<String, Error> {
    let output = command.output().await.map_err(|error| Error::failed(what, error))?;
    if !output.status.success() {
        return Err(Error::failed(what, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
