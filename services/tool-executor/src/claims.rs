//! The claim desk: claims of one invocation that wait together share one commit. A round collects claims until the round
//! before it is done; whoever waits for a round drives it, so that no caller depends on another one's future.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use chassis::Failure;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use protocol::{ClaimRefusal, Event, Ignored, Input, grants_claim};
use store::{Address, Decided, OutboxEntry, OutboxRef, Refusal};

/// The most claims that one commit carries.
const MAX_SHARED: usize = 64;

/// Load → handle → commit, as the desk needs it.
pub(crate) type Decide = Arc<dyn Fn(Address, Vec<Input>) -> BoxFuture<'static, Result<Decided, Failure>> + Send + Sync>;

/// What a commit wants published, each with its place in the outbox.
pub(crate) type Outbox = Vec<(Option<OutboxRef>, OutboxEntry)>;

/// What came of one claim.
pub(crate) struct Claimed {
    pub outcome: Result<(), Refusal>,
    /// What the shared commit wants published: given to one of its claims, whatever came of that one.
    pub outbox: Outbox,
    /// Conflicts that the commit met, reported with its outbox.
    pub conflicts: u32,
}

/// Claims, one commit at a time per invocation. Holds nothing of an invocation that nobody waits for.
pub(crate) struct ClaimDesk {
    decide: Decide,
    rooms: Mutex<HashMap<Address, Room>>,
}

/// The newest round of an invocation.
struct Room {
    round: WeakShared<BoxFuture<'static, Arc<Done>>>,
    seats: Arc<Seats>,
}

type Round = Shared<BoxFuture<'static, Arc<Done>>>;

/// Claims by seat number; `None` once the round has begun to decide. A seat's token dies with its caller.
type Seats = Mutex<Option<Vec<(Weak<()>, Input)>>>;

/// A round that was decided.
struct Done {
    outcomes: Result<HashMap<usize, Result<(), Refusal>>, Failure>,
    published_by: Mutex<Option<(Outbox, u32)>>,
}

/// A caller's place in a round. Dropped before the round decides, its claim is not made.
struct Seat<'d> {
    desk: &'d ClaimDesk,
    address: Address,
    number: usize,
    round: Option<Round>,
    _token: Arc<()>,
}

impl ClaimDesk {
    pub(crate) fn new(decide: Decide) -> Self {
        Self { decide, rooms: Mutex::default() }
    }

    /// Asks for a claim. An error leaves it unknown whether it was committed; asked again it then answers as held.
    pub(crate) async fn claim(&self, address: &Address, claim: Input) -> Result<Claimed, Failure> {
        let mut seat = self.sit(address, claim);
        let round = seat.round.as_mut().expect("a seat gives its round back only when dropped");
        let done = round.await;
        let outcomes = done.outcomes.as_ref().map_err(Clone::clone)?;
        let outcome = outcomes.get(&seat.number).cloned();
        let outcome = outcome.ok_or_else(|| Failure::Retry("the claim was left out of its commit".to_owned()))?;
        let (outbox, conflicts) = lock(&done.published_by).take().unwrap_or_default();
        Ok(Claimed { outcome, outbox, conflicts })
    }

    /// Takes a seat in the round that still collects, or opens the next one.
    fn sit(&self, address: &Address, claim: Input) -> Seat<'_> {
        let token = Arc::new(());
        let seat = |number, round| Seat {
            desk: self,
            address: address.clone(),
            number,
            round: Some(round),
            _token: Arc::clone(&token),
        };
        let mut rooms = lock(&self.rooms);
        let newest = rooms.get(address).and_then(|room| Some((room.round.upgrade()?, Arc::clone(&room.seats))));
        if let Some((round, seats)) = &newest
            && let Some(taken) = lock(seats).as_mut().filter(|taken| taken.len() < MAX_SHARED)
        {
            taken.push((Arc::downgrade(&token), claim));
            return seat(taken.len() - 1, round.clone());
        }
        let seats = Arc::new(Mutex::new(Some(vec![(Arc::downgrade(&token), claim)])));
        let before = newest.map(|(round, _)| round);
        let round = hold(Arc::clone(&self.decide), address.clone(), Arc::clone(&seats), before).boxed().shared();
        if let Some(weak) = round.downgrade() {
            rooms.insert(address.clone(), Room { round: weak, seats });
        }
        seat(0, round)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        drop(self.round.take());
        let mut rooms = lock(&self.desk.rooms);
        if rooms.get(&self.address).is_some_and(|room| room.round.upgrade().is_none()) {
            rooms.remove(&self.address);
        }
    }
}

async fn hold(decide: Decide, address: Address, seats: Arc<Seats>, before: Option<Round>) -> Arc<Done> {
    if let Some(before) = before {
        before.await;
    }
    let taken = lock(&seats).take().unwrap_or_default();
    let still_there = |(token, _): &(Weak<()>, Input)| token.strong_count() > 0;
    let (numbers, claims): (Vec<_>, Vec<_>) = taken
        .into_iter()
        .enumerate()
        .filter(|(_, entry)| still_there(entry))
        .map(|(number, (_, claim))| (number, claim))
        .unzip();
    let decided = decide(address, claims).await;
    let (outcomes, published_by) = match decided {
        Err(failure) => (Err(failure), None),
        Ok(Decided { outcomes, outbox, conflicts }) => {
            let outcomes = outcomes.into_iter().map(|outcome| outcome.and_then(|events| granted(&events)));
            (Ok(numbers.into_iter().zip(outcomes).collect()), Some((outbox, conflicts)))
        }
    };
    Arc::new(Done { outcomes, published_by: Mutex::new(published_by) })
}

/// A claim that only records what the store may have lost starts nothing.
fn granted(events: &[Event]) -> Result<(), Refusal> {
    match grants_claim(events) {
        true => Ok(()),
        false => Err(Refusal::Ignored(Ignored::Claim(ClaimRefusal::StaleEpoch))),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
