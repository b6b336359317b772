//! What can go wrong with a measurement. A wrong result is an error too: a benchmark of wrong answers measures nothing.

use std::path::Path;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what}: {why}")]
    Failed { what: String, why: String },
    /// The services did the work, and did it wrong.
    #[error("wrong results: {0}")]
    Wrong(String),
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn failed(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Failed { what: what.into(), why: why.to_string() }
    }

    pub(crate) fn of_file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::failed(path.display().to_string(), why)
    }
}
