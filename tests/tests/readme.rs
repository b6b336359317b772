//! The README says nothing that is not so: its kcat and Python examples run on a real cluster, its tables are complete, its
//! links lead somewhere, and the settings it names exist.

#[path = "readme/examples.rs"]
mod examples;
/// The Rust example, compiled here so that it stays right.
#[allow(dead_code, clippy::disallowed_methods, reason = "a caller's program, which has a clock and IDs of its own")]
#[path = "../../infra/examples/clients/rust/src/main.rs"]
mod rust_client;
#[path = "readme/tables.rs"]
mod tables;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn readme() -> String {
    read("README.md")
}

/// The fenced blocks below a `<!-- run: NAME -->` line, in their order.
fn blocks(text: &str, name: &str) -> Vec<String> {
    let marker = format!("<!-- run: {name} -->\n```");
    let block = |part: &str| {
        let (_, rest) = part.split_once('\n')?;
        rest.split_once("\n```").map(|(block, _)| block.to_owned())
    };
    text.split(&marker).skip(1).map(|part| block(part).expect("a fenced block ends")).collect()
}
