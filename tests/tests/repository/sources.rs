//! Rules about Rust sources, by their text. Comments and test code are left out where a rule is about what ships.

use super::files::SourceFile;

/// Files over 400 lines, each with the reason why it is not several.
pub const LONG_FILES: [(&str, &str); 1] =
    [("services/protocol/src/invocation/apply.rs", "the one transition table, to be read as a whole")];

/// Edges of handlers, where what is banned elsewhere may stand.
const HANDLER_EDGES: [(&str, &str); 0] = [];

const TOPICS: [&str; 12] = [
    "invocations",
    "controls",
    "turns",
    "decisions",
    "verdicts",
    "dispatches",
    "results",
    "outcome-unknown",
    "resolutions",
    "terminals",
    "events",
    "dead-letters",
];

const HANDLERS: [&str; 5] = [
    "services/committer/src/",
    "services/decision/src/",
    "services/validation/src/",
    "services/tool-executor/src/",
    "services/reconciler/src/",
];

const BANNED_IN_HANDLERS: [&str; 11] = [
    "tokio::spawn",
    "tokio::time",
    "tokio::select",
    "tokio::sync",
    "tokio::task",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "new_v4",
    "now_v7",
    "rand::",
];

const BANNED_IN_CORE: [&str; 12] = [
    "async ",
    ".await",
    "tokio",
    "tracing",
    "std::time",
    "SystemTime",
    "Instant",
    "new_v4",
    "now_v7",
    "rand::",
    "std::env",
    "std::fs",
];

/// Lines of shipped code that hold any of these words, the first one each.
fn lines_with(file: &SourceFile, words: &[&str], why: &str) -> Vec<String> {
    let found = file.code().into_iter().filter_map(|(number, line)| {
        let word = words.iter().find(|word| line.contains(**word))?;
        Some(format!("{}:{number}: `{}` {why}", file.path, word.trim()))
    });
    found.collect()
}

/// Names of topics outside the one file that has them. The words that mean nothing else are found alone, too.
pub fn topic_names(files: &[SourceFile]) -> Vec<String> {
    let versioned = TOPICS.map(|topic| format!("{topic}.v1"));
    let alone = TOPICS.iter().filter(|topic| topic.contains('-')).map(|topic| format!("\"{topic}\""));
    let words: Vec<String> = versioned.into_iter().chain(alone).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let shipped = files.iter().filter(|file| !file.is_test() && file.path != "schemas/src/topics.rs");
    shipped.flat_map(|file| lines_with(file, &words, "is a topic's name; use schemas::Topic")).collect()
}

/// Handlers wait, and do things side by side, through the seams only: the same futures run under a simulated clock.
pub fn handlers(files: &[SourceFile]) -> Vec<String> {
    let is_handler = |file: &&SourceFile| HANDLERS.iter().any(|folder| file.path.starts_with(folder));
    let is_edge = |file: &&SourceFile| HANDLER_EDGES.iter().any(|(edge, _)| *edge == file.path);
    let judged = files.iter().filter(|file| is_handler(file) && !is_edge(file) && !file.is_test());
    judged.flat_map(|file| lines_with(file, &BANNED_IN_HANDLERS, "may not stand in a handler; use a seam")).collect()
}

pub fn core(files: &[SourceFile]) -> Vec<String> {
    let core = files.iter().filter(|file| file.path.starts_with("services/protocol/src/") && !file.is_test());
    core.flat_map(|file| lines_with(file, &BANNED_IN_CORE, "may not stand in the core")).collect()
}

pub fn panics(files: &[SourceFile]) -> Vec<String> {
    let shipped = files.iter().filter(|file| !file.is_test());
    let words = [".unwrap()", "unsafe {", "unsafe fn", "unsafe impl"];
    shipped.flat_map(|file| lines_with(file, &words, "may not stand in library code")).collect()
}

/// Allowed lints without a reason.
pub fn allows(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        for start in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
            for (at, _) in file.text.match_indices(start) {
                // One that is written in a string or a comment is none.
                let line_start = file.text[..at].rfind('\n').map_or(0, |at| at + 1);
                let attribute = file.text[at..].split(")]").next().unwrap_or_default();
                if file.text[line_start..at].trim().is_empty() && !attribute.contains("reason =") {
                    let number = file.text[..at].lines().count() + 1;
                    problems.push(format!("{}:{number}: `{attribute})]` without a reason", file.path));
                }
            }
        }
    }
    problems
}

/// Files that are too long, and those that will be soon.
pub fn sizes(files: &[SourceFile]) -> (Vec<String>, Vec<String>) {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    for file in files {
        let lines = file.text.lines().count();
        let listed = LONG_FILES.iter().any(|(path, _)| *path == file.path);
        match lines {
            401.. if !listed => problems.push(format!("{} has {lines} lines: split it by noun", file.path)),
            0..=400 if listed => problems.push(format!("{} has {lines} lines: take it off the list", file.path)),
            301..=400 => warnings.push(format!("{} has {lines} lines", file.path)),
            _ => {}
        }
    }
    (problems, warnings)
}

/// Modules that do not open with what they are for. The names of tests are sentences and need none.
pub fn openings(files: &[SourceFile]) -> Vec<String> {
    let silent = files.iter().filter(|file| !file.is_test() && !file.text.starts_with("//!"));
    silent.map(|file| format!("{} does not open with a comment that says what it is for", file.path)).collect()
}
