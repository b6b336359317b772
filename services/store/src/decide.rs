//! Load → handle → commit, in one place for every service that commits. Nothing else writes an invocation.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::{
    AcceptedDecision, Basis, Control, EffectKey, Event, Ignored, Input, Invocation, Judgement, Outgoing, Timestamp,
    Version, emit, handle_and_apply, needs, wants_whole_ledger,
};

use crate::convert::{index_entry, json, record, timer_changes, write};
use crate::loading::{Loading, decode};
use crate::remember::Memory;
use crate::{Address, Commit, Committed, Entries, Error, OutboxEntry, OutboxRef, Snapshot, Store, Tombstone};

/// Turns a message of the protocol into what the outbox keeps and the relay publishes.
pub trait Encode: Send + Sync {
    /// An error says which message no record can hold, and why; nothing is committed then.
    fn encode(&self, outgoing: &Outgoing, at: Timestamp) -> Result<Vec<u8>, String>;
}

/// Load → handle → commit.
#[derive(Clone)]
pub struct Decider {
    pub store: Arc<dyn Store>,
    pub encode: Arc<dyn Encode>,
    /// How many early Cancels a tenant may have waiting in one shard.
    pub stub_quota: u32,
    pub(crate) memory: Option<Arc<Memory>>,
}

/// Immediate repetitions after a conflict, before the caller backs off.
pub const MAX_CONFLICTS: u32 = 16;
/// How many early Cancels a tenant may have waiting in one shard, unless configured otherwise.
pub const DEFAULT_STUB_QUOTA: u32 = 1_000;

/// What came of some inputs.
#[derive(Debug)]
pub struct Decided {
    /// One per input, in order: the events it caused, or why it caused none.
    pub outcomes: Vec<Result<Vec<Event>, Refusal>>,
    /// What must be published because of it. Without a reference the entry is left to the sweeper to delete.
    pub outbox: Vec<(Option<OutboxRef>, OutboxEntry)>,
    /// Conflicts met on the way, for the metric.
    pub conflicts: u32,
}

/// Why an input caused no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Ignored(Ignored),
    /// An early Cancel was kept as a stub.
    Kept,
    /// The tenant has too many early Cancels waiting.
    OverQuota,
}

/// Why no decision could be made.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    #[error(transparent)]
    Store(#[from] Error),
    /// Too many conflicts in a row: back off and come again.
    #[error("{0} conflicts in a row")]
    Contended(u32),
    /// What the commit would have to say does not fit a record.
    #[error("a message of this commit cannot be published: {0}")]
    Unencodable(String),
    /// A bug: the core refused its own decision.
    #[error("the protocol contradicts itself: {0}")]
    Bug(String),
}

impl Decider {
    pub fn new(store: Arc<dyn Store>, encode: Arc<dyn Encode>) -> Self {
        Self { store, encode, stub_quota: DEFAULT_STUB_QUOTA, memory: None }
    }

    /// The invocation as it is committed, without its ledger. A frozen one reads as absent: its lease is revoked as well.
    pub async fn peek(&self, address: &Address) -> Result<(Invocation, Timestamp), Error> {
        let loaded = self.store.load(address, &Entries::Keys(Vec::new()), None).await?;
        if loaded.fenced {
            return Err(fenced());
        }
        let loading = decode(address, loaded, Some(BTreeSet::new()), None)?;
        let state = match loading.frozen {
            true => Invocation::absent(address.tenant.clone(), address.id),
            false => loading.state,
        };
        Ok((state, loading.now))
    }

    /// Applies these inputs to one invocation, in order, in as few commits as may be.
    pub async fn decide(&self, address: &Address, inputs: &[Input]) -> Result<Decided, DecideError> {
        let mut decided = Decided { outcomes: Vec::new(), outbox: Vec::new(), conflicts: 0 };
        let mut all_entries = inputs.iter().any(ends);
        while decided.outcomes.len() < inputs.len() {
            let rest = &inputs[decided.outcomes.len()..];
            match self.round(address, rest, all_entries).await? {
                Round::Done(outcomes, outbox) => {
                    decided.outcomes.extend(outcomes);
                    decided.outbox.extend(outbox);
                    all_entries = inputs[decided.outcomes.len()..].iter().any(ends);
                }
                Round::WholeLedger => all_entries = true,
                Round::Conflict => {
                    decided.conflicts += 1;
                    if decided.conflicts > MAX_CONFLICTS {
                        return Err(DecideError::Contended(decided.conflicts));
                    }
                }
            }
        }
        Ok(decided)
    }

    async fn round(&self, address: &Address, inputs: &[Input], all: bool) -> Result<Round, DecideError> {
        if let Some(round) = self.round_on_remembered(address, inputs).await? {
            return Ok(round);
        }
        let loading = self.load(address, inputs, all).await?;
        if loading.frozen {
            return Ok(Round::nothing(inputs.iter().map(|_| Refusal::Ignored(Ignored::Frozen))));
        }
        if let Some(tombstone) = &loading.tombstone {
            return Ok(Round::nothing(inputs.iter().map(|input| Refusal::Ignored(after_expiry(tombstone, input)))));
        }
        let draft = match self.fold(address, &loading, inputs).await? {
            Ok(draft) => draft,
            Err(basis) => {
                self.store.freeze(address, basis).await?;
                let lost = Refusal::Ignored(Ignored::LostCommit(basis));
                return Ok(Round::Done(vec![Err(lost)], Vec::new()));
            }
        };
        if draft.events.is_empty() && draft.stub.is_none() {
            return Ok(Round::Done(draft.outcomes, Vec::new()));
        }
        let effects = draft.state.run.as_ref().map(|run| run.effects).unwrap_or_default();
        if wants_whole_ledger(&draft.events) && effects > 0 && !draft.state.ledger.is_complete() {
            return Ok(Round::WholeLedger);
        }
        self.commit(address, &loading, draft).await
    }

    /// Decides on what is remembered, if all of it leads to a commit, and that one meets the store as it was remembered.
    async fn round_on_remembered(&self, address: &Address, inputs: &[Input]) -> Result<Option<Round>, DecideError> {
        let Some(loading) = self.recall(address, inputs) else {
            return Ok(None);
        };
        let Ok(draft) = self.fold(address, &loading, inputs).await? else {
            return Ok(None);
        };
        let effects = draft.state.run.as_ref().map(|run| run.effects).unwrap_or_default();
        let lacks_ledger = wants_whole_ledger(&draft.events) && effects > 0 && !draft.state.ledger.is_complete();
        let all_applied = draft.outcomes.len() == inputs.len() && draft.outcomes.iter().all(Result::is_ok);
        if lacks_ledger || !all_applied || draft.events.is_empty() {
            return Ok(None);
        }
        match self.commit(address, &loading, draft).await? {
            Round::Conflict => Ok(None),
            round => Ok(Some(round)),
        }
    }

    async fn load(&self, address: &Address, inputs: &[Input], all: bool) -> Result<Loading, Error> {
        let hash_at = inputs.first().and_then(Input::scope).map(|scope| scope.basis.version);
        let absent = Invocation::absent(address.tenant.clone(), address.id);
        let mut keys = all_needs(&absent, inputs);
        loop {
            let entries = match all {
                true => Entries::All,
                false => Entries::Keys(keys.iter().cloned().collect()),
            };
            let loaded = self.store.load(address, &entries, hash_at).await?;
            if loaded.fenced {
                return Err(fenced());
            }
            let mut loading = decode(address, loaded, (!all).then(|| keys.clone()), hash_at)?;
            loading.read = self.read_at(loading.now);
            let wanted = all_needs(&loading.state, inputs);
            if all || wanted.is_subset(&keys) {
                return Ok(loading);
            }
            keys.extend(wanted);
        }
    }

    /// Decides each input on the state the ones before it have made. `Err` is the basis that proves a lost commit.
    async fn fold(
        &self,
        address: &Address,
        loading: &Loading,
        inputs: &[Input],
    ) -> Result<Result<Draft, Basis>, DecideError> {
        let mut draft = Draft { state: loading.state.clone(), events: Vec::new(), outcomes: Vec::new(), stub: None };
        for input in inputs {
            self.learn_hash(address, loading, &mut draft.state, input).await?;
            match handle_and_apply(&draft.state, input, loading.now) {
                Ok((events, state)) => {
                    draft.state = state;
                    draft.events.extend(events.iter().cloned());
                    draft.outcomes.push(Ok(events));
                }
                Err(Ignored::LostCommit(basis)) if draft.outcomes.is_empty() => return Ok(Err(basis)),
                // What came before it is committed first; then it is decided on a fresh load.
                Err(Ignored::LostCommit(_) | Ignored::NotLoaded(_)) if !draft.outcomes.is_empty() => {
                    return Ok(Ok(draft));
                }
                Err(Ignored::OvertakesRequest) if draft.events.is_empty() => {
                    draft.stub = stub(&draft.state, input);
                    draft.outcomes.push(Err(Refusal::Kept));
                    return Ok(Ok(draft));
                }
                Err(Ignored::Refused(error)) => return Err(DecideError::Bug(error.to_string())),
                Err(Ignored::NotLoaded(error)) => return Err(DecideError::Bug(error.to_string())),
                Err(ignored) => draft.outcomes.push(Err(Refusal::Ignored(ignored))),
            }
        }
        Ok(Ok(draft))
    }

    /// The load brought one event's hash along; inputs with another basis get theirs here. Events never change, so a
    /// separate read cannot be torn.
    async fn learn_hash(
        &self,
        address: &Address,
        loading: &Loading,
        state: &mut Invocation,
        input: &Input,
    ) -> Result<(), Error> {
        let Some(version) = input.scope().map(|scope| scope.basis.version) else {
            return Ok(());
        };
        let known = state.hash_at.is_some_and(|(known, _)| known == version);
        if known || version > loading.state.version || version == Version(0) {
            return Ok(());
        }
        if let Some(known) = loading.hashes.iter().find(|(known, _)| *known == version) {
            state.hash_at = Some(*known);
            return Ok(());
        }
        let events = self.store.events(address, version, version).await?;
        state.hash_at = events.first().map(|event| (version, event.hash));
        Ok(())
    }

    async fn commit(&self, address: &Address, loading: &Loading, draft: Draft) -> Result<Round, DecideError> {
        let Draft { state, events, outcomes, stub } = draft;
        let is_stub = stub.is_some() && events.is_empty();
        let state = stub.filter(|_| is_stub).unwrap_or(state);
        let outbox = self.outbox(&emit(&state, &events), state.at)?;
        let last = events.last().map(Event::basis);
        let commit = Commit {
            address: address.clone(),
            expected: loading.expected,
            decided_at: loading.now,
            events: record(&events)?,
            snapshot: Snapshot { version: state.version, head: state.head, bytes: json(&state)? },
            entries: state.ledger.changed().map(write).collect::<Result<_, _>>()?,
            timers: timer_changes(&loading.state, &state),
            outbox,
            index: index_entry(&state)?,
            request_digest: state.run.as_ref().map(|run| run.request_digest),
            stub_quota: is_stub.then_some(self.stub_quota),
            thaws: false,
        };
        let committed = self.store.commit(&commit).await;
        let outbox = commit.outbox;
        let committed = match committed {
            // The reply was lost: whether the commit was not, its own last event tells.
            Err(Error::Retryable(_)) if self.is_committed(address, last).await? => {
                return Ok(Round::Done(outcomes, outbox.into_iter().map(|entry| (None, entry)).collect()));
            }
            Err(Error::Retryable(_)) => Committed::Conflict,
            other => other?,
        };
        Ok(match committed {
            Committed::Done(refs) => {
                if !is_stub {
                    self.remember(address, loading, state, &events, commit.snapshot.bytes.len());
                }
                Round::Done(outcomes, refs.into_iter().map(Some).zip(outbox).collect())
            }
            Committed::Conflict => Round::Conflict,
            Committed::Frozen => Round::nothing(outcomes.iter().map(|_| Refusal::Ignored(Ignored::Frozen))),
            Committed::Fenced => return Err(fenced().into()),
            Committed::OverQuota => Round::nothing(outcomes.iter().map(|_| Refusal::OverQuota)),
        })
    }

    /// Messages as the outbox keeps them.
    pub(crate) fn outbox(&self, messages: &[Outgoing], at: Timestamp) -> Result<Vec<OutboxEntry>, DecideError> {
        let entry = |outgoing: &Outgoing| {
            let bytes = self.encode.encode(outgoing, at).map_err(DecideError::Unencodable)?;
            Ok(OutboxEntry { event_id: outgoing.event_id, bytes })
        };
        messages.iter().map(entry).collect()
    }

    async fn is_committed(&self, address: &Address, last: Option<Basis>) -> Result<bool, Error> {
        let Some(last) = last else {
            return Ok(false);
        };
        let loaded = self.store.load(address, &Entries::Keys(Vec::new()), Some(last.version)).await?;
        Ok(loaded.hash_at == Some(last.hash))
    }
}

enum Round {
    Done(Vec<Result<Vec<Event>, Refusal>>, Vec<(Option<OutboxRef>, OutboxEntry)>),
    /// The commit ends a segment: its whole ledger must be at hand.
    WholeLedger,
    Conflict,
}

impl Round {
    fn nothing(refusals: impl Iterator<Item = Refusal>) -> Self {
        Self::Done(refusals.map(Err).collect(), Vec::new())
    }
}

struct Draft {
    state: Invocation,
    events: Vec<Event>,
    outcomes: Vec<Result<Vec<Event>, Refusal>>,
    stub: Option<Invocation>,
}

/// Nothing is decided on what may be older than what was committed.
fn fenced() -> Error {
    let why = "another server answers for the store; the committer compares it with the log first";
    Error::Retryable(why.to_owned())
}

pub(crate) fn all_needs(state: &Invocation, inputs: &[Input]) -> BTreeSet<EffectKey> {
    inputs.iter().flat_map(|input| needs(state, input).effects).collect()
}

/// Whether an input is sure to end a segment of a run that can take it, so that its whole ledger will be wanted.
fn ends(input: &Input) -> bool {
    match input {
        Input::Verdict(verdict) => match &verdict.judgement {
            Judgement::Accepted { decision, .. } => !matches!(decision, AcceptedDecision::ToolCalls { .. }),
            Judgement::ApprovalRequired { .. } | Judgement::DecisionFailed { .. } => true,
            Judgement::Rejected { .. } => false,
        },
        Input::Control(Control::Cancel { .. }) => true,
        Input::Requested(_)
        | Input::Control(
            Control::Approve { .. } | Control::Reject { .. } | Control::Clarify { .. } | Control::ResolveEffect { .. },
        )
        | Input::CallSettled(_)
        | Input::EffectAnswered(_)
        | Input::ClaimRequested(_)
        | Input::TimerFired(_) => false,
    }
}

/// What an expired invocation answers: its request is known, everything else comes too late.
fn after_expiry(tombstone: &Tombstone, input: &Input) -> Ignored {
    match input {
        Input::Requested(requested) if requested.digest == tombstone.request_digest => Ignored::Duplicate,
        Input::Requested(_) => Ignored::Conflict,
        Input::Control(Control::Approve { .. } | Control::Reject { .. }) => Ignored::NoApprovalWaiting,
        Input::Control(Control::Clarify { .. }) => Ignored::NoQuestionWaiting,
        Input::Control(Control::Cancel { .. } | Control::ResolveEffect { .. })
        | Input::Verdict(_)
        | Input::CallSettled(_)
        | Input::EffectAnswered(_)
        | Input::ClaimRequested(_)
        | Input::TimerFired(_) => Ignored::Stale,
    }
}

fn stub(state: &Invocation, input: &Input) -> Option<Invocation> {
    match input {
        Input::Control(protocol::Control::Cancel { actor, reason }) => {
            Some(state.clone().with_stub(actor.clone(), reason.clone()))
        }
        _ => None,
    }
}
