//! The messages between services and to callers.

use protocol::{
    DecisionProposed, EffectAnswered, EffectQueried, EventId, EventsCommitted, Message, Outgoing, RunEnded,
    ToolCallDispatched, ToolCallSettled, TurnReady, Verdict,
};

use super::{Codec, EncodeError, Place, check_key};
use crate::wire::Mapped;
use crate::{Inbound, Outbound, Rejection, Topic};

/// A message of the protocol that has a topic.
pub trait WireMessage: Mapped {
    const TOPIC: Topic;
}

macro_rules! carried {
    ($($message:ident on $topic:ident),* $(,)?) => {
        $(impl WireMessage for $message {
            const TOPIC: Topic = Topic::$topic;
        })*
    };
}

carried!(
    TurnReady on Turns,
    DecisionProposed on Decisions,
    Verdict on Verdicts,
    ToolCallDispatched on Dispatches,
    ToolCallSettled on Results,
    EffectQueried on OutcomeUnknown,
    EffectAnswered on Resolutions,
    RunEnded on Terminals,
    EventsCommitted on Events,
);

impl Codec {
    /// The record of a message. Equal inputs give equal bytes, so that publishing again repeats the same record.
    pub fn encode<M: WireMessage>(
        &self,
        message: &M,
        event_id: EventId,
        time_ms: Option<i64>,
    ) -> Result<Outbound, EncodeError> {
        let format = self.format_of(M::TOPIC);
        let value = self.write(M::TOPIC, format, &message.to_wire(&self.limits)?)?;
        let subject = message.invocation_id();
        Ok(self.outbound(Place { topic: M::TOPIC, format, subject, event_id, time_ms }, value))
    }

    /// The record of what `emit` said; `ce_time` is the time that the message itself carries, if any.
    pub fn encode_message(&self, outgoing: &Outgoing) -> Result<Outbound, EncodeError> {
        let id = outgoing.event_id;
        match &outgoing.message {
            Message::TurnReady(message) => self.encode(message.as_ref(), id, message.time_ms()),
            Message::ToolCallDispatched(message) => self.encode(message.as_ref(), id, message.time_ms()),
            Message::EffectQueried(message) => self.encode(message.as_ref(), id, message.time_ms()),
            Message::RunEnded(message) => self.encode(message.as_ref(), id, message.time_ms()),
            Message::EventsCommitted(message) => self.encode(message.as_ref(), id, message.time_ms()),
        }
    }

    /// The message of a record, or the typed reason why it can never be one.
    pub fn decode<M: WireMessage>(&self, record: &Inbound) -> Result<M, Rejection> {
        let wire: M::Wire = self.read(M::TOPIC, record)?;
        let message = M::from_wire(wire, &self.limits)?;
        check_key(record, message.invocation_id())?;
        Ok(message)
    }
}
