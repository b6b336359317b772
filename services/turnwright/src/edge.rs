//! The edge where time, chance and the environment enter the command line; nothing else here reads them.

#![allow(
    clippy::disallowed_methods,
    reason = "this file is the named edge: a person's command has no clock or seed of its own"
)]

use std::path::PathBuf;

use protocol::{InvocationId, Timestamp};

/// The wall clock, in milliseconds since the Unix epoch.
pub fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// An ID for a task whose caller chose none. Sorted by time, as people read lists.
pub fn new_invocation_id() -> InvocationId {
    InvocationId(uuid::Uuid::now_v7())
}

/// A name no other process has.
pub fn unique_name(prefix: &str) -> String {
    format!("{prefix}-{}-{}", std::process::id(), uuid::Uuid::now_v7().simple())
}

/// A variable's text, for saying what a service started from here would read.
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// The program of that name in PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}
