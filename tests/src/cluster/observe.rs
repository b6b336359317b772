//! What a caller and an observer see: terminal events, told apart by `ce_id`, and the event log, as its hashes prove it.

use std::collections::BTreeMap;

use protocol::{Digest, Event, EventsCommitted, Fact, InvocationId, RunEnded, Version};
use schemas::{Codec, Inbound, headers};

use super::Error;

/// The terminal events seen so far.
#[derive(Default)]
pub struct Observed {
    ended: BTreeMap<InvocationId, BTreeMap<String, RunEnded>>,
    /// Records read, repetitions included.
    pub records: usize,
}

impl Observed {
    /// Takes a record of `terminals`; gives the invocation that it is about.
    pub fn take(&mut self, codec: &Codec, record: &Inbound) -> Result<InvocationId, Error> {
        let ended: RunEnded = codec.decode(record).map_err(|error| Error::failed("a terminal event", error))?;
        let event_id =
            record.header(headers::CE_ID).ok_or_else(|| Error::failed("a terminal event", "has no ce_id"))?;
        self.records += 1;
        let id = ended.scope.invocation_id;
        self.ended.entry(id).or_default().insert(event_id.to_owned(), ended);
        Ok(id)
    }

    /// How many invocations have a final terminal event.
    pub fn finished(&self) -> usize {
        self.ended.values().filter(|events| events.values().any(|ended| !ended.resumable)).count()
    }

    pub fn event_ids(&self, id: InvocationId) -> Vec<&str> {
        self.ended.get(&id).into_iter().flat_map(|events| events.keys().map(String::as_str)).collect()
    }

    /// The one terminal event of an invocation that never suspended; an error when there are none or several.
    pub fn only(&self, id: InvocationId) -> Result<&RunEnded, Error> {
        let events: Vec<(&String, &RunEnded)> = self.ended.get(&id).into_iter().flatten().collect();
        match events.as_slice() {
            [(_, ended)] => Ok(ended),
            [] => Err(Error::failed(format!("{id}"), "has no terminal event")),
            several => {
                Err(Error::failed(format!("{id}"), format!("has {} terminal events: {several:#?}", several.len())))
            }
        }
    }

    /// The one final terminal event of an invocation, and how many resumable ones came before it.
    pub fn only_final(&self, id: InvocationId) -> Result<(&RunEnded, usize), Error> {
        let events: Vec<&RunEnded> = self.ended.get(&id).into_iter().flat_map(BTreeMap::values).collect();
        let ends: Vec<&RunEnded> = events.iter().copied().filter(|ended| !ended.resumable).collect();
        match ends.as_slice() {
            [ended] => Ok((ended, events.len() - 1)),
            other => {
                Err(Error::failed(format!("{id}"), format!("has {} final terminal events: {events:#?}", other.len())))
            }
        }
    }
}

/// Committed logs, by invocation and version.
#[derive(Default)]
pub struct Log {
    events: BTreeMap<InvocationId, BTreeMap<Version, Event>>,
}

impl Log {
    /// Takes a record of `events`. One that contradicts what was there is a fork, and an error.
    pub fn take(&mut self, codec: &Codec, record: &Inbound) -> Result<(), Error> {
        let committed: EventsCommitted =
            codec.decode(record).map_err(|error| Error::failed("an events record", error))?;
        let id = committed.scope.invocation_id;
        let log = self.events.entry(id).or_default();
        for event in committed.events {
            let version = event.version;
            if let Some(known) = log.insert(version, event.clone())
                && known != event
            {
                return Err(Error::failed(
                    format!("{id}"),
                    format!("has two events {version}: {known:?} and {event:?}"),
                ));
            }
        }
        Ok(())
    }

    /// The whole log of one invocation: versions 1 to n without a gap, each event with its own and its predecessor's hash.
    pub fn verified(&self, id: InvocationId) -> Result<Vec<&Event>, Error> {
        let events: Vec<&Event> = self.events.get(&id).into_iter().flat_map(BTreeMap::values).collect();
        let mut previous = Digest([0; 32]);
        for (at, event) in (1..).zip(&events) {
            let wrong = |why: &str| Error::failed(format!("event {at} of {id}"), format!("{why}: {event:?}"));
            if event.version != Version(at) {
                return Err(wrong("stands where another version should"));
            }
            if event.previous != previous {
                return Err(wrong("does not name its predecessor's hash"));
            }
            if !event.is_authentic() {
                return Err(wrong("has a hash that its content does not give"));
            }
            previous = event.hash;
        }
        match events.last().map(|event| &event.fact) {
            Some(Fact::Ended { .. } | Fact::EffectSettledLate { .. }) => Ok(events),
            Some(other) => Err(Error::failed(format!("the log of {id}"), format!("ends with {}", other.name()))),
            None => Err(Error::failed(format!("the log of {id}"), "is empty")),
        }
    }
}
