//! `make bench`: progress on standard error, then a table, then one JSON line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use turnwright_tests::bench::{DEFAULT_PARTITIONS, Error, Options, compare, run};

#[derive(Parser)]
#[command(
    about = "Latency and throughput of the workload lookup-3 on real Kafka, real Redis and five service processes"
)]
struct Args {
    /// The release-built binary.
    #[arg(long, env = "TURNWRIGHT_BIN")]
    binary: PathBuf,
    /// Invocations in flight, one level after the other.
    #[arg(long, num_args = 1.., default_values_t = [1, 16, 64, 256])]
    concurrency: Vec<usize>,
    /// Partitions per topic: at least as many as there are processes of a service.
    #[arg(long, default_value_t = DEFAULT_PARTITIONS)]
    partitions: u32,
    /// How long each level is measured, in s.
    #[arg(long, default_value_t = 12.0)]
    secs: f64,
    /// How long each level runs before that, in s.
    #[arg(long, default_value_t = 3.0)]
    warmup: f64,
    /// How long the highest level runs before the first one, in s: the broker's JVM is slow at first.
    #[arg(long, default_value_t = 10.0)]
    startup: f64,
    /// Measures Restate on the same workload afterwards and prints the ratios.
    #[arg(long)]
    peer: bool,
    /// Follows every topic and prints how long each hop takes; costs some of what is measured.
    #[arg(long)]
    stages: bool,
    /// A further variable of the services' environment, NAME=VALUE; may be repeated.
    #[arg(long = "env", value_parser = variable)]
    environment: Vec<(String, String)>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&Error::Failed { what: "the async runtime".into(), why: error.to_string() }),
    };
    let result = runtime.block_on(async {
        tokio::select! {
            result = measure(args) => result,
            _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
        }
    });
    // The load's thread may still wait for records.
    runtime.shutdown_background();
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    eprintln!("bench: {error}");
    ExitCode::FAILURE
}

async fn measure(args: Args) -> Result<serde_json::Value, Error> {
    let options = Options {
        concurrency: args.concurrency,
        partitions: args.partitions,
        measure: Duration::from_secs_f64(args.secs),
        warm_up: Duration::from_secs_f64(args.warmup),
        start_up: Duration::from_secs_f64(args.startup),
        stages: args.stages,
        environment: args.environment,
        ..Options::new(args.binary)
    };
    let report = run(&options).await?;
    println!("{}", report.table());
    if args.peer {
        return compare(&report, &options).await;
    }
    serde_json::to_value(&report).map_err(|error| Error::Failed { what: "the report".into(), why: error.to_string() })
}
