//! A short `make simulate`: fixed seeds, no violation, faults that bit, planted bugs that are caught.

use std::collections::{BTreeMap, BTreeSet};

use turnwright_tests::sim::{Mutant, Setup, run_seed};

const SEEDS: u64 = 150;
/// How many seeds a planted bug gets.
const MUTANT_SEEDS: u64 = 120;

#[test]
fn no_invariant_breaks_and_the_faults_bit() {
    let mut injected: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut effects, mut reasons) = (0, BTreeSet::new());
    for seed in 1..=SEEDS {
        let report = run_seed(seed, Setup::default());
        assert_eq!(report.violations, [], "seed {seed}");
        assert!(report.invocations > 0 && report.events > 0, "seed {seed} did nothing");
        report.injected.iter().for_each(|(name, n)| *injected.entry(name).or_default() += n);
        reasons.extend(report.reasons.keys().copied());
        effects += report.effects;
    }
    // A run in which nothing went wrong proves nothing.
    let least = [
        ("crash", 2 * SEEDS),
        ("delay", 5 * SEEDS),
        ("duplicate", 2 * SEEDS),
        ("lost_reply", SEEDS / 3),
        ("lost_acknowledgement", SEEDS / 2),
        ("request_late", SEEDS / 30),
        ("request_lost", SEEDS / 30),
        ("answer_lost", SEEDS / 10),
        ("key_closed", SEEDS / 30),
        ("closed_before_arrival", SEEDS / 150),
        ("rollback", SEEDS / 10),
        ("model_error", SEEDS / 10),
    ];
    for (name, least) in least {
        let found = injected.get(name).copied().unwrap_or(0);
        assert!(found >= least, "{name} struck {found} times, and {least} were wanted: {injected:?}");
    }
    assert!(effects >= 50, "{effects} effects were applied");
    assert!(reasons.len() >= 4, "the runs ended in few ways: {reasons:?}");
}

#[test]
fn equal_seeds_give_equal_histories_and_others_do_not() {
    let digest = |seed| run_seed(seed, Setup::default()).digest;
    for seed in [1, 6, 42] {
        assert_eq!(digest(seed), digest(seed), "seed {seed}");
    }
    assert_ne!(digest(1), digest(2));
}

/// The invariants that a planted bug breaks, over seeds up to the first that sees it.
fn caught(mutant: Mutant) -> BTreeSet<&'static str> {
    let setup = Setup { mutant: Some(mutant), ..Setup::default() };
    let seen =
        (1..=MUTANT_SEEDS).map(|seed| run_seed(seed, setup).violations).find(|violations| !violations.is_empty());
    let seen = seen.unwrap_or_else(|| panic!("`{}` survives {MUTANT_SEEDS} seeds", mutant.name()));
    seen.iter().map(|violation| violation.invariant).collect()
}

#[test]
fn a_dispatch_published_before_its_commit_is_caught() {
    assert!(caught(Mutant::PublishBeforeCommit).contains("I2"));
}

#[test]
fn results_matched_by_position_are_caught() {
    assert!(caught(Mutant::MatchByPosition).contains("I6"));
}

#[test]
fn an_effect_without_a_claim_is_caught() {
    assert!(caught(Mutant::SkipLeaseCheck).contains("I7"));
}

#[test]
fn there_is_a_test_for_every_planted_bug() {
    assert_eq!(Mutant::ALL.map(Mutant::name), ["publish_before_commit", "match_by_position", "skip_lease_check"]);
}
