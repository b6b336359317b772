//! CPU and memory of processes, as Linux counts them.

use std::time::Duration;

/// What the kernel says of one process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    /// User and system time since its start.
    pub cpu: Duration,
    pub rss_bytes: u64,
}

/// The kernel's clock ticks per second in /proc, fixed by its interface to user space.
const TICKS_PER_SECOND: u64 = 100;

/// Zeros for a process that is gone.
pub(super) fn sample(pid: u32) -> Sample {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    parse(&stat, &status)
}

fn parse(stat: &str, status: &str) -> Sample {
    // The command's name, in brackets, may itself hold blanks and brackets.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
    let cpu = Duration::from_millis((ticks(11) + ticks(12)) * 1_000 / TICKS_PER_SECOND);
    Sample { cpu, rss_bytes: kib * 1_024 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 0 0 0 0 150 50 0 0 20 0 1 0 5 6 7";
        let sample = parse(stat, "Name:\tx\nVmRSS:\t  2048 kB\n");
        assert_eq!(sample.cpu, Duration::from_secs(2));
        assert_eq!(sample.rss_bytes, 2 << 20);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(sample(std::process::id()).rss_bytes > 0);
    }
}
