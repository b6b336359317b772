//! `watch`: the event log as it is written.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::Args;
use protocol::{EventsCommitted, Fact, InvocationId};
use schemas::{Codec, Inbound, Topic};
use serde_json::json;

use crate::client::codec;
use crate::error::Error;
use crate::follow::{From, Tail};
use crate::settings::Settings;
use crate::timeline::{Line, Timeline, Words};
use crate::{exit, render};

/// Follows the event log: of one invocation until it ends, or of all until Ctrl-C.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  turnwright watch\n  turnwright watch 0198c0de-0000-7000-8000-000000000001 --from-start -o json"
)]
pub struct Arguments {
    /// Only this invocation.
    pub invocation: Option<InvocationId>,
    /// Begins with the oldest event that is kept.
    #[arg(long)]
    pub from_start: bool,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let codec = codec(settings).await?;
    let from = if arguments.from_start { From::Start } else { From::Now };
    let tail = Tail::open(settings, vec![(codec.topic_name(Topic::Events), from)]).await?;
    let mut timeline = Timeline::new(arguments.from_start);
    let mut words: HashMap<InvocationId, Words> = HashMap::new();
    let wanted = arguments.invocation.map(|id| id.to_string().into_bytes());
    loop {
        let next = tokio::select! {
            next = tokio::time::timeout(Duration::from_millis(250), tail.next()) => next,
            _ = tokio::signal::ctrl_c() => return Ok(exit::COMPLETED),
        };
        let lines = match next {
            Err(_) => timeline.release_stale(Instant::now()),
            Ok(record) => {
                let record = record?;
                if wanted.is_some() && record.key != wanted {
                    continue;
                }
                match read(&codec, &record).await {
                    Some(events) => timeline.take(events, Instant::now()),
                    None => continue,
                }
            }
        };
        for line in lines {
            let ended = matches!(line.event.fact, Fact::Ended { .. });
            print(settings, &line, words.entry(line.invocation).or_default());
            if ended {
                words.remove(&line.invocation);
                if wanted.is_some() {
                    return Ok(exit::COMPLETED);
                }
            }
        }
    }
}

/// The record's events. One that cannot be read is named and passed over: others still can.
pub async fn read(codec: &Codec, record: &Inbound) -> Option<EventsCommitted> {
    if let Err(error) = codec.learn(std::slice::from_ref(record)).await {
        eprintln!("the schema registry: {error}");
    }
    let place = || format!("{}[{}]@{}", record.topic, record.partition, record.offset);
    codec.decode(record).inspect_err(|error| eprintln!("{} is passed over: {error}", place())).ok()
}

fn print(settings: &Settings, line: &Line, words: &mut Words) {
    let Line { invocation, event, after_gap } = line;
    if settings.is_json() {
        let mut value = serde_json::to_value(event).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("invocation_id".into(), json!(invocation));
            object.insert("after_gap".into(), json!(after_gap));
        }
        return render::json(&value);
    }
    if *after_gap {
        render::line(format!("{:12}  {:>36}  …earlier events are missing or late", "", invocation));
    }
    render::line(format!(
        "{:12}  {invocation}  {:>3}  step {:<2}  {:<22}  {}",
        render::clock_time(event.at),
        event.version.0,
        event.step.0,
        event.fact.name(),
        words.tell(event)
    ));
}

/// The log of one run as a table.
pub fn table(events: &[protocol::Event]) -> comfy_table::Table {
    let mut table = render::table(["time (UTC)", "version", "step", "event", "what"]);
    let mut words = Words::default();
    for event in events {
        let what = words.tell(event);
        let (version, step) = (event.version.to_string(), event.step.to_string());
        table.add_row([render::clock_time(event.at), version, step, event.fact.name().to_owned(), what]);
    }
    table
}
