//! Durations as people type them: `250ms`, `5m`, `7d`.

use std::time::Duration;

/// Reads a whole number with a unit.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration; write a number and a unit, such as 250ms, 30s, 5m, 2h or 7d");
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(wrong)
}

/// The whole milliseconds of a duration.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_are_read_and_nothing_else() {
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "5", "m", "-5m", "5 m", "1.5s", "99999999999999999999d", "18446744073709551615d"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
