//! What the store says about a turn: whether it is still the one to decide, and the committed events it is based on.

use chassis::Failure;
use protocol::{Digest, Event, Invocation, Phase, Scope, Version};
use store::{Entries, EventRecord, Loaded, Store};

/// Where a turn stands against the store.
#[derive(Debug)]
pub(crate) enum Standing {
    /// To be decided now. Milliseconds are left until the run's end and until the turn is asked for again.
    Current { until_end_ms: u64, decide_timeout_ms: u64 },
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
    pub events: Vec<EventRecord>,
}

/// Reads everything a turn needs. The three reads go together: events and journal entries never change once written, so
/// that nothing is torn between them and the snapshot.
pub(crate) async fn read(store: &dyn Store, scope: &Scope, field: &str) -> Result<Read, store::Error> {
    let address = address(scope);
    let version = scope.basis.version;
    let entries = Entries::Keys(Vec::new());
    let (loaded, answered, events) = futures::try_join!(
        store.load(&address, &entries, Some(version)),
        store.journaled(&address, field),
        store.events(&address, Version(1), version),
    )?;
    Ok(Read { loaded, answered, events })
}

pub(crate) fn address(scope: &Scope) -> store::Address {
    store::Address { tenant: scope.tenant.clone(), id: scope.invocation_id }
}

/// Whether this turn is the current one. An unreadable snapshot is an error.
pub(crate) fn standing(scope: &Scope, loaded: &Loaded) -> Result<Standing, Failure> {
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
    let unreadable = |error: serde_json::Error| Failure::Retry(format!("the snapshot is unreadable: {error}"));
    let invocation: Invocation = serde_json::from_slice(&snapshot.bytes).map_err(unreadable)?;
    let Some(run) = invocation.run.as_deref() else {
        return Ok(Standing::BasisAhead);
    };
    match &run.phase {
        Phase::Deciding(deciding)
            if (deciding.step, deciding.round, deciding.basis) == (scope.step, scope.round, scope.basis) =>
        {
            Ok(Standing::Current {
                until_end_ms: run.ends_at().map_or(u64::MAX, |end| end.ms_since(loaded.now)),
                decide_timeout_ms: run.timing.decide_timeout_ms,
            })
        }
        Phase::Deciding(_) | Phase::Executing(_) | Phase::Suspended(_) | Phase::Cancelling(_) | Phase::Ended(_) => {
            Ok(Standing::Stale)
        }
    }
}

/// The events of a turn's basis, proven: authentic, chained without a gap from the first one, and ending in the basis.
/// The error says where the chain breaks; the model is never asked over such a history.
pub(crate) fn history(scope: &Scope, records: &[EventRecord]) -> Result<Vec<Event>, String> {
    let mut previous = Digest::default();
    let mut events = Vec::with_capacity(records.len());
    for (version, record) in (1..).map(Version).zip(records) {
        let event = store::read_event(record).map_err(|error| format!("event {version}: {error}"))?;
        if event.version != version || event.previous != previous || !event.is_authentic() {
            return Err(format!("event {version} does not follow the one before it"));
        }
        previous = event.hash;
        events.push(event);
    }
    let last = events.last().map(Event::basis);
    match last == Some(scope.basis) {
        true => Ok(events),
        false => Err(format!("the events end before the basis, version {}", scope.basis.version)),
    }
}
