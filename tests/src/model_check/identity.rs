//! When two committed histories count as one state: when nothing that can still happen tells them apart.
//!
//! Left out of a history's identity are names (versions, hashes and bases of events, digests of proposals) and what is only
//! shown and never decided on (when an attempt was claimed, since when an outcome is unknown: here its owner has time without end, …). Times are kept relative to the newest
//! event. Everything else is in, by default: a field that is added to the core multiplies states, it is never overlooked.
//!
//! This is sound because `handle` compares names for equality only, so that what matters of a basis is whether it is the
//! current turn's (kept, per message) and whether it stands in the log (checked where the message is made: I2, I6, I10),
//! and of a proposal which turn's it is; and because it compares times with each other only. A test checks it: histories of one identity answer every input
//! alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{Digest, Invocation, Message, Outgoing, Phase, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::facts::Facts;
use super::names::Entry;
use super::scenario::{HORIZON, START};

/// The identity of a committed history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(u128);

/// Names of events, and what is shown but never decided on.
const LEFT_OUT: [&str; 12] = [
    "version",
    "head",
    "hash",
    "previous",
    "basis",
    "requested_at",
    "ended_at",
    "claimed_at",
    "since",
    "unknown_since",
    "not_applied_at",
    "proposal_digest",
];

impl Identity {
    pub fn of(state: &Invocation, messages: &BTreeMap<Entry, Arc<Outgoing>>, facts: &Facts) -> Self {
        let mut whole = Map::new();
        whole.insert("invocation".to_owned(), invocation(state));
        let entries = state.ledger.entries().map(|entry| {
            let mut entry = value(entry);
            // Of an attempt its identity counts; its lease is the call's.
            if let Some(attempts) = entry.get_mut("attempts").and_then(Value::as_array_mut) {
                attempts.iter_mut().for_each(|attempt| *attempt = attempt["attempt_id"].take());
            }
            entry
        });
        whole.insert("ledger".to_owned(), entries.collect());
        let messages = messages.iter().map(|(entry, outgoing)| message(state, entry, &outgoing.message));
        whole.insert("messages".to_owned(), messages.collect());
        whole.insert("facts".to_owned(), value(facts));
        let mut whole = Value::Object(whole);
        relate(&mut whole, state.at);
        let digest = Digest::of("identity", &[whole.to_string().as_bytes()]);
        let mut first = [0; 16];
        first.copy_from_slice(&digest.0[..16]);
        Self(u128::from_be_bytes(first))
    }
}

fn invocation(state: &Invocation) -> Value {
    let mut whole = value(state);
    // How much of the run's time is left counts only where it can run out.
    let left = state.run.as_ref().and_then(|run| run.ends_at()).map(|end| end.ms_since(state.at));
    if left.is_none_or(|left| left > HORIZON)
        && let Some(run) = whole.get_mut("run").and_then(Value::as_object_mut)
    {
        run.retain(|name, _| name != "active_since" && name != "active_ms");
    }
    whole
}

fn message(state: &Invocation, entry: &Entry, message: &Message) -> Value {
    let current = match (message, state.phase()) {
        (Message::TurnReady(ready), Some(Phase::Deciding(deciding))) => deciding.basis == ready.scope.basis,
        _ => false,
    };
    let content = match message {
        // What the model and validation make of a turn, the scenario says by its step and round.
        Message::TurnReady(_) => Value::Null,
        Message::ToolCallDispatched(dispatch) => value(&dispatch.effect),
        // The reconciler keeps nothing of a question: it reads the key, the request and whether to close the key.
        Message::EffectQueried(query) => json!([query.effect_key, query.request_fingerprint.to_string(), query.seal]),
        Message::RunEnded(ended) => json!([ended.reason, ended.resumable, ended.effects]),
        Message::EventsCommitted(_) => Value::Null,
    };
    json!([format!("{entry:?}"), current, content])
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("whatever the core keeps is JSON")
}

/// Leaves out what is no part of the identity, and turns times into distances from `at`.
fn relate(value: &mut Value, at: Timestamp) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            fields.values_mut().for_each(|field| relate(field, at));
        }
        Value::Array(list) => list.iter_mut().for_each(|item| relate(item, at)),
        Value::Number(number) => {
            if let Some(time) = number.as_i64().filter(|time| *time > START.0 / 2) {
                *value = json!(format!("{:+}", time - at.0));
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::super::history::History;
    use super::super::inputs::input;
    use super::super::model::Checked;
    use super::super::names::Cause;
    use super::super::scenarios::{Size, scenarios};
    use super::*;

    /// Whatever may come to a history, from anyone.
    fn causes(checked: &Checked, history: &History) -> BTreeSet<Cause> {
        let letters = checked.every_letter(history).into_iter().map(Cause::Letter);
        let claims = history.messages.keys().filter_map(|entry| match entry {
            Entry::Dispatch(attempt) => Some(Cause::Claim(*attempt)),
            Entry::Turn { .. } | Entry::Query { .. } | Entry::Ended { .. } => None,
        });
        let timers = history.timers().filter_map(|(timer, _)| checked.timer_at(history, timer.name));
        letters.chain(claims).chain(timers.map(Cause::Timer)).collect()
    }

    /// Walks histories that differ in their log, deepest first; how many of them were alike.
    fn twins(name: &str, most: usize) -> usize {
        let scenario = scenarios(Size::Small).into_iter().find(|scenario| scenario.name == name).unwrap();
        let checked = Checked::new(scenario, None);
        let (mut stack, mut logs, mut known, mut twins) = (vec![History::absent()], BTreeSet::new(), HashMap::new(), 0);
        while let Some(history) = stack.pop().filter(|_| logs.len() < most) {
            if !logs.insert((history.identity, history.state.head)) {
                continue;
            }
            let letters = checked.every_letter(&history);
            let mut answers = BTreeMap::new();
            for (cause, late) in causes(&checked, &history).into_iter().flat_map(|cause| [(cause, 0), (cause, 1)]) {
                let input = input(&checked.scenario, &checked.effects, &history, cause);
                let answer = input.map(|input| match history.decided_afresh(input, late, None) {
                    Ok(next) => {
                        let mut over = letters.iter().filter(|letter| checked.is_over(&history, **letter));
                        assert!(over.all(|letter| checked.is_over(&next, *letter)), "{name}: {history:?} -> {next:?}");
                        let answer = (Some(next.identity), "");
                        stack.push(next);
                        answer
                    }
                    Err(ignored) => (None, ignored.as_str()),
                });
                answers.insert((cause, late), answer);
            }
            if let Some(before) = known.insert(history.identity, answers.clone()) {
                assert_eq!(before, answers, "{name}: {history:?}");
                twins += 1;
            }
        }
        twins
    }

    #[test]
    fn histories_of_one_identity_answer_every_input_alike_and_what_is_over_stays_over() {
        for name in ["two-attempts", "late-answers", "by-hand", "approvals", "active-time"] {
            let twins = twins(name, 300);
            assert!(twins >= 30, "{name}: {twins} histories were alike");
        }
    }
}
