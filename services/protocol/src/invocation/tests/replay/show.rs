//! One line per event, message, phase, effect and set of timers: identities by the names of their calls, times relative
//! to now, and nothing of what is usual or only a hash.

use serde_json::{Map, Value, json};

use super::super::world;
use crate::*;

/// Longer lines are broken, one field each.
const MAX_LINE: usize = 116;

/// The names under which identities are shown, and what time it is.
#[derive(Default)]
pub struct Names {
    pub calls: Vec<(CallId, String)>,
    pub keys: Vec<(EffectKey, String)>,
    pub proposals: Vec<Digest>,
    pub now: Timestamp,
}

impl Names {
    /// Learns the calls and keys of a plan, and the digest by which it is approved.
    pub fn learn(&mut self, fact: &Fact) {
        let plan = match fact {
            Fact::TurnPlanned(planned) => &planned.plan,
            Fact::ApprovalRequested(requested) => {
                self.proposals.push(requested.proposal_digest);
                &requested.plan
            }
            _ => return,
        };
        for call in &plan.calls {
            self.calls.push((call.call_id, call.provider_call_id.clone()));
            if let Some(effect) = &call.effect
                && !self.keys.iter().any(|(key, _)| *key == effect.key)
            {
                self.keys.push((effect.key.clone(), format!("key-{}", call.provider_call_id)));
            }
        }
    }

    /// The newest call of that name.
    pub fn call_id(&self, name: &str) -> Option<CallId> {
        self.calls.iter().rev().find(|(_, known)| known == name).map(|(call_id, _)| *call_id)
    }

    pub fn call(&self, call_id: CallId) -> String {
        let known = self.calls.iter().rev().find(|(known, _)| *known == call_id);
        known.map(|(_, name)| name.clone()).unwrap_or_else(|| call_id.to_string())
    }

    pub fn key(&self, key: &EffectKey) -> String {
        let known = self.keys.iter().find(|(known, _)| known == key);
        known.map(|(_, name)| name.clone()).unwrap_or_else(|| key.to_string())
    }

    fn attempt(&self, text: &str) -> Option<String> {
        let attempts = self.calls.iter().rev().flat_map(|call| (1..=9).map(move |n| (call, AttemptNumber(n))));
        let mut named = attempts.map(|((id, name), n)| (AttemptId::derive(*id, n).to_string(), format!("{name}#{n}")));
        named.find(|(id, _)| id == text).map(|(_, name)| name)
    }

    fn text(&self, text: &str) -> String {
        let call = self.calls.iter().rev().find(|(id, _)| id.to_string() == text).map(|(_, name)| name.clone());
        let key = || self.keys.iter().find(|(key, _)| key.as_str() == text).map(|(_, name)| name.clone());
        let proposal = || {
            let nth = self.proposals.iter().position(|digest| digest.to_string() == text)?;
            Some(format!("proposal-{}", nth + 1))
        };
        let plain = |text: &str| {
            let simple = |c: char| c.is_alphanumeric() || "_-./ ".contains(c);
            if !text.is_empty() && text.trim() == text && text.chars().all(simple) {
                text.to_owned()
            } else {
                Value::from(text).to_string()
            }
        };
        call.or_else(key).or_else(proposal).or_else(|| self.attempt(text)).unwrap_or_else(|| plain(text))
    }

    fn time(&self, at: Timestamp) -> String {
        format!("{:+}", at.0 - self.now.0)
    }

    /// The fields that are worth a look.
    fn fields(&self, object: &Map<String, Value>) -> Vec<(String, String)> {
        let is_named = |name: &str| match name {
            "provider_call_id" => object.contains_key("call_id"),
            "arguments" => object.contains_key("provider_call_id"),
            _ => false,
        };
        let is_proposal = |value: &Value| self.proposals.iter().any(|digest| json!(digest) == *value);
        let is_shown = |name: &str, value: &Value| is_proposal(value) || !is_named(name) && !is_usual(name, value);
        let shown = object.iter().filter(|(name, value)| is_shown(name, value));
        let show = |(name, value): (&String, &Value)| {
            let is_time = ["at", "due", "deadline", "lease_until", "unknown_since"].contains(&name.as_str())
                || name.ends_with("_at");
            match value {
                Value::Number(ms) if is_time => (name.clone(), self.time(Timestamp(ms.as_i64().unwrap_or(i64::MAX)))),
                value => (name.clone(), self.value(value)),
            }
        };
        // Said and done at once.
        let is_now = |(name, value): &(String, String)| name.ends_with("ed_at") && value == "+0";
        let mut fields: Vec<_> = shown.map(show).filter(|field| !is_now(field) && field.1 != "{}").collect();
        // A feature of serde_json that another crate of the build may turn on keeps the order of insertion.
        fields.sort();
        fields
    }

    fn value(&self, value: &Value) -> String {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::String(text) => self.text(text),
            Value::Array(list) => {
                format!("[{}]", list.iter().map(|value| self.value(value)).collect::<Vec<_>>().join(", "))
            }
            Value::Object(object) if object.contains_key("basis") => {
                format!("{}/{} basis {}", object["step"], object["round"], object["basis"]["version"])
            }
            Value::Object(object) if object.contains_key("usage") => {
                let spent: Spent = serde_json::from_value(value.clone()).expect("what has a usage was spent");
                let (tokens, cost) = (spent.usage.tokens(), spent.usage.cost_micros);
                format!("{} steps, {} calls, {tokens} tokens, {cost} micros", spent.steps, spent.tool_calls)
            }
            Value::Object(object) if object.get("kind").is_some_and(|kind| kind == "tool_calls") => {
                // The plan says which.
                "tool_calls".to_owned()
            }
            Value::Object(object) => {
                let fields = self.fields(object).into_iter().map(|(name, value)| format!("{name}: {value}"));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// `head name=value …`, or one field per line where that is too long.
    fn line(&self, head: &str, fields: &Value) -> Vec<String> {
        let fields = self.fields(fields.as_object().expect("an object"));
        let one = fields.iter().fold(head.to_owned(), |line, (name, value)| format!("{line} {name}={value}"));
        if one.len() <= MAX_LINE {
            return vec![one];
        }
        let fields = fields.into_iter().flat_map(|(name, value)| {
            let items: Vec<String> = value.split("}, {").map(str::to_owned).collect();
            let first = format!("    {name}={}", items[0]);
            // A list of objects, one per line.
            let rest = items[1..].iter().map(|item| format!("        {{{item}"));
            let last = items.len() - 1;
            let lines = std::iter::once(first).chain(rest).enumerate();
            lines.map(|(i, line)| if i < last { line + "}," } else { line }).collect::<Vec<_>>()
        });
        std::iter::once(head.to_owned()).chain(fields).collect()
    }

    pub fn event(&self, event: &Event) -> Vec<String> {
        let mut fact = json!(event.fact);
        fact.as_object_mut().expect("a fact is an object").remove("type");
        self.line(&format!("{} {}", event.version, event.fact.name()), &fact)
    }

    pub fn message(&self, message: &Message) -> Vec<String> {
        match message {
            // It says what the events above say.
            Message::EventsCommitted(_) => Vec::new(),
            Message::TurnReady(turn) => self.line("-> turn_ready", &json!(turn)),
            Message::ToolCallDispatched(dispatch) => self.line("-> tool_call_dispatched", &json!(dispatch)),
            Message::EffectQueried(query) => self.line("-> effect_queried", &json!(query)),
            Message::RunEnded(ended) => self.line("-> run_ended", &json!(ended)),
        }
    }

    /// Phase, turn and segment, and where each call stands.
    pub fn state(&self, state: &Invocation) -> String {
        let Some(run) = &state.run else {
            return "absent".to_owned();
        };
        let (step, round) = state.turn();
        let phase = match &run.phase {
            Phase::Suspended(suspension) => format!("suspended/{}", tag(&json!(suspension))),
            phase => tag(&json!(phase)),
        };
        let mut line = format!("{phase} {step}/{round} segment {}", run.segment);
        if let Some(execution) = state.execution() {
            let calls = execution.plan.calls.iter().zip(&execution.calls);
            let calls = calls.map(|(call, state)| format!("{} {}", call.provider_call_id, tag(&json!(state.stage))));
            line = format!("{line}: {}", calls.collect::<Vec<_>>().join(", "));
        }
        line
    }

    pub fn entry(&self, entry: &LedgerEntry) -> String {
        let calls: Vec<_> = entry.call_ids.iter().map(|id| self.call(*id)).collect();
        let mut line =
            format!("ledger {} {} calls {}", self.key(&entry.key), tag(&json!(entry.status)), calls.join(" "));
        for attempt in &entry.attempts {
            line += &format!(" attempt {} lease {}", attempt.number, self.time(attempt.lease_until));
        }
        if let Some(by) = &entry.resolved_by {
            line += &format!(" by {}", self.value(&json!(by)));
        }
        if let Some(at) = entry.not_applied_at {
            line += &format!(" not applied at {}", self.time(at));
        }
        if entry.conflicting { line + " conflicting" } else { line }
    }

    pub fn timers(&self, timers: &[Timer]) -> String {
        let name = |name| match name {
            TimerName::Call(call_id) => self.call(call_id),
            TimerName::Deadline | TimerName::Decide | TimerName::Approval | TimerName::Grace => name.to_string(),
        };
        let timers: Vec<_> = timers.iter().map(|t| format!("{} {}", name(t.name), self.time(t.due))).collect();
        format!("timers {}", if timers.is_empty() { "none".to_owned() } else { timers.join(", ") })
    }
}

/// The name of an enum's variant in its JSON form.
fn tag(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        Value::Object(object) => object.keys().next().cloned().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => value.to_string(),
    }
}

/// What every transcript would repeat: hashes, and what the fixtures say.
fn is_usual(name: &str, value: &Value) -> bool {
    const HIDDEN: [&str; 6] =
        ["fingerprint", "request_fingerprint", "evidence", "invocation_id", "request", "contract"];
    if value.is_null() || name.ends_with("_digest") || HIDDEN.contains(&name) {
        return true;
    }
    if *value == false || *value == "" || *value == json!([]) {
        return true;
    }
    let usual = match name {
        "actor" => json!("ada"),
        "agent" => json!("refunds"),
        "attempts" => json!(1),
        "epoch" => json!(0),
        "timeout_ms" => json!(1_000),
        "message" => json!(world::error(ErrorClass::Internal).message),
        "tools" | "timing" | "mixed_batches" | "progress" => json!(world::profile())[name].clone(),
        name if json!(TurnProgress::default()).get(name).is_some() => json!(0),
        name => json!(world::budget())[name].clone(),
    };
    *value == usual || *value == json!(world::budget())
}
