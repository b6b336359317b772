//! What the store says about a turn: whether it is still the one to decide, and the committed events it is based on.

use chassis::Failure;
use protocol::{Basis, Event, Invocation, Phase, Scope, Version};
use store::{EventRecord, Loaded, Store};

/// Where a turn stands against the store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// To be decided now.
    Current,
    /// It belongs to what is over.
    Stale,
    /// The invocation is frozen: only a rebuild goes on.
    Frozen,
    /// Its basis is not in the store: the store lost a commit.
    BasisAhead,
}

/// What was read for one turn, at once.
pub(crate) struct Read {
    pub loaded: Loaded,
    /// The journalled answer, if this turn was answered before.
    pub answered: Option<Vec<u8>>,
    /// What was proven of the history before.
    known: History,
    /// The events after that, up to the turn's basis.
    newer: Vec<EventRecord>,
}

/// A run's first events, proven: authentic, and chained without a gap.
#[derive(Default)]
pub(crate) struct History {
    pub events: Vec<Event>,
    /// As they are stored.
    pub bytes: usize,
}

/// Reads everything a turn needs, of its history what is not `known`. Events and journal entries never change
/// once written, so that nothing is torn between them and the snapshot.
pub(crate) async fn read(
    store: &dyn Store,
    scope: &Scope,
    field: &str,
    known: Option<History>,
) -> Result<Read, store::Error> {
    let version = scope.basis.version;
    // A history that is longer than the turn's own belongs to a later turn: this one is most likely over.
    let known = known.filter(|known| known.version() <= version).unwrap_or_default();
    let read = store.load_turn(&address(scope), field, known.version().next(), version).await?;
    Ok(Read { loaded: read.loaded, answered: read.answered, known, newer: read.events })
}

pub(crate) fn address(scope: &Scope) -> store::Address {
    store::Address { tenant: scope.tenant.clone(), id: scope.invocation_id }
}

/// Whether this turn is the current one. An unreadable snapshot is an error.
pub(crate) fn standing(scope: &Scope, loaded: &Loaded) -> Result<Standing, Failure> {
    if loaded.fenced {
        // What is loaded may be older than this turn; the model is not asked for one that is over.
        return Err(Failure::Unavailable("another server answers for the store".to_owned()));
    }
    if loaded.tombstone.is_some() {
        return Ok(Standing::Stale);
    }
    if loaded.frozen.is_some() {
        return Ok(Standing::Frozen);
    }
    let Some(snapshot) = &loaded.snapshot else {
        return Ok(Standing::BasisAhead);
    };
    let other_history = loaded.hash_at.is_some_and(|hash| hash != scope.basis.hash);
    if snapshot.version < scope.basis.version || other_history {
        return Ok(Standing::BasisAhead);
    }
    if (snapshot.version, snapshot.head) == (scope.basis.version, scope.basis.hash) {
        // A turn is asked for by the event that opens it, and nothing has happened since.
        return Ok(Standing::Current);
    }
    let unreadable = |error: serde_json::Error| Failure::Retry(format!("the snapshot is unreadable: {error}"));
    let invocation: Invocation = serde_json::from_slice(&snapshot.bytes).map_err(unreadable)?;
    match invocation.phase() {
        None => Ok(Standing::BasisAhead),
        Some(Phase::Deciding(deciding))
            if (deciding.step, deciding.round, deciding.basis) == (scope.step, scope.round, scope.basis) =>
        {
            Ok(Standing::Current)
        }
        Some(
            Phase::Deciding(_) | Phase::Executing(_) | Phase::Suspended(_) | Phase::Cancelling(_) | Phase::Ended(_),
        ) => Ok(Standing::Stale),
    }
}

impl Read {
    /// The events of a turn's basis, proven from the first one on.
    pub(crate) fn history(&mut self, scope: &Scope) -> Result<History, String> {
        std::mem::take(&mut self.known).extended(&self.newer, scope.basis)
    }
}

impl History {
    /// With the events that follow, up to the basis. The error says where the chain breaks; the model is never asked over
    /// such a history.
    pub(crate) fn extended(mut self, newer: &[EventRecord], basis: Basis) -> Result<History, String> {
        for record in newer {
            self.append(record)?;
        }
        match self.events.last().map(Event::basis) == Some(basis) {
            true => Ok(self),
            false => Err(format!("the events end before the basis, version {}", basis.version)),
        }
    }

    fn version(&self) -> Version {
        self.events.last().map(|event| event.version).unwrap_or(Version(0))
    }

    fn append(&mut self, record: &EventRecord) -> Result<(), String> {
        let version = self.version().next();
        let previous = self.events.last().map(|event| event.hash).unwrap_or_default();
        let event = store::read_event(record).map_err(|error| format!("event {version}: {error}"))?;
        if event.version != version || event.previous != previous || !event.is_authentic() {
            return Err(format!("event {version} does not follow the one before it"));
        }
        self.bytes += record.bytes.len();
        self.events.push(event);
        Ok(())
    }
}
