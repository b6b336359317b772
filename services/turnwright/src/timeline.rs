//! The event log for readers: sorted by version, equals dropped, a gap waited for. And what each event means, in words.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use protocol::{
    AcceptedDecision, CallId, CallOutcome, CallResult, EffectOutcome, Event, EventsCommitted, Fact, InvocationId, Plan,
    RefusalReason, Resolution, Version,
};
use serde_json::Value;

use crate::render::{self, clean};

/// One line of a log.
#[derive(Debug, Clone)]
pub struct Line {
    pub invocation: InvocationId,
    pub event: Event,
    /// Versions before it are missing: they were published before the reader came, or are late.
    pub after_gap: bool,
}

/// Puts the records of `events` in order, per invocation.
#[derive(Debug, Default)]
pub struct Timeline {
    runs: HashMap<InvocationId, Run>,
    /// A log is read from its first event; otherwise from the first one that comes.
    from_start: bool,
}

#[derive(Debug, Default)]
struct Run {
    next: Option<Version>,
    held: BTreeMap<Version, Event>,
    held_since: Option<Instant>,
}

/// How long a gap is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

impl Timeline {
    pub fn new(from_start: bool) -> Self {
        Self { runs: HashMap::new(), from_start }
    }

    /// Takes in a record and answers what can be shown now, in order.
    pub fn take(&mut self, record: EventsCommitted, now: Instant) -> Vec<Line> {
        let invocation = record.scope.invocation_id;
        let run = self.runs.entry(invocation).or_default();
        let first = record.first_version();
        let next = *run.next.get_or_insert(if self.from_start { Version(1) } else { first });
        for event in record.events {
            if event.version >= next {
                run.held.insert(event.version, event);
            }
        }
        let lines = run.release(invocation, false);
        run.held_since = if run.held.is_empty() { None } else { run.held_since.or(Some(now)) };
        lines
    }

    /// Shows what has waited too long for the events before it.
    pub fn release_stale(&mut self, now: Instant) -> Vec<Line> {
        let mut lines = Vec::new();
        for (invocation, run) in &mut self.runs {
            if run.held_since.is_some_and(|since| now.duration_since(since) >= PATIENCE) {
                run.held_since = None;
                run.next = run.held.keys().next().copied();
                lines.extend(run.release(*invocation, true));
            }
        }
        lines
    }
}

impl Run {
    fn release(&mut self, invocation: InvocationId, after_gap: bool) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(event) = self.next.and_then(|next| self.held.remove(&next)) {
            self.next = Some(event.version.next());
            lines.push(Line { invocation, event, after_gap: after_gap && lines.is_empty() });
        }
        lines
    }
}

/// Names calls by their tools, as the plans of a log have introduced them.
#[derive(Debug, Default)]
pub struct Words {
    tools: HashMap<CallId, String>,
}

const SHORT: usize = 60;
const LONG: usize = 120;

impl Words {
    /// What an event means, for people. Events are told in order.
    pub fn tell(&mut self, event: &Event) -> String {
        match &event.fact {
            Fact::Admitted(admitted) => {
                let request = &admitted.request;
                format!(
                    "{} asks {}: {}",
                    name(&request.actor.0),
                    name(&admitted.agent.0),
                    render::value(&request.goal, SHORT)
                )
            }
            Fact::TurnPlanned(planned) => self.plan(&planned.plan),
            Fact::DecisionRejected { findings, repair, .. } => {
                let found: Vec<String> = findings
                    .iter()
                    .map(|finding| format!("{}: {}", clean(&finding.path, SHORT), clean(&finding.message, SHORT)))
                    .collect();
                let then = if *repair { "; asked to repair it" } else { "" };
                format!("{}{then}", clean(&found.join("; "), LONG))
            }
            Fact::ApprovalRequested(requested) => {
                let asked = self.plan(&requested.plan);
                format!("{asked} waits for an approval of {}", requested.proposal_digest)
            }
            Fact::ApprovalGranted { proposal_digest, actor } => {
                format!("{} approves {}", name(&actor.0), short(&proposal_digest.to_string()))
            }
            Fact::ApprovalRefused { proposal_digest, actor, why, detail } => {
                let proposal = short(&proposal_digest.to_string());
                match (why, actor) {
                    (RefusalReason::Expired, _) => format!("{proposal} has expired"),
                    (RefusalReason::Refused, Some(actor)) => {
                        format!("{} refuses {proposal}: {}", name(&actor.0), clean(detail, SHORT))
                    }
                    (RefusalReason::Refused, None) => format!("{proposal} is refused: {}", clean(detail, SHORT)),
                }
            }
            Fact::ClarificationRequested { question, .. } => format!("the model asks: {}", clean(question, LONG)),
            Fact::ClarificationGiven { actor, answer } => {
                format!("{} answers: {}", name(&actor.0), render::value(answer, SHORT))
            }
            Fact::WaveReleased { wave, calls, .. } => format!("wave {}: {}", wave + 1, self.calls(calls)),
            Fact::CallReleased { call_id, attempt, .. } => format!("{} again, attempt {attempt}", self.call(call_id)),
            Fact::CallClaimed { call_id, attempt, .. } => format!("{} claimed, attempt {attempt}", self.call(call_id)),
            Fact::AttemptFailed { call_id, attempt, error, .. } => {
                format!("{} attempt {attempt}: {}", self.call(call_id), clean(&error.message, SHORT))
            }
            Fact::CallSettled { call_id, outcome, .. } => format!("{} → {}", self.call(call_id), settled(outcome)),
            Fact::EffectUnknown { call_id, error, .. } => {
                format!("{}: outcome unknown ({})", self.call(call_id), clean(&error.message, SHORT))
            }
            Fact::ProbeRequested { call_id, probe, .. } => {
                format!("{}: asking its owner, probe {probe}", self.call(call_id))
            }
            Fact::EffectResolved { call_id, resolution, .. } => {
                let said = match resolution {
                    Resolution::NotApplied => "not applied".to_owned(),
                    Resolution::Pending { .. } => "pending".to_owned(),
                    Resolution::Unanswerable { why } => format!("unanswerable: {}", clean(why, SHORT)),
                };
                format!("{}: its owner says {said}", self.call(call_id))
            }
            Fact::EffectConflict { effect_key, .. } => {
                format!("effect {}: its owner contradicts the record", short(&effect_key.0))
            }
            Fact::TurnReissued { count, .. } => format!("asked again, time {count}"),
            Fact::TurnCommitted(turn) => match &turn.decision {
                AcceptedDecision::Final { .. } => "a final answer".to_owned(),
                AcceptedDecision::ToolCalls { .. } | AcceptedDecision::RequestApproval { .. } => {
                    format!("{} results, in order of proposal", turn.results.len())
                }
                AcceptedDecision::Clarification { .. } => "an answer for the model".to_owned(),
                AcceptedDecision::CannotContinue { reason } => format!("cannot continue: {}", clean(reason, SHORT)),
            },
            Fact::CancelRequested { reason, detail, .. } => format!("{}: {}", reason.as_str(), clean(detail, SHORT)),
            Fact::ReconciliationRequired { effects, .. } => format!("{} effects need a person", effects.len()),
            Fact::Ended { reason, answer, detail, .. } => match answer {
                Some(answer) => format!("{}: {}", reason.as_str(), render::value(answer, LONG)),
                None => format!("{}: {}", reason.as_str(), clean(detail, LONG)),
            },
            Fact::EffectSettledLate { effect_key, outcome, .. } => {
                let said = match outcome {
                    EffectOutcome::Committed { .. } => "committed",
                    EffectOutcome::Rejected { .. } => "rejected",
                };
                format!("effect {} {said}, after the end", short(&effect_key.0))
            }
        }
    }

    fn plan(&mut self, plan: &Plan) -> String {
        let mut waves: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for call in &plan.calls {
            self.tools.insert(call.call_id, name(&call.tool.0));
            let told = format!("{}({})", name(&call.tool.0), arguments(&call.arguments));
            waves.entry(call.wave).or_default().push(told);
        }
        let waves: Vec<String> = waves.into_values().map(|calls| calls.join(" ∥ ")).collect();
        waves.join(", then ")
    }

    fn call(&self, call: &CallId) -> String {
        self.tools.get(call).cloned().unwrap_or_else(|| format!("call {}", short(&call.to_string())))
    }

    fn calls(&self, calls: &[CallId]) -> String {
        calls.iter().map(|call| self.call(call)).collect::<Vec<_>>().join(" ∥ ")
    }
}

fn settled(outcome: &CallOutcome) -> String {
    let receipt = outcome.receipt.as_ref().map(|receipt| format!(" (receipt {})", clean(&receipt.effect_id, SHORT)));
    match &outcome.result {
        CallResult::Output(output) => format!("{}{}", render::value(output, SHORT), receipt.unwrap_or_default()),
        CallResult::Error(error) => format!("{:?}: {}", error.class, clean(&error.message, SHORT)),
    }
}

fn arguments(arguments: &Value) -> String {
    let Value::Object(fields) = arguments else { return render::value(arguments, SHORT) };
    let fields: Vec<String> =
        fields.iter().map(|(field, value)| format!("{}={}", name(field), render::value(value, 24))).collect();
    fields.join(", ")
}

fn name(text: &str) -> String {
    clean(text, 40)
}

/// The first characters of an identity: enough to tell two apart by eye.
pub fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Basis, Digest, Round, Scope, Step, TerminalReason, Timestamp};

    fn record(versions: &[u64]) -> EventsCommitted {
        let fact = Fact::CancelRequested { reason: TerminalReason::Cancelled, actor: None, detail: String::new() };
        let seal =
            |version: &u64| Event::seal(Version(*version), Digest::default(), Step(1), Timestamp(0), fact.clone());
        EventsCommitted {
            scope: Scope {
                tenant: "t".into(),
                invocation_id: InvocationId(uuid::Uuid::nil()),
                task_type: "t".into(),
                step: Step(1),
                round: Round(0),
                basis: Basis::default(),
            },
            events: versions.iter().map(seal).collect(),
        }
    }

    fn versions(lines: &[Line]) -> Vec<u64> {
        lines.iter().map(|line| line.event.version.0).collect()
    }

    #[test]
    fn records_out_of_order_and_twice_are_shown_in_order_and_once() {
        let mut timeline = Timeline::new(true);
        let now = Instant::now();
        assert!(timeline.take(record(&[3, 4]), now).is_empty());
        assert_eq!(versions(&timeline.take(record(&[1, 2]), now)), [1, 2, 3, 4]);
        assert!(timeline.take(record(&[3, 4]), now).is_empty());
        assert_eq!(versions(&timeline.take(record(&[5]), now)), [5]);
    }

    #[test]
    fn a_gap_is_waited_for_and_then_named() {
        let mut timeline = Timeline::new(true);
        let now = Instant::now();
        assert!(timeline.take(record(&[4, 5]), now).is_empty());
        assert!(timeline.release_stale(now).is_empty());
        let lines = timeline.release_stale(now + PATIENCE);
        assert_eq!(versions(&lines), [4, 5]);
        assert!(lines[0].after_gap && !lines[1].after_gap);
    }

    #[test]
    fn a_reader_who_comes_late_starts_with_what_comes_first() {
        let mut timeline = Timeline::new(false);
        assert_eq!(versions(&timeline.take(record(&[7]), Instant::now())), [7]);
    }
}
