//! Runs a scenario: all of it, or, with a planted bug, up to where the bug is seen.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model, Path};

use super::invariants::Invariant;
use super::model::Checked;
use super::moves::Move;
use super::mutants::Mutant;
use super::scenario::Scenario;
use super::world::World;

/// What came of a scenario.
#[derive(Debug)]
pub struct Outcome {
    /// States that differ.
    pub states: usize,
    /// Moves made, whether or not they led to a new state.
    pub transitions: usize,
    /// Whether every move of every state was made. Otherwise nothing is proven.
    pub is_complete: bool,
    pub violations: Vec<Violation>,
    /// Ends and situations that the scenario is there for, and that did not come up.
    pub unreached: Vec<&'static str>,
}

/// An invariant that is broken, and how it came to that.
#[derive(Debug)]
pub struct Violation {
    pub invariant: Invariant,
    /// One line per move: what was done, and what was committed by it.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.invariant.name())?;
        self.trace.iter().zip(1..).try_for_each(|(line, n)| write!(f, "\n{n:6} {line}"))
    }
}

impl Outcome {
    /// Whether the scenario proves what it is there for.
    pub fn is_good(&self) -> bool {
        self.is_complete && self.violations.is_empty() && self.unreached.is_empty()
    }
}

/// Looks at every state of a scenario.
pub fn explore(scenario: &Scenario, threads: usize) -> Outcome {
    search(scenario, |checker| checker.threads(threads))
}

fn search(scenario: &Scenario, how: impl FnOnce(CheckerBuilder<Checked>) -> CheckerBuilder<Checked>) -> Outcome {
    let checked = Checked::new(scenario.clone(), None);
    let expanded = Arc::clone(&checked.expanded);
    let checker = how(checked.checker()).spawn_bfs().join();
    // What is called below makes moves of its own: the count is taken before.
    let is_complete = expanded.load(Ordering::Relaxed) == checker.unique_state_count();
    let mut discoveries = checker.discoveries();
    let mut violation = |invariant: Invariant| {
        let path = discoveries.remove(invariant.name())?;
        Some(Violation { invariant, trace: trace(path) })
    };
    let violations = Invariant::ALL.into_iter().filter_map(&mut violation).collect();
    let unreached = scenario.must_reach().filter(|name| !discoveries.contains_key(name)).collect();
    Outcome {
        states: checker.unique_state_count(),
        transitions: checker.state_count(),
        is_complete,
        violations,
        unreached,
    }
}

/// Looks for what this bug is meant to break, in this scenario.
pub fn hunt(scenario: &Scenario, mutant: Mutant, threads: usize) -> Option<Violation> {
    let invariant = mutant.breaks();
    let seen = HasDiscoveries::AllOf([invariant.name()].into());
    let checked = Checked::new(scenario.clone(), Some(mutant));
    let checker = checked.checker().threads(threads).finish_when(seen).spawn_bfs().join();
    let path = checker.discoveries().remove(invariant.name())?;
    Some(Violation { invariant, trace: trace(path) })
}

fn trace(path: Path<World, Move>) -> Vec<String> {
    let steps = path.into_vec();
    let states = steps.iter().skip(1).map(|(world, _)| world);
    let moves = steps.iter().filter_map(|(before, step)| Some((before, step.as_ref()?)));
    let line = |((before, step), after): ((&World, &Move), &World)| {
        let committed = after.history.log.get(before.history.log.len()..).unwrap_or_default();
        let facts: Vec<_> = committed.iter().map(|event| event.fact.name()).collect();
        if facts.is_empty() { format!("{step:?}") } else { format!("{step:?} -> {}", facts.join(", ")) }
    };
    moves.zip(states).map(line).collect()
}

#[cfg(test)]
mod tests {
    use protocol::TerminalReason;

    use super::super::scenarios::{Size, scenarios};
    use super::*;

    fn scenario(name: &str) -> Scenario {
        scenarios(Size::Small).into_iter().find(|scenario| scenario.name == name).unwrap()
    }

    #[test]
    fn a_search_that_stops_early_is_not_complete() {
        let outcome = search(&scenario("approvals"), |checker| checker.target_state_count(1_000));
        assert!(outcome.states >= 1_000 && !outcome.is_complete && !outcome.is_good(), "{outcome:?}");
    }

    #[test]
    fn an_end_that_does_not_come_is_told() {
        let scenario = Scenario { reasons: vec![TerminalReason::NoProgress], ..scenario("questions") };
        let outcome = explore(&scenario, 1);
        assert!(outcome.is_complete && !outcome.is_good());
        assert_eq!(outcome.unreached, ["no_progress"]);
    }

    #[test]
    fn as_many_states_are_found_by_one_thread_as_by_two() {
        let scenario = scenario("repairs");
        let [one, two] = [1, 2].map(|threads| explore(&scenario, threads));
        assert_eq!((one.states, one.transitions), (two.states, two.transitions));
    }
}
