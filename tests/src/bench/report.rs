//! What was measured: a table for people, one JSON line for programs.

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::handled::Handled;
use super::stages::Hop;

/// One level of concurrency.
#[derive(Debug, Clone, Serialize)]
pub struct Level {
    pub concurrency: usize,
    pub per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Invocations that did not end `completed` in time.
    pub errors: u64,
    /// Cores and memory of each process while the level was measured.
    pub processes: Vec<Usage>,
    /// How long each hop took, where this was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Hop>,
    /// What the services say of their own part in it, with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handled: Vec<Handled>,
}

/// What one process used.
#[derive(Debug, Clone, Serialize)]
pub struct Usage {
    pub name: String,
    /// Cores: 1.0 is one core for the whole time.
    pub cpu: f64,
    pub rss_mb: f64,
}

/// The whole measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub workload: &'static str,
    /// At the lowest concurrency, which is 1 in the standard sweep.
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// The best level's rate.
    pub max_per_s: f64,
    pub at_concurrency: usize,
    pub levels: Vec<Level>,
    /// At the best level.
    pub processes: Vec<Usage>,
    /// Invocations that were started, in all levels and while warming up. Each ended once.
    pub invocations: u64,
    /// Changes that the effect's owner applied: as many.
    pub applied: u64,
    /// Terminal events that came again with the same `ce_id`, as at-least-once delivery allows.
    pub repeated_terminals: u64,
}

pub(super) const WORKLOAD: &str = "lookup-3";

impl Report {
    pub(super) fn new(levels: Vec<Level>, invocations: u64, applied: u64, repeated_terminals: u64) -> Option<Self> {
        let lowest = levels.iter().min_by_key(|level| level.concurrency)?;
        let best = levels.iter().max_by(|a, b| a.per_s.total_cmp(&b.per_s))?;
        Some(Self {
            workload: WORKLOAD,
            p50_ms: lowest.p50_ms,
            p99_ms: lowest.p99_ms,
            max_per_s: best.per_s,
            at_concurrency: best.concurrency,
            processes: best.processes.clone(),
            invocations,
            applied,
            repeated_terminals,
            levels: levels.clone(),
        })
    }

    /// Levels, hops and processes, for a terminal.
    pub fn table(&self) -> String {
        let levels = self.levels.iter().map(|level| {
            let Level { concurrency, per_s, p50_ms, p99_ms, errors, .. } = level;
            vec![
                concurrency.to_string(),
                format!("{per_s:.1}"),
                format!("{p50_ms:.2}"),
                format!("{p99_ms:.2}"),
                errors.to_string(),
            ]
        });
        let mut parts = vec![table(&["in flight", "per s", "p50 ms", "p99 ms", "errors"], levels)];
        for level in self.levels.iter().filter(|level| !level.stages.is_empty()) {
            let hops = level.stages.iter().map(|hop| {
                vec![hop.hop.clone(), hop.count.to_string(), format!("{:.3}", hop.p50_ms), format!("{:.3}", hop.p99_ms)]
            });
            let title = format!("hop at {}", level.concurrency);
            parts.push(table(&[&title, "count", "p50 ms", "p99 ms"], hops));
            let handled = level.handled.iter().map(|handled| {
                let Handled { service, topic, batches, mean_ms } = handled;
                vec![format!("{service}: {topic}"), batches.to_string(), format!("{mean_ms:.3}")]
            });
            parts.push(table(&["handled", "batches", "mean ms"], handled));
        }
        let names: Vec<String> = self.processes.iter().map(|usage| usage.name.clone()).collect();
        let rows = names.iter().enumerate().map(|(at, name)| {
            let cores = self.levels.iter().map(|level| level.processes.get(at).map_or(0.0, |usage| usage.cpu));
            let rss = self.levels.last().and_then(|level| level.processes.get(at)).map_or(0.0, |usage| usage.rss_mb);
            let cores = cores.map(|cores| format!("{cores:.2}"));
            std::iter::once(name.clone()).chain(cores).chain([format!("{rss:.0}")]).collect()
        });
        let heads: Vec<String> = self.levels.iter().map(|level| format!("cores at {}", level.concurrency)).collect();
        let heads: Vec<&str> =
            std::iter::once("process").chain(heads.iter().map(String::as_str)).chain(["rss MB"]).collect();
        parts.push(table(&heads, rows));
        parts.join("\n")
    }
}

fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(heads.to_vec()).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// The value at a part of a sorted list; zero of nothing.
pub(super) fn percentile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * part).round() as usize).copied().unwrap_or(0.0)
}

/// Thousandths are all that a reader can use.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_few_values_are_among_them() {
        let values = [1.0, 2.0, 3.0];
        assert_eq!(percentile(&values, 0.5), 2.0);
        assert_eq!(percentile(&values, 0.99), 3.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
