//! The benchmark works and says what it should, whatever the speed: one short level on the debug build.

use std::path::PathBuf;
use std::time::Duration;

use turnwright_tests::bench::{Options, run};

/// `TURNWRIGHT_BIN`, or the binary of the same build as this test.
#[expect(clippy::disallowed_methods, reason = "a test asks which binary it is to run")]
fn binary() -> PathBuf {
    if let Some(given) = std::env::var_os("TURNWRIGHT_BIN") {
        return given.into();
    }
    let test = std::env::current_exe().unwrap();
    let binary = test.ancestors().nth(2).unwrap().join("turnwright");
    assert!(binary.is_file(), "{} is missing: cargo build --workspace --bins", binary.display());
    binary
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_benchmark_measures_right_answers_and_reports_them() {
    let options = Options {
        concurrency: vec![4],
        warm_up: Duration::from_secs(1),
        measure: Duration::from_secs(2),
        start_up: Duration::ZERO,
        patience: Duration::from_secs(15),
        stages: true,
        ..Options::new(binary())
    };
    let report = run(&options).await.unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["workload"], "lookup-3");
    assert_eq!(json["at_concurrency"], 4);
    assert_eq!(json["levels"][0]["errors"], 0);
    for name in ["p50_ms", "p99_ms", "max_per_s", "invocations"] {
        assert!(json[name].as_f64().unwrap() > 0.0, "{name}: {json}");
    }
    // What the owner of the effect says, not what we say.
    assert_eq!(report.applied, report.invocations);
    let processes: Vec<&str> = report.processes.iter().map(|usage| usage.name.as_str()).collect();
    let expected = ["committer", "decision", "validation", "tool-executor", "reconciler", "kafka", "redis"];
    assert_eq!(processes[..7], expected);
    assert!(report.processes.iter().all(|usage| usage.rss_mb > 0.0), "{json}");
    // Every hop of three turns was seen; a reader of many partitions may see one out of order and count it elsewhere.
    assert!(report.levels[0].stages.len() >= 14, "{json}");
    let table = report.table();
    assert!(table.contains("p50 ms") && table.contains("tool-executor: turnwright.dispatches.v1"), "{table}");
}
