//! Short names for what moves in the model. A name stands for one concrete message or input: which one, the committed
//! history it is used with decides.

use std::fmt;

use protocol::{AttemptId, AttemptNumber, CallId, InvocationId, Message, Round, Scope, Step};

/// A call by its place: step, round, ordinal in the batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallAt {
    pub step: u8,
    pub round: u8,
    pub ordinal: u8,
}

/// One attempt of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptAt {
    pub call: CallAt,
    pub number: u8,
}

/// An entry of the outbox. The record of the committed events is left out: nothing that happens to a run depends on who
/// has read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// `count` tells the reissues of one turn apart.
    Turn {
        step: u8,
        round: u8,
        count: u8,
    },
    Dispatch(AttemptAt),
    Query {
        attempt: AttemptAt,
        probe: u8,
    },
    Ended {
        segment: u8,
    },
}

/// What an attempt reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Said {
    Done,
    /// A certain no.
    Refused,
    /// A read's error that another attempt may mend.
    Transient,
    NothingSent,
    Unknown,
}

/// What an owner answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// By this attempt.
    Committed(AttemptAt),
    Rejected,
    NotApplied,
    Pending,
}

/// An effect, by its place in the scenario's list.
pub type EffectAt = u8;

/// A message that does not come from the outbox: what callers, people and services say. Once said, it may be delivered at
/// any time, any number of times, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Letter {
    Request,
    Cancel,
    Verdict {
        step: u8,
        round: u8,
        choice: u8,
    },
    Result {
        attempt: AttemptAt,
        said: Said,
    },
    Resolution {
        attempt: AttemptAt,
        probe: u8,
        word: Word,
    },
    /// A person's word on the proposal of that turn: the run's own actor, or another.
    Approve {
        step: u8,
        round: u8,
        own: bool,
    },
    Reject {
        step: u8,
        round: u8,
    },
    /// A person's answer to the question of that step, which it names or not.
    Clarify {
        step: u8,
        named: bool,
    },
    /// A person's word on an effect, from the owner's books.
    Settled {
        effect: EffectAt,
        applied: Option<AttemptAt>,
    },
}

/// A timer of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerAt {
    Deadline,
    Decide,
    Approval,
    Grace,
    Call(CallAt),
}

/// What the store is asked to decide on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    Letter(Letter),
    Claim(AttemptAt),
    Timer(TimerAt),
}

impl fmt::Debug for CallAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}.{}.{}", self.step, self.round, self.ordinal)
    }
}

impl fmt::Debug for AttemptAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} attempt {}", self.call, self.number)
    }
}

impl CallAt {
    /// The place of a call of that turn.
    pub fn of(id: InvocationId, (step, round): (Step, Round), call_id: CallId) -> Option<Self> {
        let ordinal = (0..8).find(|ordinal| CallId::derive(id, step, round, *ordinal) == call_id)?;
        Some(Self { step: small(step.0), round: small(round.0), ordinal: small(ordinal) })
    }

    pub fn id(self, invocation: InvocationId) -> CallId {
        CallId::derive(invocation, Step(self.step.into()), Round(self.round.into()), self.ordinal.into())
    }
}

impl AttemptAt {
    pub fn id(self, invocation: InvocationId) -> AttemptId {
        AttemptId::derive(self.call.id(invocation), AttemptNumber(self.number.into()))
    }
}

impl Entry {
    /// The name of a message of the outbox; a turn's as if it were asked for the first time.
    pub fn of(message: &Message) -> Option<Self> {
        let turn = |scope: &Scope| (scope.step, scope.round);
        match message {
            Message::TurnReady(ready) => {
                let (step, round) = turn(&ready.scope);
                Some(Self::Turn { step: small(step.0), round: small(round.0), count: 0 })
            }
            Message::ToolCallDispatched(dispatch) => {
                let call = CallAt::of(dispatch.scope.invocation_id, turn(&dispatch.scope), dispatch.call_id)?;
                Some(Self::Dispatch(AttemptAt { call, number: small(dispatch.attempt.0) }))
            }
            Message::EffectQueried(query) => {
                let id = query.scope.invocation_id;
                let call = CallAt::of(id, turn(&query.scope), query.call_id)?;
                let attempts = (1..16).map(|number| AttemptAt { call, number });
                let attempt = attempts.into_iter().find(|attempt| attempt.id(id) == query.attempt_id)?;
                Some(Self::Query { attempt, probe: small(query.probe.0) })
            }
            Message::RunEnded(ended) => Some(Self::Ended { segment: small(ended.segment.0) }),
            Message::EventsCommitted(_) => None,
        }
    }
}

/// The numbers of a bounded model are small.
pub fn small(number: impl TryInto<u8>) -> u8 {
    number.try_into().unwrap_or(u8::MAX)
}
