//! What the annotations of a gate say: who must approve, and for how long they may think about it.

use cedar_policy::{Effect, Policy};
use protocol::MAX_APPROVAL_TTL_MS;

/// The terms of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Why a person must look: the text of `@approval`.
    pub reason: String,
    /// The approver must not be the actor.
    pub four_eyes: bool,
    /// How long the proposal can be approved, in milliseconds; the runtime's own limit when absent.
    pub ttl_ms: Option<u64>,
}

const GATE: &str = "approval";
const TERMS: [&str; 2] = ["four_eyes", "ttl"];
/// All annotations there are: a misspelt one would silently be none.
const KNOWN: [&str; 5] = ["id", "description", GATE, TERMS[0], TERMS[1]];

impl Approval {
    /// The terms of a policy that is a gate, `None` for any other. The problems are everything that is wrong with its
    /// annotations.
    pub(super) fn of(policy: &Policy) -> Result<Option<Self>, Vec<String>> {
        let mut problems: Vec<String> = policy
            .annotations()
            .filter(|(name, _)| !KNOWN.contains(name))
            .map(|(name, _)| format!("`@{name}` is not known; the annotations are: {}", KNOWN.join(", ")))
            .collect();
        let Some(reason) = policy.annotation(GATE) else {
            let stray = TERMS.iter().filter(|name| policy.annotation(name).is_some());
            problems.extend(stray.map(|name| format!("`@{name}` needs `@{GATE}(\"why\")` beside it")));
            return if problems.is_empty() { Ok(None) } else { Err(problems) };
        };
        if reason.trim().is_empty() {
            problems.push(format!("`@{GATE}` must say why a person has to look"));
        }
        if policy.effect() == Effect::Permit {
            // Another permit would allow the same call without the gate, and nobody would see it.
            problems.push(format!("`@{GATE}` belongs to a `forbid`: what it forbids is allowed once approved"));
        }
        let four_eyes = match policy.annotation("four_eyes") {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                problems.push(format!("`@four_eyes` is `true` or `false`, not `{other}`"));
                false
            }
        };
        let ttl_ms = policy.annotation("ttl").and_then(|text| {
            let ttl = ttl_ms(text);
            if ttl.is_none() {
                problems.push(format!(
                    "`@ttl` is a number of seconds or a duration such as PT1H or P2D, at most a year, not `{text}`"
                ));
            }
            ttl
        });
        match problems.is_empty() {
            true => Ok(Some(Self { reason: reason.to_owned(), four_eyes, ttl_ms })),
            false => Err(problems),
        }
    }
}

/// Seconds, or an ISO 8601 duration of whole days, hours, minutes and seconds; not zero, and at most a year.
fn ttl_ms(text: &str) -> Option<u64> {
    let seconds = match text.strip_prefix('P') {
        None => number(text)?,
        Some(duration) => {
            let (days, time) = duration.split_once('T').map_or((duration, None), |(days, time)| (days, Some(time)));
            let days = if days.is_empty() { 0 } else { number(days.strip_suffix('D')?)?.checked_mul(86_400)? };
            days.checked_add(time.map_or(Some(0), of_day)?)?
        }
    };
    seconds.checked_mul(1_000).filter(|ms| (1..=MAX_APPROVAL_TTL_MS).contains(ms))
}

/// `1H30M`, units in this order and each at most once.
fn of_day(mut text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut seconds = 0_u64;
    for (unit, length) in [('H', 3_600), ('M', 60), ('S', 1)] {
        if let Some((count, rest)) = text.split_once(unit) {
            seconds = seconds.checked_add(number(count)?.checked_mul(length)?)?;
            text = rest;
        }
    }
    text.is_empty().then_some(seconds)
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_seconds_or_a_duration_and_nothing_else() {
        for (text, seconds) in [("90", 90), ("PT1H", 3_600), ("PT1H30M5S", 5_405), ("P2D", 172_800), ("P1DT1S", 86_401)]
        {
            assert_eq!(ttl_ms(text), Some(seconds * 1_000), "{text}");
        }
        for text in
            ["", "0", "PT0S", "-5", "1h", "P", "PT", "P1H", "PT1M1H", "PT1.5H", "P1M", "P367D", "99999999999999999999"]
        {
            assert_eq!(ttl_ms(text), None, "{text}");
        }
    }
}
