//! `make simulate SEEDS=n`: runs seeds, shows progress, and ends with one JSON line. Exit code 1 when an invariant breaks
//! or a planted bug survives.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Instant;

use clap::Parser;
use indicatif::ProgressBar;
use turnwright_tests::sim::{Mutant, Setup, run_seed};

#[derive(Parser)]
#[command(about = "Simulates the whole pipeline under faults, one seed after the other")]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// How many seeds each planted bug gets before it counts as a survivor.
    #[arg(long, default_value_t = 300)]
    mutant_seeds: u64,
}

fn main() {
    let args = Args::parse();
    let started = Instant::now();
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(args.seeds) } else { ProgressBar::hidden() };
    let (mut violations, mut events, mut effects, mut invocations) = (0, 0, 0, 0);
    let mut injected: BTreeMap<&str, u64> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in args.from..args.from + args.seeds {
        let report = run_seed(seed, Setup::default());
        for violation in &report.violations {
            eprintln!("seed {seed}: {}: {}", violation.invariant, violation.what);
        }
        violations += report.violations.len();
        events += report.events;
        effects += report.effects;
        invocations += report.invocations;
        report.injected.iter().for_each(|(name, n)| *injected.entry(name).or_default() += n);
        report.reasons.iter().for_each(|(reason, n)| *reasons.entry(reason.as_str()).or_default() += n);
        bar.inc(1);
        if bar.is_hidden() && seed % 500 == 0 {
            eprintln!("{} of {} seeds, {violations} violations", seed + 1 - args.from, args.seeds);
        }
    }
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    let mut caught = Vec::new();
    for mutant in Mutant::ALL {
        let setup = Setup { mutant: Some(mutant), ..Setup::default() };
        let seed = (1..=args.mutant_seeds).find(|seed| !run_seed(*seed, setup).violations.is_empty());
        match seed {
            Some(seed) => {
                eprintln!("planted bug `{}` is caught by seed {seed}", mutant.name());
                caught.push(mutant.name());
            }
            None => eprintln!("planted bug `{}` SURVIVES {} seeds", mutant.name(), args.mutant_seeds),
        }
    }
    let planted = Mutant::ALL.len();
    let survived = planted - caught.len();
    println!(
        "{}",
        serde_json::json!({
            "seeds": args.seeds, "violations": violations, "planted": planted, "caught": caught.len(),
            "invocations": invocations, "events": events, "effects": effects, "injected": injected,
            "reasons": reasons, "seeds_per_s": (args.seeds as f64 / seconds).round(),
        })
    );
    std::process::exit(i32::from(violations > 0 || survived > 0));
}
