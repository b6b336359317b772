//! The model as `stateright` walks it: states, moves, and what must hold in every state or be met in some.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use protocol::{Dedupe, EffectKey, EffectStatus, Phase, ResolvedBy, TerminalReason};
use stateright::{Model, Property};

use super::history::{Decided, Histories, History};
use super::invariants::Invariant;
use super::moves::Move;
use super::mutants::Mutant;
use super::names::{Cause, small};
use super::scenario::Scenario;
use super::world::World;

/// A scenario, and everything decided in it so far.
pub struct Checked {
    pub scenario: Scenario,
    pub mutant: Option<Mutant>,
    pub(super) effects: Vec<(EffectKey, Dedupe)>,
    pub(super) histories: Histories,
    /// States whose moves were all made: the search is complete when that is every state met.
    pub(super) expanded: Arc<AtomicUsize>,
}

impl Checked {
    pub fn new(scenario: Scenario, mutant: Option<Mutant>) -> Self {
        let effects = scenario.effects();
        Self { effects, scenario, mutant, histories: Histories::new(mutant), expanded: Arc::default() }
    }
}

impl Checked {
    /// The history with what the core decides on this; `None` when it decides nothing.
    pub(super) fn committed(&self, history: &History, cause: Cause, late: u64) -> Option<Arc<History>> {
        match self.decide(history, cause, late)? {
            Decided::Events(next) => Some(next),
            Decided::Ignored(_) => None,
        }
    }

    /// The places of what the model may answer in that turn.
    pub(super) fn choices(&self, step: u8, round: u8) -> impl Iterator<Item = u8> + use<> {
        0..small(self.scenario.answers(step, round).len())
    }
}

impl Model for Checked {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.scenario, self.effects.len())]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        self.expanded.fetch_add(1, Ordering::Relaxed);
        self.moves(world, moves);
    }

    fn next_state(&self, world: &World, step: Move) -> Option<World> {
        self.act(world, &step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = invariants();
        properties.extend(self.scenario.reasons.iter().map(|reason| reached(*reason)));
        properties.extend(self.scenario.meets.iter().map(|situation| situation.property()));
        properties
    }
}

fn holds<const N: usize>(_: &Checked, world: &World) -> bool {
    !world.broken.has(Invariant::ALL[N])
}

fn is_reached<const N: usize>(_: &Checked, world: &World) -> bool {
    world.ends_with(TerminalReason::ALL[N])
}

/// One function per number, since a property knows nothing but its function.
macro_rules! numbered {
    ($function:ident: $($n:literal)*) => {
        [$($function::<$n> as fn(&Checked, &World) -> bool),*]
    };
}

fn invariants() -> Vec<Property<Checked>> {
    let holds = numbered!(holds: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    Invariant::ALL.iter().zip(holds).map(|(invariant, holds)| Property::always(invariant.name(), holds)).collect()
}

fn reached(reason: TerminalReason) -> Property<Checked> {
    let reached = numbered!(is_reached: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17);
    let at = TerminalReason::ALL.iter().position(|known| *known == reason);
    Property::sometimes(reason.as_str(), reached[at.expect("every reason is in the list of all")])
}

/// A situation that a scenario is there for: if it never comes up, the scenario proves less than it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// A decision meets a store that has moved on.
    Conflict,
    /// The stop finds a request on its way to its owner.
    StopMeetsRequest,
    /// The reconciler settles an effect.
    Reconciled,
    /// A person settles an effect.
    SettledByHand,
    /// A second attempt of an effect is under way.
    SecondAttempt,
    /// The run has ended, and an effect of it is open.
    EndedOpen,
}

impl Situation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Conflict => "a decision meets a store that has moved on",
            Self::StopMeetsRequest => "the stop finds a request on its way",
            Self::Reconciled => "the reconciler settles an effect",
            Self::SettledByHand => "a person settles an effect",
            Self::SecondAttempt => "an effect is tried a second time",
            Self::EndedOpen => "a run has ended with an open effect",
        }
    }

    fn property(self) -> Property<Checked> {
        let met: fn(&Checked, &World) -> bool = match self {
            Self::Conflict => |_, world| world.loaded.iter().any(|loaded| loaded.history != world.history),
            Self::StopMeetsRequest => |_, world| {
                let stopping = matches!(world.history.state.phase(), Some(Phase::Cancelling(_)));
                stopping && !world.owners.wire.is_empty()
            },
            Self::Reconciled => |_, world| resolved(world, |by| *by == ResolvedBy::Reconciler),
            Self::SettledByHand => |_, world| resolved(world, |by| matches!(by, ResolvedBy::Operator { .. })),
            Self::SecondAttempt => |_, world| world.running.iter().any(|running| running.attempt.number == 2),
            Self::EndedOpen => {
                |_, world| world.history.state.is_ended() && world.history.state.has_unresolved_effects()
            }
        };
        Property::sometimes(self.name(), met)
    }
}

fn resolved(world: &World, by: impl Fn(&ResolvedBy) -> bool) -> bool {
    let mut entries = world.history.state.ledger.entries();
    entries.any(|entry| entry.status == EffectStatus::Committed && entry.resolved_by.as_ref().is_some_and(&by))
}
