//! Tells a silent consumer from an idle one. Pure bookkeeping: it is told positions, watermarks and times.

use std::collections::HashMap;
use std::time::Duration;

/// One partition as the watchdog sees it.
#[derive(Debug, Clone)]
pub(crate) struct Quiet {
    pub topic: String,
    pub partition: i32,
    /// The next offset it waits for; `None` when it starts at the beginning of the log.
    pub position: Option<i64>,
    /// How long nothing has arrived.
    pub since: Duration,
}

/// Remembers what earlier looks found, by partition.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    marks: HashMap<(String, i32), Mark>,
}

#[derive(Debug, PartialEq, Eq)]
enum Mark {
    /// There was lag at this position. The record may just be on its way, so one look proves nothing.
    Suspect(Option<i64>),
    /// This position and end of the log led to a rebuild already. A lag that survives it is no fault of the consumer:
    /// the rest of the log may be transaction markers.
    Excused(Option<i64>, i64),
}

impl Silence {
    /// Whether this partition proves that the consumer is silent: at two looks in a row there was something to read, and
    /// nothing came.
    pub(crate) fn is_silent(&mut self, quiet: &Quiet, low: i64, high: i64, after: Duration) -> bool {
        let place = (quiet.topic.clone(), quiet.partition);
        if quiet.since < after || quiet.position.unwrap_or(low).max(low) >= high {
            if matches!(self.marks.get(&place), Some(Mark::Suspect(_))) {
                self.marks.remove(&place);
            }
            return false;
        }
        let excused = Mark::Excused(quiet.position, high);
        match self.marks.get(&place) {
            Some(mark) if *mark == excused => false,
            Some(Mark::Suspect(position)) if *position == quiet.position => {
                self.marks.insert(place, excused);
                true
            }
            Some(Mark::Suspect(_) | Mark::Excused(..)) | None => {
                self.marks.insert(place, Mark::Suspect(quiet.position));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(30);

    fn quiet(position: Option<i64>, seconds: u64) -> Quiet {
        Quiet { topic: "t".to_owned(), partition: 0, position, since: Duration::from_secs(seconds) }
    }

    fn looks(silence: &mut Silence, position: Option<i64>, high: i64) -> [bool; 2] {
        [(); 2].map(|()| silence.is_silent(&quiet(position, 31), 0, high, AFTER))
    }

    #[test]
    fn lag_without_records_at_two_looks_is_silence() {
        assert_eq!(looks(&mut Silence::default(), Some(5), 9), [false, true]);
        assert_eq!(looks(&mut Silence::default(), None, 9), [false, true]);
    }

    #[test]
    fn no_lag_or_a_recent_record_is_no_silence() {
        let mut silence = Silence::default();
        assert_eq!(looks(&mut silence, Some(9), 9), [false, false]);
        assert!(!silence.is_silent(&quiet(Some(5), 31), 0, 9, AFTER));
        assert!(!silence.is_silent(&quiet(Some(5), 29), 0, 9, AFTER));
        assert!(!silence.is_silent(&quiet(Some(5), 31), 0, 9, AFTER));
    }

    #[test]
    fn a_position_that_moves_is_no_silence() {
        let mut silence = Silence::default();
        for position in 0..10 {
            assert!(!silence.is_silent(&quiet(Some(position), 31), 0, 99, AFTER));
        }
    }

    #[test]
    fn a_lag_that_survives_a_rebuild_is_excused_until_it_changes() {
        let mut silence = Silence::default();
        assert_eq!(looks(&mut silence, Some(5), 6), [false, true]);
        assert_eq!(looks(&mut silence, Some(5), 6), [false, false]);
        assert_eq!(looks(&mut silence, Some(5), 7), [false, true]);
    }
}
