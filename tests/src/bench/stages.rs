//! How long each hop of a run takes, seen from outside: the time between a record and the one it led to, both as they reach
//! a reader of all topics.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use protocol::InvocationId;
use schemas::Topic;
use serde::Serialize;

use super::report::{percentile, rounded};

/// One hop, over all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hop {
    /// The turn, and both topics.
    pub hop: String,
    pub count: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// What the records of a topic are caused by.
fn causes(topic: Topic) -> &'static [Topic] {
    match topic {
        Topic::Turns => &[Topic::Invocations, Topic::Results],
        Topic::Decisions => &[Topic::Turns],
        Topic::Verdicts => &[Topic::Decisions],
        Topic::Dispatches | Topic::Terminals => &[Topic::Verdicts],
        Topic::Results => &[Topic::Dispatches],
        Topic::Invocations
        | Topic::Controls
        | Topic::OutcomeUnknown
        | Topic::Resolutions
        | Topic::Events
        | Topic::DeadLetters => &[],
    }
}

/// The topics whose records are followed.
pub(super) const FOLLOWED: [Topic; 7] = [
    Topic::Invocations,
    Topic::Turns,
    Topic::Decisions,
    Topic::Verdicts,
    Topic::Dispatches,
    Topic::Results,
    Topic::Terminals,
];

#[derive(Default)]
struct Followed {
    turn: u32,
    last: HashMap<Topic, Instant>,
}

#[derive(Default)]
pub(super) struct Stages {
    runs: HashMap<InvocationId, Followed>,
    hops: BTreeMap<(u32, Topic, Topic), Vec<f64>>,
}

impl Stages {
    pub fn arrived(&mut self, id: InvocationId, topic: Topic, at: Instant) {
        let run = self.runs.entry(id).or_default();
        let cause = causes(topic).iter().filter_map(|cause| Some((*cause, *run.last.get(cause)?)));
        if let Some((cause, before)) = cause.max_by_key(|(_, before)| *before) {
            let ms = at.duration_since(before).as_secs_f64() * 1e3;
            self.hops.entry((run.turn, cause, topic)).or_default().push(ms);
        }
        run.last.insert(topic, at);
        run.turn += u32::from(topic == Topic::Turns);
        if topic == Topic::Terminals {
            self.runs.remove(&id);
        }
    }

    /// What was seen since the last time it was asked for.
    pub fn take(&mut self) -> Vec<Hop> {
        std::mem::take(&mut self.hops)
            .into_iter()
            .map(|((turn, from, to), mut ms)| {
                ms.sort_by(f64::total_cmp);
                Hop {
                    hop: format!("turn {turn}: {} to {}", from.short_name(), to.short_name()),
                    count: ms.len(),
                    p50_ms: rounded(percentile(&ms, 0.5)),
                    p99_ms: rounded(percentile(&ms, 0.99)),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_hop_is_measured_from_the_latest_record_that_may_have_caused_it() {
        let (mut stages, start) = (Stages::default(), Instant::now());
        let id = InvocationId(uuid::Uuid::from_u128(1));
        let seen = [(Topic::Invocations, 0), (Topic::Turns, 2), (Topic::Results, 7), (Topic::Turns, 8)];
        for (topic, ms) in seen {
            stages.arrived(id, topic, start + Duration::from_millis(ms));
        }
        let hops: Vec<(String, f64)> = stages.take().into_iter().map(|hop| (hop.hop, hop.p50_ms)).collect();
        let expected = [("turn 0: invocations to turns", 2.0), ("turn 1: results to turns", 1.0)];
        assert_eq!(hops, expected.map(|(hop, ms)| (hop.to_owned(), ms)));
    }
}
