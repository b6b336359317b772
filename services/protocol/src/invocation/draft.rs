//! A decision in the making: facts are applied as they are drawn, so that each is decided on the state it will meet.

use super::{Ignored, Invocation, apply};
use crate::{Event, Fact, Timestamp};

pub(super) struct Draft {
    pub(super) state: Invocation,
    pub(super) now: Timestamp,
    events: Vec<Event>,
}

impl Draft {
    pub(super) fn new(state: &Invocation, now: Timestamp) -> Self {
        Self { state: state.clone(), now, events: Vec::new() }
    }

    pub(super) fn push(&mut self, fact: Fact) -> Result<(), Ignored> {
        let step = match (&fact, self.events.last()) {
            // An end belongs to the turn that led to it, not to the one that will not be.
            (Fact::Ended { .. }, Some(cause)) => cause.step,
            _ => self.state.turn().0,
        };
        let event = Event::seal(self.state.version.next(), self.state.head, step, self.now, fact);
        let state = std::mem::replace(&mut self.state, Invocation::absent("".into(), event_owner()));
        self.state = apply(state, &event).map_err(Ignored::Refused)?;
        self.events.push(event);
        Ok(())
    }

    /// Draws a fact again that was lost; whether this state takes it.
    pub(super) fn take_over(&mut self, fact: &Fact) -> bool {
        let before = self.state.clone();
        let taken = self.push(fact.clone()).is_ok();
        if !taken {
            self.state = before;
        }
        taken
    }

    pub(super) fn finish(self) -> (Vec<Event>, Invocation) {
        (self.events, self.state)
    }
}

fn event_owner() -> crate::InvocationId {
    crate::InvocationId(uuid::Uuid::nil())
}
