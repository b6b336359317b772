//! Real Kafka and real Redis, by the same scripts that `make up` uses. Each has a guard: a shell that holds our pipe and
//! stops what it guards when the pipe ends, so that nothing survives a test, even one that was killed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use super::Error;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the repository")
}

/// A running Kafka of one broker, gone with its data when dropped.
pub struct Kafka {
    guarded: Guarded,
    pub brokers: String,
}

impl Kafka {
    /// Starts a cluster that nobody else uses.
    pub fn start() -> Result<Self, Error> {
        let guarded = Guarded::new("infra/kafka/kafka.sh", "kafka")?;
        let brokers = guarded.start(&[])?;
        Ok(Self { guarded, brokers })
    }

    /// Stops it now, rather than when dropped, and says when that fails.
    pub fn stop(mut self) -> Result<(), Error> {
        self.guarded.stop()
    }
}

/// A running Redis, durable as in production, gone with its data when dropped.
pub struct Redis {
    _guarded: Guarded,
    pub url: String,
}

impl Redis {
    fn start() -> Result<Self, Error> {
        // `appendonly yes`, `appendfsync always` and `noeviction` stand in redis.conf; the services check them.
        let guarded = Guarded::new("infra/redis/redis.sh", "redis")?;
        let url = guarded.start(&[])?;
        Ok(Self { _guarded: guarded, url })
    }
}

/// The Kafka that all tests of one executable share, for a JVM takes seconds to start; they keep apart by their prefixes.
/// It stops when the process ends: a static is never dropped, but its guard's pipe closes.
pub fn shared_kafka() -> Result<&'static Kafka, Error> {
    static KAFKA: OnceLock<Result<Kafka, Error>> = OnceLock::new();
    KAFKA.get_or_init(Kafka::start).as_ref().map_err(Clone::clone)
}

/// The Redis that all tests of one executable share.
pub fn shared_redis() -> Result<&'static Redis, Error> {
    static REDIS: OnceLock<Result<Redis, Error>> = OnceLock::new();
    REDIS.get_or_init(Redis::start).as_ref().map_err(Clone::clone)
}

struct Guarded {
    script: PathBuf,
    data: PathBuf,
    guard: Child,
    pipe: Option<ChildStdin>,
}

impl Guarded {
    /// The guard comes first, so that there is no moment in which something runs without one.
    fn new(script: &str, name: &str) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::io(script, &error);
        let script = root().join(script);
        let data = tempfile::Builder::new().prefix(&format!("turnwright-test-{name}-")).tempdir().map_err(failed)?;
        let data = data.keep();
        let mut guard = Command::new("bash")
            .args(["-c", "cat >/dev/null; \"$0\" stop --data \"$1\" --timeout 10; rm -rf \"$1\""])
            .args([&script, &data])
            // Ctrl-C reaches the whole group of a terminal, and must not end the guard before it has cleaned up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let pipe = guard.stdin.take();
        Ok(Self { script, data, guard, pipe })
    }

    /// Starts what is guarded, and gives what the script prints: its address.
    fn start(&self, options: &[&str]) -> Result<String, Error> {
        let what = format!("{} start", self.script.display());
        let output = Command::new(&self.script)
            .arg("start")
            .arg("--data")
            .arg(&self.data)
            .args(["--port", "auto"])
            .args(options)
            .output()
            .map_err(|error| Error::io(&what, &error))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(Error::failed(what, String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn stop(&mut self) -> Result<(), Error> {
        drop(self.pipe.take());
        let ended = self.guard.wait().map_err(|error| Error::io("the guard", &error))?;
        if ended.success() { Ok(()) } else { Err(Error::failed("the guard", ended)) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // A failure has no one to go to here, and the guard goes on by itself.
        let _ = self.stop();
    }
}
