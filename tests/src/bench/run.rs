//! One measurement from start to report.

use std::time::Duration;

use schemas::{Codec, CodecConfig, WireFormat};

use super::cluster::Cluster;
use super::handled::totals;
use super::load::Load;
use super::{Error, Level, Options, Report};

/// Starts everything, measures every level, checks the results and stops everything.
pub async fn run(options: &Options) -> Result<Report, Error> {
    let cluster = Cluster::start(options).await?;
    let measured = measure(&cluster, options).await;
    measured.inspect_err(|_| eprintln!("bench: the services' last words\n{}", cluster.logs()))
}

async fn measure(cluster: &Cluster, options: &Options) -> Result<Report, Error> {
    let codec = Codec::new(CodecConfig { public: WireFormat::Avro, ..CodecConfig::default() });
    let mut load = Load::new(&cluster.brokers, codec, cluster.pids(), options)?;
    let mut levels = Vec::new();
    let highest = options.concurrency.iter().copied().max().unwrap_or(1);
    if !options.start_up.is_zero() {
        eprintln!("bench: {highest} in flight for {:.0} s, not measured", options.start_up.as_secs_f64());
        let (returned, unmeasured) = run_level(load, highest, Duration::ZERO, options.start_up).await?;
        load = returned;
        if unmeasured.errors > 0 {
            return Err(Error::Wrong(format!("{} invocations have not completed", unmeasured.errors)));
        }
    }
    for concurrency in options.concurrency.iter().copied() {
        eprintln!("bench: {concurrency} in flight for {:.0} s", (options.warm_up + options.measure).as_secs_f64());
        let before = totals(&cluster.scrape().await);
        let (returned, mut level) = run_level(load, concurrency, options.warm_up, options.measure).await?;
        load = returned;
        if options.stages {
            level.handled = totals(&cluster.scrape().await).since(&before);
        }
        eprintln!("bench: {:.1}/s, p50 {:.2} ms, p99 {:.2} ms", level.per_s, level.p50_ms, level.p99_ms);
        levels.push(level);
    }
    let applied = cluster.owner.books().applied().len() as u64;
    let errors: u64 = levels.iter().map(|level| level.errors).sum();
    if errors == 0 && applied != load.invocations {
        let why =
            format!("{} invocations have completed, and the owner has applied {applied} changes", load.invocations);
        return Err(Error::Wrong(why));
    }
    let report = Report::new(levels, load.invocations, applied, load.repeated);
    report.ok_or_else(|| Error::failed("the options", "no level to measure"))
}

/// One level, on a thread that may block.
async fn run_level(
    mut load: Load,
    concurrency: usize,
    warm_up: Duration,
    measure: Duration,
) -> Result<(Load, Level), Error> {
    let measured = tokio::task::spawn_blocking(move || {
        let level = load.level(concurrency, warm_up, measure)?;
        Ok((load, level))
    });
    measured.await.map_err(|error| Error::failed("the load", error))?
}
