//! Plays commands on a world, and checks after each input what must hold of every history.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::world::World;
use super::show::Names;
use super::transcript::{Command, Given};
use crate::*;

/// A run under a transcript's commands.
pub struct Stage {
    pub(super) world: World,
    pub(super) given: Given,
    pub(super) names: Names,
    last: Option<Input>,
    shown: (String, String),
    /// Facts, reasons and cells of the table that this transcript has shown.
    pub seen: BTreeSet<String>,
}

impl Stage {
    pub fn new() -> Self {
        let shown = ("absent".to_owned(), "timers none".to_owned());
        Self {
            world: World::new(),
            given: Given::default(),
            names: Names::default(),
            last: None,
            shown,
            seen: BTreeSet::new(),
        }
    }

    pub fn into_state(self) -> Invocation {
        self.world.state
    }

    /// The lines that a command gives; an error is a mistake in the transcript.
    pub fn play(&mut self, command: &Command) -> Result<Vec<String>, String> {
        let input = match command {
            Command::Given(given) => {
                self.given = given.clone();
                return Ok(Vec::new());
            }
            Command::Wait(ms) => {
                self.world.now = Timestamp(self.world.now.0 + ms);
                return Ok(Vec::new());
            }
            Command::Restore(version) => return self.restore(*version),
            Command::Lease(name) => {
                let dispatch = self.dispatch(name)?;
                let answer = may_start_read(&self.world.state, &dispatch, self.world.now);
                return Ok(vec![answer.map_or_else(|why| why.as_str().to_owned(), |()| "lease is open".to_owned())]);
            }
            Command::Again => self.last.clone().ok_or("nothing came before")?,
            command => self.input(command)?,
        };
        self.last = Some(input.clone());
        Ok(self.deliver(input))
    }

    fn deliver(&mut self, input: Input) -> Vec<String> {
        let phase = self.world.state.phase().map_or("absent".to_owned(), |_| self.names.state(&self.world.state));
        let phase = phase.split(' ').next().unwrap_or_default().to_owned();
        self.seen.insert(format!("{phase} × {}", kind(&input)));
        self.load(&input);
        let version = self.world.events.len();
        let said = self.world.out.len();
        self.names.now = self.world.now.max(self.world.state.at);
        match self.world.input(input.clone()) {
            Ok(_) => {}
            Err(ignored) => return vec![self.ignored(&ignored)],
        }
        let events = self.world.events[version..].to_vec();
        self.check(&input, &events);
        let mut lines = Vec::new();
        for event in &events {
            self.names.learn(&event.fact);
            self.seen.insert(event.fact.name().to_owned());
            lines.extend(self.names.event(event));
        }
        for message in &self.world.out[said..] {
            if let Message::RunEnded(ended) = message {
                self.seen.insert(ended.reason.as_str().to_owned());
            }
            lines.extend(self.names.message(message));
        }
        lines.extend(self.world.state.ledger.changed().map(|entry| self.names.entry(entry)));
        lines.extend(self.changes());
        lines
    }

    /// Gives `handle` no more than `needs` asks for, as a store does, and puts the whole ledger back.
    fn load(&mut self, input: &Input) {
        let needs = needs(&self.world.state, input);
        let hash = |version: &Version| {
            let index = usize::try_from(version.0).ok()?.checked_sub(1)?;
            self.world.events.get(index).map(|event| (event.version, event.hash))
        };
        self.world.state.hash_at = needs.hash_at.as_ref().and_then(hash);
        let entries: Vec<LedgerEntry> = self.world.state.ledger.entries().cloned().collect();
        let asked = entries.iter().filter(|entry| needs.effects.contains(&entry.key)).cloned();
        let loaded = Ledger::loaded(asked, Some(needs.effects.iter().cloned().collect()));
        let narrow = Invocation { ledger: loaded, ..self.world.state.clone() };
        let outcome = handle(&narrow, input, self.world.now);
        assert!(!matches!(outcome, Err(Ignored::NotLoaded(_) | Ignored::Refused(_))), "{outcome:?} for {input:?}");
        self.world.state.ledger = Ledger::loaded(entries, None);
        assert_eq!(outcome, handle(&self.world.state, input, self.world.now), "`needs` names what `handle` reads");
    }

    fn ignored(&mut self, ignored: &Ignored) -> String {
        self.seen.insert(ignored.as_str().to_owned());
        match ignored {
            // As the committer does.
            Ignored::OvertakesRequest => {
                self.world.state = self.world.state.clone().with_stub("ada".into(), "changed my mind".into());
                "ignored overtakes_request: it is kept".to_owned()
            }
            Ignored::LostCommit(basis) => format!("ignored lost_commit: basis {}", basis.version),
            other => format!("ignored {}", other.as_str()),
        }
    }

    /// What must hold after every input: a replay gives the same state, a snapshot reads back, the commit's own record
    /// comes first, no message stands for two, and the same input again changes nothing.
    fn check(&self, input: &Input, events: &[Event]) {
        let state = &self.world.state;
        let replayed = self.replay(self.world.events.len());
        assert_eq!(json!(replayed), json!(state), "state is a fold over events");
        let entries = |state: &Invocation| state.ledger.entries().cloned().collect::<Vec<_>>();
        assert_eq!(entries(&replayed), entries(state), "so is the ledger");
        let kept: Invocation = serde_json::from_value(json!(state)).expect("a snapshot reads back");
        assert_eq!(kept.run, state.run);
        let outgoing = emit(state, events);
        let Some(Message::EventsCommitted(record)) = outgoing.first().map(|first| &first.message) else {
            panic!("a commit publishes its events first");
        };
        assert_eq!(record.events, events);
        let ids: BTreeSet<_> = outgoing.iter().map(|message| message.event_id).collect();
        assert_eq!(ids.len(), outgoing.len(), "every message has an ID of its own");
        assert!(handle(state, input, self.world.now).is_err(), "an input is applied once: {input:?}");
    }

    fn replay(&self, version: usize) -> Invocation {
        let absent = Invocation::absent(self.world.state.tenant.clone(), self.world.state.id);
        let events = self.world.events[..version].iter();
        events.fold(absent, |state, event| apply(state, event).expect("the log is legal"))
    }

    fn restore(&mut self, version: usize) -> Result<Vec<String>, String> {
        if version >= self.world.events.len() {
            return Err(format!("{version} is no older version"));
        }
        self.world.state = self.replay(version);
        self.world.events.truncate(version);
        self.names.now = self.world.now;
        Ok(self.changes())
    }

    /// The phase and the timers, where they are other than before.
    fn changes(&mut self) -> Vec<String> {
        let wanted = timers(&self.world.state);
        let shown = (self.names.state(&self.world.state), format!("{wanted:?}"));
        let timers = (self.shown.1 != shown.1).then(|| self.names.timers(&wanted));
        let state = (self.shown.0 != shown.0).then(|| shown.0.clone());
        self.shown = shown;
        state.into_iter().chain(timers).collect()
    }
}

/// The row of the table that an input belongs to.
pub fn kind(input: &Input) -> &'static str {
    match input {
        Input::Requested(_) => "request",
        Input::Verdict(_) => "verdict",
        Input::ClaimRequested(_) => "claim",
        Input::CallSettled(_) => "settled",
        Input::EffectAnswered(_) => "answered",
        Input::Control(Control::Cancel { .. }) => "cancel",
        Input::Control(Control::Approve { .. }) => "approve",
        Input::Control(Control::Reject { .. }) => "reject",
        Input::Control(Control::Clarify { .. }) => "clarify",
        Input::Control(Control::ResolveEffect { .. }) => "resolve",
        Input::TimerFired(TimerName::Deadline) => "deadline",
        Input::TimerFired(TimerName::Decide) => "decide timer",
        Input::TimerFired(TimerName::Call(_)) => "call timer",
        Input::TimerFired(TimerName::Approval) => "approval expiry",
        Input::TimerFired(TimerName::Grace) => "grace",
    }
}
