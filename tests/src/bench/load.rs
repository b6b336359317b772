//! The closed loop: so many invocations in flight, each followed by the next, latency from producing the request to consuming
//! its terminal event. Blocks its thread.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use protocol::{BudgetRequest, InvocationId, Request, RunEnded, TerminalReason};
use schemas::{Codec, Inbound, Topic, WireFormat};
use serde_json::json;
use uuid::Uuid;

use super::clients::{Reader, Requests};
use super::process::{Sample, sample};
use super::report::{Level, Usage, percentile, rounded};
use super::stages::{FOLLOWED, Stages};
use super::{Error, Options};

/// How long a look for a record may block.
const POLL: Duration = Duration::from_millis(20);
/// How often it is looked for invocations that take too long.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct Load {
    codec: Codec,
    requests: Requests,
    reader: Reader,
    pids: Vec<(String, u32)>,
    patience: Duration,
    open: HashMap<InvocationId, Instant>,
    /// The `ce_id` of each terminal event.
    ended: HashMap<InvocationId, String>,
    stages: Option<Stages>,
    pub invocations: u64,
    pub repeated: u64,
    errors: u64,
}

/// When a level is measured, and what it has seen.
struct Window {
    from: Instant,
    to: Instant,
    latencies_ms: Vec<f64>,
}

impl Load {
    pub fn new(brokers: &str, codec: Codec, pids: Vec<(String, u32)>, options: &Options) -> Result<Self, Error> {
        let mut topics = vec![Topic::Terminals, Topic::DeadLetters];
        if options.stages {
            topics = FOLLOWED.into_iter().chain([Topic::DeadLetters]).collect();
        }
        Ok(Self {
            requests: Requests::new(brokers, &codec)?,
            reader: Reader::new(brokers, &codec, &topics)?,
            codec,
            pids,
            patience: options.patience,
            open: HashMap::new(),
            ended: HashMap::new(),
            stages: options.stages.then(Stages::default),
            invocations: 0,
            repeated: 0,
            errors: 0,
        })
    }

    /// Runs one level, and waits until everything that it started has ended.
    pub fn level(&mut self, concurrency: usize, warm_up: Duration, measure: Duration) -> Result<Level, Error> {
        let from = Instant::now() + warm_up;
        let mut window = Window { from, to: from + measure, latencies_ms: Vec::new() };
        self.errors = 0;
        for _ in 0..concurrency {
            self.start()?;
        }
        self.turn_over(&mut window, from)?;
        if let Some(stages) = &mut self.stages {
            stages.take();
        }
        let before = self.samples();
        let until = window.to;
        self.turn_over(&mut window, until)?;
        let after = self.samples();
        self.drain(&mut window)?;
        let mut latencies = window.latencies_ms;
        latencies.sort_by(f64::total_cmp);
        Ok(Level {
            concurrency,
            per_s: rounded(latencies.len() as f64 / measure.as_secs_f64()),
            p50_ms: rounded(percentile(&latencies, 0.5)),
            p99_ms: rounded(percentile(&latencies, 0.99)),
            errors: self.errors,
            processes: self.usage(&before, &after, measure),
            stages: self.stages.as_mut().map(Stages::take).unwrap_or_default(),
            handled: Vec::new(),
        })
    }

    /// Keeps as many in flight until that time.
    fn turn_over(&mut self, window: &mut Window, until: Instant) -> Result<(), Error> {
        let mut look = Instant::now() + LOOK;
        while Instant::now() < until {
            if let Some(record) = self.reader.next(POLL)?
                && self.take(&record, window)?
            {
                self.start()?;
            }
            if Instant::now() >= look {
                look = Instant::now() + LOOK;
                for _ in 0..self.give_up() {
                    self.start()?;
                }
            }
        }
        Ok(())
    }

    fn drain(&mut self, window: &mut Window) -> Result<(), Error> {
        while !self.open.is_empty() {
            if let Some(record) = self.reader.next(POLL)? {
                self.take(&record, window)?;
            }
            self.give_up();
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Error> {
        let id = new_invocation_id();
        let record = self.codec.encode_request(&request(id), WireFormat::Json);
        let record = record.map_err(|error| Error::failed("a request", error))?;
        self.open.insert(id, Instant::now());
        self.invocations += 1;
        self.requests.send(&record)
    }

    /// Forgets those that take too long. How many.
    fn give_up(&mut self) -> usize {
        let (now, patience, before) = (Instant::now(), self.patience, self.open.len());
        self.open.retain(|_, started| now.duration_since(*started) < patience);
        let lost = before - self.open.len();
        self.errors += lost as u64;
        lost
    }

    /// Whether the record ends an invocation that is in flight.
    fn take(&mut self, record: &Inbound, window: &mut Window) -> Result<bool, Error> {
        let now = Instant::now();
        if record.topic == self.codec.topic_name(Topic::DeadLetters) {
            return Err(Error::Wrong(format!("a dead letter: {}", self.dead_letter(record))));
        }
        if let Some(stages) = &mut self.stages {
            let topic = FOLLOWED.into_iter().find(|topic| self.codec.topic_name(*topic) == record.topic);
            let id = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()?.parse().ok());
            if let Some((topic, id)) = topic.zip(id) {
                stages.arrived(id, topic, now);
            }
            if topic != Some(Topic::Terminals) {
                return Ok(false);
            }
        }
        let unreadable = |rejection| Error::failed("a terminal event", rejection);
        let ended: RunEnded = self.codec.decode(record).map_err(unreadable)?;
        let id = ended.scope.invocation_id;
        let event_id = record.header("ce_id").unwrap_or_default().to_owned();
        if let Some(known) = self.ended.get(&id) {
            if *known != event_id {
                return Err(Error::Wrong(format!("invocation {id} has ended twice, as {known} and as {event_id}")));
            }
            self.repeated += 1;
            return Ok(false);
        }
        self.ended.insert(id, event_id);
        let Some(started) = self.open.remove(&id) else {
            return Ok(false);
        };
        if ended.reason != TerminalReason::Completed {
            self.errors += 1;
            eprintln!("bench: {id} has ended {}: {}", ended.reason.as_str(), ended.detail);
        } else if now >= window.from && now < window.to {
            window.latencies_ms.push(now.duration_since(started).as_secs_f64() * 1e3);
        }
        Ok(true)
    }

    fn dead_letter(&self, record: &Inbound) -> String {
        match self.codec.decode_dead_letter(record) {
            Ok(letter) => format!("{letter:?}"),
            Err(rejection) => rejection.to_string(),
        }
    }

    fn samples(&self) -> Vec<Sample> {
        self.pids.iter().map(|(_, pid)| sample(*pid)).collect()
    }

    fn usage(&self, before: &[Sample], after: &[Sample], time: Duration) -> Vec<Usage> {
        let of = |((name, _), (before, after)): (&(String, u32), (&Sample, &Sample))| Usage {
            name: name.clone(),
            cpu: rounded(after.cpu.saturating_sub(before.cpu).as_secs_f64() / time.as_secs_f64()),
            rss_mb: rounded(after.rss_bytes as f64 / 1e6),
        };
        self.pids.iter().zip(before.iter().zip(after)).map(of).collect()
    }
}

fn request(id: InvocationId) -> Request {
    Request {
        invocation_id: id,
        tenant: "bench".into(),
        actor: "bench".into(),
        task_type: "lookup-3".into(),
        agent: "lookup-3".into(),
        goal: json!("Look up the profile and the policy, count one, and answer."),
        tools: None,
        budget: BudgetRequest::default(),
        deadline: None,
        output_schema: None,
        goal_predicates: Vec::new(),
        labels: Default::default(),
        requested_at: None,
    }
}

#[allow(clippy::disallowed_methods, reason = "a caller makes IDs of its own")]
fn new_invocation_id() -> InvocationId {
    InvocationId(Uuid::now_v7())
}
