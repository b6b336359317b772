//! `make check-model`: looks at every state of every scenario, then at every planted bug, and ends with one JSON line. Exit
//! code 1 when an invariant breaks, when a search is not complete or misses what it is there for, or when a bug survives.

use std::collections::BTreeSet;
use std::time::Instant;

use clap::Parser;
use turnwright_tests::model_check::{Mutant, Outcome, Scenario, Size, explore, hunt, scenarios};

#[derive(Parser)]
#[command(about = "Checks the core in every state of small worlds, one scenario after the other")]
struct Args {
    /// How much of each world is looked at.
    #[arg(long, value_enum, default_value_t = Size::Full)]
    size: Size,
    /// Only the scenario of this name, and no planted bugs.
    #[arg(long)]
    scenario: Option<String>,
    /// All of the machine's, without this.
    #[arg(long)]
    threads: Option<usize>,
}

fn main() {
    let args = Args::parse();
    let started = Instant::now();
    let threads = args.threads.or_else(|| Some(std::thread::available_parallelism().ok()?.get())).unwrap_or(1);
    let mut chosen = scenarios(args.size);
    chosen.retain(|scenario| args.scenario.as_deref().is_none_or(|name| name == scenario.name));
    if chosen.is_empty() {
        let names: Vec<_> = scenarios(args.size).iter().map(|scenario| scenario.name).collect();
        eprintln!("no such scenario; there are {}", names.join(", "));
        std::process::exit(2);
    }
    let (mut states, mut transitions, mut violations, mut is_good) = (0, 0, 0, true);
    let mut reasons = BTreeSet::new();
    for scenario in &chosen {
        let outcome = tell(scenario, threads);
        states += outcome.states;
        transitions += outcome.transitions;
        violations += outcome.violations.len();
        is_good &= outcome.is_good();
        let reached = scenario.reasons.iter().map(|reason| reason.as_str());
        reasons.extend(reached.filter(|reason| !outcome.unreached.contains(reason)));
    }
    let planted: &[Mutant] = if args.scenario.is_none() { &Mutant::ALL } else { &[] };
    let caught = planted.iter().filter(|mutant| is_caught(**mutant, threads)).count();
    is_good &= caught == planted.len();
    println!(
        "{}",
        serde_json::json!({
            "states": states, "violations": violations, "transitions": transitions, "scenarios": chosen.len(),
            "reasons": reasons, "planted": planted.len(), "caught": caught, "seconds": started.elapsed().as_secs(),
        })
    );
    std::process::exit(i32::from(!is_good));
}

fn tell(scenario: &Scenario, threads: usize) -> Outcome {
    eprintln!("{}: {}", scenario.name, scenario.purpose);
    let started = Instant::now();
    let outcome = explore(scenario, threads);
    let (states, transitions, seconds) = (outcome.states, outcome.transitions, started.elapsed().as_secs_f64());
    eprintln!("  {states} states, {transitions} transitions, {seconds:.1} s");
    outcome.violations.iter().for_each(|violation| eprintln!("  VIOLATED {violation}"));
    outcome.unreached.iter().for_each(|name| eprintln!("  NOT REACHED {name}"));
    if !outcome.is_complete {
        eprintln!("  NOT COMPLETE: the search ended before every state was looked at");
    }
    outcome
}

/// Looks for a planted bug at the small size.
fn is_caught(mutant: Mutant, threads: usize) -> bool {
    let small = scenarios(Size::Small);
    let scenario = small.iter().find(|scenario| scenario.name == mutant.shows_in());
    match scenario.and_then(|scenario| hunt(scenario, mutant, threads)) {
        Some(violation) => {
            let (number, name, moves) = (violation.invariant.number(), mutant.shows_in(), violation.trace.len());
            eprintln!("planted bug `{}` is caught by {number} in {name} after {moves} moves", mutant.name());
            true
        }
        None => {
            eprintln!("planted bug `{}` SURVIVES", mutant.name());
            false
        }
    }
}
