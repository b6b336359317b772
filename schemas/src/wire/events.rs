//! `events`: the committed log. A fact travels as its own JSON, exact in every number, so that what is rebuilt from it is
//! what was committed; its hash is for the reader to check.

use protocol as p;
use serde::{Deserialize, Serialize};

use super::Mapped;
use super::parts::{scoped, with_scope};
use super::scalars::{Count, Hex, Id, Json, Time};
use super::symbols::EventType;
use crate::{DeadLetterCode, EncodeError, Limits, Rejection};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub version: Count,
    pub r#type: EventType,
    pub step: p::Step,
    pub at: Time,
    pub previous: Hex,
    pub hash: Hex,
    pub body: Json,
}

impl Event {
    fn of(event: &p::Event, limits: &Limits) -> Result<Self, EncodeError> {
        Ok(Self {
            version: Count(event.version.0),
            r#type: EventType::of(&event.fact),
            step: event.step,
            at: Time(event.at),
            previous: Hex(event.previous),
            hash: Hex(event.hash),
            body: Json::of_structure("events[].body", &event.fact, limits.envelope())?,
        })
    }

    fn core(self, limits: &Limits) -> Result<p::Event, Rejection> {
        self.r#type.known("events[].type")?;
        let fact: p::Fact = self.body.structure("events[].body", limits.envelope())?;
        if EventType::of(&fact) != self.r#type {
            return Err(Rejection::new(DeadLetterCode::Malformed, "events[].type", "is not the type of `body`"));
        }
        Ok(p::Event {
            version: p::Version(self.version.0),
            previous: self.previous.0,
            hash: self.hash.0,
            step: self.step,
            at: self.at.0,
            fact,
        })
    }
}

scoped!(EventsCommitted { events: Vec<Event> });

impl Mapped for p::EventsCommitted {
    type Wire = EventsCommitted;

    fn to_wire(&self, limits: &Limits) -> Result<EventsCommitted, EncodeError> {
        let events = self.events.iter().map(|event| Event::of(event, limits));
        Ok(with_scope!(EventsCommitted, &self.scope, { events: events.collect::<Result<_, _>>()? }))
    }

    fn from_wire(wire: EventsCommitted, limits: &Limits) -> Result<Self, Rejection> {
        let scope = wire.scope();
        let events = wire.events.into_iter().map(|event| event.core(limits));
        Ok(Self { scope, events: events.collect::<Result<_, _>>()? })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.scope.invocation_id
    }

    fn time_ms(&self) -> Option<i64> {
        self.events.last().map(|event| event.at.0)
    }
}
