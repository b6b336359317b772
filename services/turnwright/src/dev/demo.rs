//! The demo: one request, its event log, its answer.

use std::time::{Duration, Instant};

use protocol::{Event, Fact, Request, RunEnded};
use schemas::{Codec, Topic};
use serde_json::json;

use super::Progress;
use crate::commands::{invoke, watch};
use crate::error::Error;
use crate::follow::{From, Tail};
use crate::settings::Settings;
use crate::timeline::Timeline;
use crate::{client, edge, exit, render};

/// The whole demo; the first group join alone takes a mock broker three seconds.
const LIMIT: Duration = Duration::from_secs(18);
/// How long the log may come after the terminal event: order across topics is not promised.
const LOG: Duration = Duration::from_secs(3);

pub const AGENT: &str = "refund-desk";
pub const TENANT: &str = "demo";
const GOAL: &str = "May customer c-1001 have a refund? Name the profile and the policy.";

pub async fn run(settings: &Settings, progress: &Progress) -> Result<u8, Error> {
    let codec = Codec::new(settings.codec());
    let request = request();
    let id = request.invocation_id;
    let tail = Tail::open(settings, vec![(codec.topic_name(Topic::Events), From::Now)]).await?;
    let waiting = invoke::Waiting::open(settings, &codec, id, From::Now).await?;
    client::publish(settings, invoke::encode(&codec, &request)?).await?;
    progress.step("the request is produced; waiting for the services to join and the run to end");
    let (_, ended) = waiting.end(&codec, LIMIT).await?;
    let events = log(&codec, &tail, &request).await?;
    progress.done();
    print(settings, &events, &ended);
    Ok(exit::of(ended.reason, ended.effects_unresolved))
}

fn request() -> Request {
    Request {
        invocation_id: edge::new_invocation_id(),
        tenant: TENANT.into(),
        actor: "demo".into(),
        task_type: "refund".into(),
        agent: AGENT.into(),
        goal: GOAL.into(),
        tools: None,
        budget: protocol::BudgetRequest::default(),
        deadline: None,
        output_schema: None,
        goal_predicates: Vec::new(),
        labels: std::collections::BTreeMap::new(),
        requested_at: Some(edge::now()),
    }
}

/// The run's events, up to its end.
async fn log(codec: &Codec, tail: &Tail, request: &Request) -> Result<Vec<Event>, Error> {
    let key = request.invocation_id.to_string().into_bytes();
    let mut timeline = Timeline::new(true);
    let mut events: Vec<Event> = Vec::new();
    let reading = async {
        while !events.iter().any(|event| matches!(event.fact, Fact::Ended { .. })) {
            let record = tail.next().await?;
            if record.key.as_ref() == Some(&key)
                && let Some(committed) = watch::read(codec, &record).await
            {
                events.extend(timeline.take(committed, Instant::now()).into_iter().map(|line| line.event));
            }
        }
        Ok(())
    };
    match tokio::time::timeout(LOG, reading).await {
        Ok(read) => read.map(|()| events),
        Err(_) => {
            let why =
                format!("{} events of the log are here after {} s, and its end is not", events.len(), LOG.as_secs());
            Err(Error::failed("the event log", why))
        }
    }
}

fn print(settings: &Settings, events: &[Event], ended: &RunEnded) {
    if settings.is_json() {
        return render::json(&json!({ "events": events, "terminal": ended }));
    }
    render::print(&watch::table(events));
    render::line(summary(ended));
}

/// Reason, answer, spending: one line.
pub fn summary(ended: &RunEnded) -> String {
    let answer = match &ended.answer {
        Some(answer) => render::value(answer, 2_000),
        None => render::clean(&ended.detail, 500),
    };
    format!("{}: {answer} (steps={} tool_calls={})", ended.reason.as_str(), ended.spent.steps, ended.spent.tool_calls)
}
