use std::collections::VecDeque;

use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::{self, Either};
use protocol::{Ignored, TimerName};
use store::DecideError;

use super::*;

/// A store behind a gate: each decision waits until the test lets it through.
struct Gate {
    sizes: Mutex<Vec<usize>>,
    gates: Mutex<VecDeque<oneshot::Receiver<()>>>,
}

fn desk(gates: Vec<oneshot::Receiver<()>>) -> (Arc<Gate>, ClaimDesk) {
    let gate = Arc::new(Gate { sizes: Mutex::default(), gates: Mutex::new(gates.into()) });
    let kept = Arc::clone(&gate);
    let decide: Decide = Arc::new(move |_, claims| {
        let gate = Arc::clone(&kept);
        async move {
            lock(&gate.sizes).push(claims.len());
            let waiting = lock(&gate.gates).pop_front();
            if let Some(waiting) = waiting {
                waiting.await.map_err(|_| Failure::Unavailable("the store is down".into()))?;
            }
            let outcomes = claims.iter().map(|_| Ok(vec![claimed()])).collect();
            let event_id = protocol::EventId::derive(id(), protocol::Basis::default(), 0);
            let outbox = vec![(None, OutboxEntry { event_id, bytes: vec![] })];
            Ok(Decided { outcomes, outbox, conflicts: 0 })
        }
        .boxed()
    });
    (gate, ClaimDesk::new(decide))
}

/// The event of a granted claim.
fn claimed() -> Event {
    let fact = protocol::Fact::CallClaimed {
        call_id: protocol::CallId::derive(id(), protocol::Step(1), protocol::Round(0), 0),
        attempt: protocol::AttemptNumber(1),
        attempt_id: protocol::AttemptId(id().0),
        effect_key: "k".into(),
        lease_until: protocol::Timestamp(1),
    };
    let (version, previous, at) = Default::default();
    Event::seal(version, previous, protocol::Step(1), at, fact)
}

fn id() -> protocol::InvocationId {
    "00000000-0000-0000-0000-000000000007".parse().unwrap()
}

fn address() -> Address {
    Address { tenant: "acme".into(), id: id() }
}

/// The desk does not look into claims; any input stands for one.
fn claim() -> Input {
    Input::TimerFired(TimerName::Decide)
}

fn sizes(gate: &Gate) -> Vec<usize> {
    lock(&gate.sizes).clone()
}

/// Polls once.
fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    block_on(async {
        match future::select(future, future::ready(())).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    })
}

#[test]
fn claims_that_wait_behind_a_commit_share_the_next_one_and_one_of_them_publishes_it() {
    let (open, gate) = oneshot::channel();
    let (seen, desk) = desk(vec![gate]);
    let (address, other) = (address(), Address { tenant: "globex".into(), ..address() });
    let mut first = Box::pin(desk.claim(&address, claim()));
    let mut second = Box::pin(desk.claim(&address, claim()));
    let mut third = Box::pin(desk.claim(&address, claim()));
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none() && poll(&mut third).is_none());
    // Another invocation waits for nobody.
    assert!(block_on(desk.claim(&other, claim())).unwrap().outcome.is_ok());
    open.send(()).unwrap();
    let claimed = block_on(future::join3(third, second, first));
    let claimed = [claimed.0.unwrap(), claimed.1.unwrap(), claimed.2.unwrap()];
    assert_eq!(sizes(&seen), [1, 1, 2]);
    assert!(claimed.iter().all(|claimed| claimed.outcome.is_ok()));
    assert_eq!(claimed.iter().map(|claimed| claimed.outbox.len()).sum::<usize>(), 2);
    assert!(lock(&desk.rooms).is_empty());
}

#[test]
fn a_dropped_leader_does_not_lose_its_followers() {
    let (open, gate) = oneshot::channel();
    let (seen, desk) = desk(vec![gate]);
    let address = address();
    let mut leader = Box::pin(desk.claim(&address, claim()));
    let mut follower = Box::pin(desk.claim(&address, claim()));
    assert!(poll(&mut leader).is_none() && poll(&mut follower).is_none());
    drop(leader);
    assert!(poll(&mut follower).is_none());
    open.send(()).unwrap();
    assert!(block_on(follower).unwrap().outcome.is_ok());
    assert_eq!(sizes(&seen), [1, 1]);
    assert!(lock(&desk.rooms).is_empty());
}

#[test]
fn a_caller_that_left_before_its_round_began_claims_nothing() {
    let (open, gate) = oneshot::channel();
    let (seen, desk) = desk(vec![gate]);
    let address = address();
    let mut first = Box::pin(desk.claim(&address, claim()));
    let mut left = Box::pin(desk.claim(&address, claim()));
    let mut stayed = Box::pin(desk.claim(&address, claim()));
    assert!(poll(&mut first).is_none() && poll(&mut left).is_none() && poll(&mut stayed).is_none());
    drop(left);
    open.send(()).unwrap();
    assert!(block_on(stayed).unwrap().outcome.is_ok());
    assert_eq!(sizes(&seen), [1, 1]);
    assert!(block_on(first).unwrap().outcome.is_ok());
}

#[test]
fn a_failed_commit_fails_every_claim_in_it_and_the_next_round_goes_on() {
    let (open, first_gate) = oneshot::channel();
    let (down, second_gate) = oneshot::channel::<()>();
    let (seen, desk) = desk(vec![first_gate, second_gate]);
    let address = address();
    let mut first = Box::pin(desk.claim(&address, claim()));
    let mut second = Box::pin(desk.claim(&address, claim()));
    let mut third = Box::pin(desk.claim(&address, claim()));
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none() && poll(&mut third).is_none());
    open.send(()).unwrap();
    drop(down);
    let (second, third) = block_on(future::join(second, third));
    assert!(matches!((second, third), (Err(Failure::Unavailable(_)), Err(Failure::Unavailable(_)))));
    assert!(block_on(desk.claim(&address, claim())).unwrap().outcome.is_ok());
    assert_eq!(sizes(&seen), [1, 2, 1]);
}

#[test]
fn one_commit_carries_a_bounded_number_of_claims() {
    let (open, gate) = oneshot::channel();
    let (seen, desk) = desk(vec![gate]);
    let address = address();
    let mut claims: Vec<_> = (0..2 + MAX_SHARED).map(|_| Box::pin(desk.claim(&address, claim()))).collect();
    assert!(claims.iter_mut().all(|claim| poll(claim).is_none()));
    open.send(()).unwrap();
    assert!(block_on(future::join_all(claims)).iter().all(Result::is_ok));
    assert_eq!(sizes(&seen), [1, MAX_SHARED, 1]);
    assert!(lock(&desk.rooms).is_empty());
}

#[test]
fn a_refusal_reaches_the_caller_it_belongs_to() {
    let refused = || Refusal::Ignored(Ignored::Claim(protocol::ClaimRefusal::Held));
    let decide: Decide = Arc::new(move |_, _| {
        let outcomes = vec![Err(refused())];
        async move { Ok::<_, DecideError>(Decided { outcomes, outbox: vec![], conflicts: 3 }) }
            .map(|decided| decided.map_err(|_| Failure::Retry(String::new())))
            .boxed()
    });
    let desk = ClaimDesk::new(decide);
    let claimed = block_on(desk.claim(&address(), claim())).unwrap();
    assert_eq!((claimed.outcome, claimed.conflicts), (Err(refused()), 3));
}
