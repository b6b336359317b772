//! Between the protocol's values and what the store keeps: JSON bytes, timers by name, and the index line.

use protocol::{Event, Invocation, LedgerEntry, Phase, Suspension, TimerName, Timestamp, timers};

use crate::{EntryWrite, Error, EventRecord, IndexEntry, Standing, TimerChange};

pub(crate) fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Corrupt(error.to_string()))
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| Error::Corrupt(error.to_string()))
}

/// A commit's events as they are stored: a byte that marks the commit's last event, then the event.
pub(crate) fn record(events: &[Event]) -> Result<Vec<EventRecord>, Error> {
    let mut records = Vec::with_capacity(events.len());
    for (i, event) in events.iter().enumerate() {
        let mut bytes = vec![u8::from(i + 1 == events.len())];
        serde_json::to_writer(&mut bytes, event).map_err(|error| Error::Corrupt(error.to_string()))?;
        records.push(EventRecord { version: event.version, hash: event.hash, bytes });
    }
    Ok(records)
}

/// An event as it was stored.
pub fn read_event(record: &EventRecord) -> Result<Event, Error> {
    parse(record.bytes.get(1..).unwrap_or_default())
}

/// Whether this event was its commit's last.
pub fn ends_commit(record: &EventRecord) -> bool {
    record.bytes.first() == Some(&1)
}

pub(crate) fn write(entry: &LedgerEntry) -> Result<EntryWrite, Error> {
    Ok(EntryWrite { key: entry.key.clone(), settled: entry.status.is_settled(), bytes: json(entry)? })
}

/// The timers that the new state wants and the old one did not, and those it does not want any more.
pub(crate) fn timer_changes(before: &Invocation, after: &Invocation) -> Vec<TimerChange> {
    let (before, after) = (timers(before), timers(after));
    let same = |name: TimerName, due: Timestamp| before.iter().any(|timer| timer.name == name && timer.due == due);
    let set = after
        .iter()
        .filter(|timer| !same(timer.name, timer.due))
        .map(|timer| TimerChange { name: timer.name.to_string(), due: Some(timer.due) });
    let dropped = before
        .iter()
        .filter(|timer| !after.iter().any(|wanted| wanted.name == timer.name))
        .map(|timer| TimerChange { name: timer.name.to_string(), due: None });
    set.chain(dropped).collect()
}

/// How the index lists this state.
pub(crate) fn index_entry(state: &Invocation) -> Result<IndexEntry, Error> {
    let (standing, phase, reason) = match state.phase() {
        None => (Standing::Open, "awaiting_request", None),
        Some(Phase::Deciding(_)) => (Standing::Open, "deciding", None),
        Some(Phase::Executing(_)) => (Standing::Open, "executing", None),
        Some(Phase::Suspended(suspension)) => (Standing::Suspended, "suspended", Some(suspension.reason().as_str())),
        Some(Phase::Cancelling(cancelling)) => (Standing::Open, "cancelling", Some(cancelling.reason.as_str())),
        Some(Phase::Ended(ended)) => match state.has_unresolved_effects() {
            true => (Standing::EndedUnresolved, "ended", Some(ended.reason.as_str())),
            false => (Standing::Ended, "ended", Some(ended.reason.as_str())),
        },
    };
    let (proposal, question) = match state.phase() {
        Some(Phase::Suspended(Suspension::Approval(pending))) => (Some(pending.requested.proposal_digest), None),
        Some(Phase::Suspended(Suspension::Clarification(pending))) => (None, Some(shortened(&pending.question))),
        Some(
            Phase::Deciding(_)
            | Phase::Executing(_)
            | Phase::Suspended(Suspension::Operator(_))
            | Phase::Cancelling(_)
            | Phase::Ended(_),
        )
        | None => (None, None),
    };
    let run = state.run.as_deref();
    let summary = serde_json::json!({
        "phase": phase,
        "reason": reason,
        "task_type": run.map(|run| &run.task_type),
        "agent": run.map(|run| &run.agent),
        "actor": run.map(|run| &run.actor),
        "requested_at": run.map(|run| run.requested_at),
        "at": state.at,
        "version": state.version,
        "steps": run.map(|run| run.spent.steps),
        "tool_calls": run.map(|run| run.spent.tool_calls),
        "proposal_digest": proposal,
        "question": question,
    });
    Ok(IndexEntry { standing, summary: summary.to_string() })
}

/// The index lists many runs: a question's beginning tells them apart.
fn shortened(question: &str) -> String {
    question.chars().take(200).collect()
}
