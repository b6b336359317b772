//! A short `make check-model`: every state of the small worlds, every end, and every planted bug.

use std::collections::BTreeSet;

use protocol::TerminalReason;
use turnwright_tests::model_check::{Mutant, Scenario, Size, UNREACHED, explore, hunt, scenarios};

#[test]
fn every_small_world_is_looked_at_whole_and_nothing_in_it_breaks() {
    for scenario in scenarios(Size::Small) {
        let outcome = explore(&scenario, 2);
        let violations: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{}: {}", scenario.name, violations.join("\n"));
        assert!(outcome.is_complete, "{}: the search ended before every state was looked at", scenario.name);
        assert!(outcome.unreached.is_empty(), "{}: {:?} did not come up", scenario.name, outcome.unreached);
        assert!(scenario.must_reach().count() > 0, "{} has nothing to reach", scenario.name);
    }
}

#[test]
fn every_end_is_reached_or_is_listed_with_its_reason() {
    let all = BTreeSet::from(TerminalReason::ALL);
    let unreached: BTreeSet<_> = UNREACHED.iter().map(|(reason, _)| *reason).collect();
    for size in [Size::Small, Size::Full] {
        let reached: BTreeSet<_> = scenarios(size).into_iter().flat_map(|scenario| scenario.reasons).collect();
        assert_eq!(reached, &all - &unreached, "{size:?}");
    }
}

fn small(name: &str) -> Scenario {
    scenarios(Size::Small).into_iter().find(|scenario| scenario.name == name).unwrap()
}

#[test]
fn every_planted_bug_is_caught_by_the_invariant_that_is_there_for_it() {
    for mutant in Mutant::ALL {
        let found = hunt(&small(mutant.shows_in()), mutant, 2);
        let found = found.unwrap_or_else(|| panic!("`{}` survives", mutant.name()));
        assert_eq!(found.invariant, mutant.breaks());
        assert!(found.trace.len() > 1, "{}: {found}", mutant.name());
    }
}

#[test]
fn the_names_of_scenarios_and_of_planted_bugs_are_each_one_thing() {
    for size in [Size::Small, Size::Full] {
        let names: BTreeSet<_> = scenarios(size).iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), scenarios(size).len());
    }
    let names: BTreeSet<_> = Mutant::ALL.map(Mutant::name).into();
    assert_eq!(names.len(), Mutant::ALL.len());
}
