//! How results look: tables for people, one JSON document for programs. Text from models and tools is made harmless
//! before it reaches a terminal.

use std::io::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, LineStyle, Table};
use protocol::{Proposal, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// A table with these columns, as wide as the terminal.
pub fn table<'a>(columns: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = facts();
    table.load_style(NOTHING.header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(columns.into_iter().map(str::to_owned).collect::<Vec<_>>());
    table
}

/// A table of names and values.
pub fn facts() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// Prints a table, without the blanks that fill its last column.
pub fn print(table: &Table) {
    line(table.trim_fmt());
}

/// Prints a line. A reader that has gone (`| head`) is no error.
pub fn line(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints one JSON document on one line.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(text),
        Err(error) => eprintln!("the result is no JSON: {error}"),
    }
}

/// The time of day, in UTC.
pub fn clock_time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map_or_else(|_| at.to_string(), |at| at.strftime("%H:%M:%S%.3f").to_string())
}

/// Date and time, in UTC.
pub fn date_time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| at.to_string(), |at| format!("{at:.3}"))
}

/// A duration for people: the largest unit that says enough.
pub fn age(ms: u64) -> String {
    match ms / 1_000 {
        0 => format!("{ms}ms"),
        s @ 1..=119 => format!("{s}s"),
        s @ 120..=7_199 => format!("{}m", s / 60),
        s @ 7_200..=172_799 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// The rows of a proposal: everything that an approval is for.
pub fn proposal(table: &mut Table, proposal: &Proposal) {
    table.add_row(["proposal", &proposal.digest.to_string()]);
    for call in &proposal.calls {
        let effect = call.effect_key.as_ref().map(|key| format!(", effect {}", clean(&key.0, 64))).unwrap_or_default();
        table.add_row(["call", &format!("{} {}{effect}", clean(&call.tool.0, 80), value(&call.arguments, usize::MAX))]);
    }
    for reason in &proposal.reasons {
        let (path, message) = (clean(&reason.path, 80), clean(&reason.message, 500));
        table.add_row(["because", &format!("{path}: {message} ({})", clean(&reason.policy, 80))]);
    }
    table.add_row(["expires", &date_time(proposal.expires_at)]);
    if proposal.four_eyes {
        table.add_row(["approver", "must be another than the run's actor"]);
    }
}

/// Text for a terminal: no control characters (an answer must not move the cursor, nor turn the reading direction), at
/// most `most` characters.
pub fn clean(text: &str, most: usize) -> String {
    let steers = |c: char| {
        c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    let mut out: String = text.chars().take(most).map(|c| if steers(c) { ' ' } else { c }).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

/// JSON as people read it: a text without quotes, everything else compact.
pub fn value(value: &Value, most: usize) -> String {
    match value {
        Value::String(text) => clean(text, most),
        other => clean(&other.to_string(), most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_text_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc", 20), "a [2Jb c");
        assert_eq!(clean("pay \u{202E}001\u{202C}", 20), "pay  001 ");
        assert_eq!(clean("abcdef", 3), "abc…");
    }

    #[test]
    fn ages_are_short() {
        assert_eq!([age(5), age(61_000), age(7_200_000), age(864_000_000)], ["5ms", "61s", "2h", "10d"]);
    }
}
