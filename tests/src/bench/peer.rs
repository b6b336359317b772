//! The same workload on the peer, after ours and on the same machine, and what the two come to beside each other.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use super::cluster::root;
use super::report::rounded;
use super::{Error, Options, Report};

/// Our report with the peer's beside it and the two ratios, ours to the peer's: latency is better below 1, rate above.
pub async fn compare(ours: &Report, options: &Options) -> Result<Value, Error> {
    let peer = measure(&root().join("tests/peers/restate/run.sh"), options).await?;
    let levels = peer["levels"].as_array().cloned().unwrap_or_default();
    let number = |level: &Value, name: &str| level[name].as_f64().unwrap_or(0.0);
    let lowest = levels.iter().min_by(|a, b| number(a, "concurrency").total_cmp(&number(b, "concurrency")));
    let p50_ms = lowest.map_or(0.0, |level| number(level, "p50_ms"));
    let max_per_s = levels.iter().map(|level| number(level, "per_s")).fold(0.0, f64::max);
    if p50_ms <= 0.0 || max_per_s <= 0.0 {
        return Err(Error::failed("the peer", format!("it measured nothing: {peer}")));
    }
    let mut line = serde_json::to_value(ours).map_err(|error| Error::failed("the report", error))?;
    line["peer"] = peer;
    line["ratios"] =
        json!({"p50_at_1": rounded(ours.p50_ms / p50_ms), "max_per_s": rounded(ours.max_per_s / max_per_s)});
    Ok(line)
}

async fn measure(script: &Path, options: &Options) -> Result<Value, Error> {
    let levels = options.concurrency.iter().map(ToString::to_string);
    let child = Command::new(script)
        .args(levels)
        .env("SECS", options.measure.as_secs_f64().to_string())
        .env("WARMUP", options.warm_up.as_secs_f64().to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .stdout(Stdio::piped())
        .spawn();
    let output = child.map_err(|error| Error::of_file(script, error))?.wait_with_output().await;
    let output = output.map_err(|error| Error::of_file(script, error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    if !output.status.success() {
        return Err(Error::of_file(script, format!("{}; {last}", output.status)));
    }
    serde_json::from_str(last).map_err(|error| Error::of_file(script, error))
}
