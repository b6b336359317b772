//! One service as a process of its own, with its log in a file. `--supervised` ties it to our pipe, so that it cannot
//! outlive a test that was killed; signals reach it as they would anywhere.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::{Error, edge};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceName {
    Committer,
    Decision,
    Validation,
    ToolExecutor,
    Reconciler,
}

impl ServiceName {
    pub const ALL: [Self; 5] =
        [Self::Committer, Self::Decision, Self::Validation, Self::ToolExecutor, Self::Reconciler];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Committer => "committer",
            Self::Decision => "decision",
            Self::Validation => "validation",
            Self::ToolExecutor => "tool-executor",
            Self::Reconciler => "reconciler",
        }
    }
}

/// A process, running or ended; killed when dropped.
pub struct Service {
    pub name: ServiceName,
    pub replica: usize,
    child: Child,
    log: PathBuf,
    told: Receiver<SocketAddr>,
    http: Option<SocketAddr>,
}

/// How often a state that cannot be waited for is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(25);

impl Service {
    pub(super) fn spawn(
        name: ServiceName,
        replica: usize,
        directory: &Path,
        env: &[(&'static str, String)],
    ) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::io(name.as_str(), &error);
        let log = directory.join(format!("{}-{replica}.log", name.as_str()));
        let out = File::options().create(true).append(true).open(&log).map_err(failed)?;
        let mut child = Command::new(edge::binary()?)
            .args(["serve", name.as_str(), "--supervised", "--http", "127.0.0.1:0"])
            .current_dir(directory)
            .env_clear()
            .envs(edge::inherited())
            .env("HOSTNAME", format!("{}-{replica}", name.as_str()))
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(out)
            .spawn()
            .map_err(failed)?;
        let (tell, told) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            // Reads to the end, or the process would stop at a full pipe.
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if let Some(address) = line.strip_prefix("http ").and_then(|text| text.parse().ok()) {
                        let _ = tell.send(address);
                    }
                }
            });
        }
        Ok(Self { name, replica, child, log, told, http: None })
    }

    /// Waits until `/readyz` says yes: a member of its group, its store within reach.
    pub fn wait_ready(&mut self, within: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        let mut seen = "it has not said where it listens".to_owned();
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().map_err(|error| Error::io("waiting", &error))? {
                return Err(Error::failed(self.label(), format!("ended at its start with {status}\n{}", self.tail())));
            }
            match self.http {
                None => self.http = self.told.recv_timeout(LOOK).ok(),
                Some(address) => match readyz(address) {
                    Ok(answer) if answer.starts_with("HTTP/1.1 200") => return Ok(()),
                    Ok(answer) => seen = answer.lines().last().unwrap_or_default().to_owned(),
                    Err(error) => seen = error.to_string(),
                },
            }
            std::thread::sleep(LOOK);
        }
        Err(Error::Late { what: format!("{} ready", self.label()), within, seen: format!("{seen}\n{}", self.tail()) })
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::io("SIGKILL", &error);
        if let Some(status) = self.child.try_wait().map_err(failed)? {
            return Err(Error::failed(self.label(), format!("had ended by itself with {status}\n{}", self.tail())));
        }
        self.child.kill().map_err(failed)?;
        self.child.wait().map(|_| ()).map_err(failed)
    }

    /// SIGTERM: asks it to drain and end.
    pub fn terminate(&self) -> Result<(), Error> {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Error::failed(format!("SIGTERM to {}", self.label()), status)),
            Err(error) => Err(Error::io("kill", &error)),
        }
    }

    /// Waits until it has ended by itself.
    pub fn wait_end(&mut self, within: Duration) -> Result<ExitStatus, Error> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| Error::io("waiting", &error))? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                let what = format!("the end of {}", self.label());
                return Err(Error::Late { what, within, seen: self.tail() });
            }
            std::thread::sleep(LOOK);
        }
    }

    pub fn label(&self) -> String {
        format!("{}-{}", self.name.as_str(), self.replica)
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(30)..].join("\n");
        format!("--- last lines of {} ---\n{last}\n---", self.label())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn readyz(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
