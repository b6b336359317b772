//! Real Redis servers for tests: each has its own free port and directory, and is killed when its last user is gone.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub const DURABLE: [&str; 6] = ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"];

/// How long anything that must happen may take.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub struct Server {
    process: Mutex<Child>,
    args: Vec<String>,
    pub port: u16,
    dir: TempDir,
}

impl Server {
    pub fn start(args: &[&str]) -> Self {
        // A free port may be taken by somebody else before the server binds it, so a second one is tried.
        (0..5).find_map(|_| Self::try_start(args)).expect("redis-server starts on one of five free ports")
    }

    /// A cluster of one node, which holds every slot.
    pub fn start_cluster() -> Self {
        let bus = free_port().to_string();
        let server = Self::start(&[&DURABLE[..], &["--cluster-enabled", "yes", "--cluster-port", &bus]].concat());
        server.ask::<()>(redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383));
        poll(|| server.ask::<String>(redis::cmd("CLUSTER").arg("INFO")).contains("cluster_state:ok").then_some(()));
        server
    }

    fn try_start(args: &[&str]) -> Option<Self> {
        let (port, dir) = (free_port(), TempDir::new().expect("a temporary directory"));
        let mut all: Vec<String> =
            ["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"].map(str::to_owned).to_vec();
        all.push(dir.path().to_str().expect("a temporary path is text").to_owned());
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        let server = Self { process: Mutex::new(spawn(&all)), args: all, port, dir };
        server.wait_ready().then_some(server)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Asks the server directly.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let mut connection = self.connect().expect("the server takes connections");
        command.query(&mut connection).expect("the server answers")
    }

    fn connect(&self) -> redis::RedisResult<redis::Connection> {
        redis::Client::open(self.url())?.get_connection_with_timeout(Duration::from_secs(1))
    }

    /// Kills the server at once and starts it again on the same port and directory.
    pub fn kill_and_restart(&self) {
        let mut process = self.process();
        process.kill().expect("the server can be killed");
        process.wait().expect("the server ends");
        *process = spawn(&self.args);
        drop(process);
        assert!(self.wait_ready(), "the server did not start again");
    }

    /// Bytes of the append-only log.
    pub fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.log_file()).expect("the log file is there").len()
    }

    /// Kills the server, cuts its log off at that length, as a power loss may, and starts it again.
    pub fn cut_back_and_restart(&self, bytes: u64) {
        let mut process = self.process();
        process.kill().expect("the server can be killed");
        process.wait().expect("the server ends");
        let file = std::fs::OpenOptions::new().write(true).open(self.log_file()).expect("the log file opens");
        file.set_len(bytes).expect("the log file can be cut");
        *process = spawn(&self.args);
        drop(process);
        assert!(self.wait_ready(), "the server did not start again");
    }

    fn log_file(&self) -> std::path::PathBuf {
        let directory = self.dir.path().join("appendonlydir");
        let files = std::fs::read_dir(directory).expect("the log's directory").map(|file| file.expect("a file").path());
        files.into_iter().find(|file| file.to_string_lossy().contains(".incr.")).expect("the log file")
    }

    /// Whether the server came up; false when its process ended.
    fn wait_ready(&self) -> bool {
        poll(|| {
            let up = self.connect().is_ok_and(|mut it| redis::cmd("PING").query::<String>(&mut it).is_ok());
            let ended = self.process().try_wait().expect("the process can be asked").is_some();
            if ended { Some(false) } else { up.then_some(true) }
        })
    }

    fn process(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut process = self.process();
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// The durable server that tests share while any of them holds it.
pub fn shared() -> Arc<Server> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(Server::start(&DURABLE));
    *shared = Arc::downgrade(&server);
    server
}

/// Tries until there is an answer; fails at the deadline.
pub fn poll<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "nothing happened within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn spawn(args: &[String]) -> Child {
    Command::new("redis-server")
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("these tests need redis-server 7 or newer in PATH (apt-get install redis-server)")
}

pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}
