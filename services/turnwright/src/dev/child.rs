//! One child process: started, watched, started again when it ends, stopped when told to.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use chassis::{RetryPolicy, Shutdown};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use super::Progress;
use crate::error::Error;

/// What to run.
pub struct Program {
    pub name: &'static str,
    pub executable: PathBuf,
    pub arguments: Vec<String>,
    /// Set, or with `None` unset.
    pub environment: Vec<(String, Option<String>)>,
    pub log: PathBuf,
}

/// What is known of a child.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Where it serves its probes, once it has said so.
    pub http: Option<String>,
    pub starts: u32,
}

/// How fast a child is started again.
const RESTART: RetryPolicy = RetryPolicy { initial: Duration::from_millis(200), max: Duration::from_secs(10) };
/// A child that ran this long was well; the next end starts with a short delay again.
const WELL: Duration = Duration::from_secs(10);
/// How long a child may drain.
const DRAIN: Duration = Duration::from_secs(8);

impl Program {
    fn command(&self) -> Result<Command, Error> {
        let failed = |error| Error::failed(self.log.display().to_string(), error);
        let log = OpenOptions::new().create(true).append(true).open(&self.log).map_err(failed)?;
        let mut command = Command::new(&self.executable);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        // Ctrl-C is for the supervisor, which stops its children in order.
        command.process_group(0);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ok(command)
    }

    /// Keeps the program running until the stop. Every end is told, and the rate of starts is bounded.
    pub async fn keep(self, stop: Shutdown, status: watch::Sender<Status>, progress: Progress) -> Result<(), Error> {
        let mut backoff = RESTART.start();
        while !stop.is_triggered() {
            let started = Instant::now();
            let mut child = self.command()?.spawn().map_err(|error| Error::failed(self.name, error))?;
            status.send_modify(|status| status.starts += 1);
            // Held here until the child has ended: its end tells the child that its parent is gone.
            let stdin = child.stdin.take();
            self.listen(&mut child, &status);
            let ended = tokio::select! {
                ended = child.wait() => ended,
                () = stop.triggered() => {
                    self.stop(child, stdin).await;
                    break;
                }
            };
            status.send_modify(|status| status.http = None);
            if started.elapsed() >= WELL {
                backoff = RESTART.start();
            }
            let delay = backoff.next_delay();
            progress.say(&format!(
                "{} ended ({}); starting it again in {} ms{}",
                self.name,
                ended.map_or_else(|error| error.to_string(), |ended| ended.to_string()),
                delay.as_millis(),
                self.last_line()
            ));
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = stop.triggered() => {}
            }
        }
        Ok(())
    }

    /// Notes what the child says of itself.
    fn listen(&self, child: &mut Child, status: &watch::Sender<Status>) {
        let Some(stdout) = child.stdout.take() else { return };
        let status = status.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = line.strip_prefix("http ") {
                    status.send_modify(|status| status.http = Some(address.to_owned()));
                }
            }
        });
    }

    /// Lets the child drain, up to a deadline.
    async fn stop(&self, mut child: Child, stdin: Option<ChildStdin>) {
        let mut stdin = stdin;
        if let Some(stdin) = stdin.as_mut() {
            // A child that has just ended cannot be told, and need not be.
            let _ = stdin.write_all(b"stop\n").await;
        }
        if tokio::time::timeout(DRAIN, child.wait()).await.is_err() {
            eprintln!("{} does not stop; killing it", self.name);
            let _ = child.kill().await;
        }
    }

    fn last_line(&self) -> String {
        last_lines(&self.log, 1).pop().map_or_else(String::new, |line| format!("\n  its last line: {line}"))
    }
}

/// The last lines of a log.
pub fn last_lines(log: &std::path::Path, most: usize) -> Vec<String> {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = VecDeque::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        lines.push_back(crate::render::clean(line, 400));
        if lines.len() > most {
            lines.pop_front();
        }
    }
    lines.into()
}
