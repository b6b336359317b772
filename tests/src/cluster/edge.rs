//! The edge where the environment and chance enter the harness; nothing else here reads them.

#![allow(
    clippy::disallowed_methods,
    reason = "this file is the named edge: tests on real services have real names, IDs and a real environment"
)]

use std::ffi::OsString;
use std::path::PathBuf;

use protocol::InvocationId;

use super::Error;

/// The binary under test: `TURNWRIGHT_BIN`, else the one that cargo has put beside this test's own directory.
pub fn binary() -> Result<PathBuf, Error> {
    let path = match std::env::var_os("TURNWRIGHT_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            let test = std::env::current_exe().map_err(|error| Error::io("this test's own path", &error))?;
            let profile = test.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
            profile.join("turnwright")
        }
    };
    if path.is_file() { Ok(path) } else { Err(Error::NoBinary(path)) }
}

/// What a service needs of the environment to run at all. Everything else is kept from it, so that a developer's own
/// settings do not decide a test.
pub fn inherited() -> Vec<(&'static str, OsString)> {
    ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"]
        .into_iter()
        .filter_map(|name| std::env::var_os(name).map(|value| (name, value)))
        .collect()
}

/// A new task's ID.
pub fn new_id() -> InvocationId {
    InvocationId(uuid::Uuid::now_v7())
}

/// A short name that nothing else on this machine has.
pub fn unique() -> String {
    uuid::Uuid::now_v7().simple().to_string().split_off(16)
}
