//! How long handlers take, from the services' own metrics: from handing records over to the acknowledgement of what they led
//! to. What a hop takes beyond that is the way through the broker.

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::rounded;

/// One service's work on one topic, while a level was running.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Handled {
    pub service: String,
    pub topic: String,
    pub batches: u64,
    pub mean_ms: f64,
}

const METRIC: &str = "turnwright_handle_duration_seconds";

/// Totals by service and topic: seconds, then batches.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Totals(BTreeMap<(String, String), (f64, u64)>);

/// Reads the services' metrics, each with its name, as Prometheus text.
pub(super) fn totals(scraped: &[(String, String)]) -> Totals {
    let mut totals = Totals::default();
    for (service, text) in scraped {
        for line in text.lines().filter_map(|line| line.strip_prefix(METRIC)) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let topic = name.split_once("topic=\"").and_then(|(_, rest)| Some(rest.split_once('"')?.0));
            let Some(topic) = topic else { continue };
            let total = totals.0.entry((service.clone(), topic.to_owned())).or_default();
            if name.starts_with("_sum") {
                total.0 = value.parse().unwrap_or(0.0);
            } else if name.starts_with("_count") {
                total.1 = value.parse().unwrap_or(0);
            }
        }
    }
    totals
}

impl Totals {
    /// What has happened since `before`.
    pub fn since(&self, before: &Self) -> Vec<Handled> {
        let of = |(place, (seconds, batches)): (&(String, String), &(f64, u64))| {
            let (known_seconds, known) = before.0.get(place).copied().unwrap_or_default();
            let batches = batches.saturating_sub(known);
            let (service, topic) = place.clone();
            let mean_ms = rounded((seconds - known_seconds) * 1e3 / batches.max(1) as f64);
            (batches > 0).then_some(Handled { service, topic, batches, mean_ms })
        };
        self.0.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_what_happened_in_between() {
        let text = |sum: f64, count: u64| {
            let labels = "{service=\"s\",topic=\"t\"}";
            let lines = format!("{METRIC}_bucket{{topic=\"t\",le=\"1\"}} 9\n{METRIC}_sum{labels} {sum}\n");
            vec![("s".to_owned(), format!("{lines}{METRIC}_count{labels} {count}\n"))]
        };
        let handled = totals(&text(0.5, 20)).since(&totals(&text(0.1, 10)));
        let expected = Handled { service: "s".into(), topic: "t".into(), batches: 10, mean_ms: 40.0 };
        assert_eq!(handled, [expected]);
    }
}
