//! Why a command failed: what, where, and what to do about it. Shown once, at the top.

use std::fmt::Display;
use std::process::ExitCode;

use miette::Diagnostic;

/// The command line's only error.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum Error {
    /// A setting that cannot be used: its name, what is wrong, the fix.
    #[error("{setting}: {why}")]
    #[diagnostic(code(turnwright::setting))]
    Setting {
        setting: String,
        why: String,
        #[help]
        fix: String,
    },
    /// Kafka does not answer, or refuses.
    #[error("kafka at {brokers}: {why}")]
    #[diagnostic(code(turnwright::kafka))]
    Kafka {
        brokers: String,
        why: String,
        #[help]
        fix: String,
    },
    /// The store does not answer, or refuses.
    #[error("store at {store}: {why}")]
    #[diagnostic(code(turnwright::store))]
    Store {
        store: String,
        why: String,
        #[help]
        fix: String,
    },
    /// The request went to `dead-letters`: the typed code and the field that is at fault.
    #[error("the request was refused: {why}")]
    #[diagnostic(code(turnwright::refused))]
    Refused {
        why: String,
        #[help]
        fix: String,
    },
    /// What was asked for is not there, or not there yet.
    #[error("{why}")]
    #[diagnostic(code(turnwright::missing))]
    Missing {
        why: String,
        #[help]
        fix: String,
    },
    #[error("{what}: {why}")]
    #[diagnostic(code(turnwright::failed))]
    Failed { what: String, why: String },
}

impl Error {
    pub fn setting(setting: impl Into<String>, why: impl Display, fix: impl Into<String>) -> Self {
        Self::Setting { setting: setting.into(), why: why.to_string(), fix: fix.into() }
    }

    pub fn failed(what: impl Into<String>, why: impl Display) -> Self {
        Self::Failed { what: what.into(), why: why.to_string() }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Setting { .. } => crate::exit::USAGE,
            Self::Refused { .. } => crate::exit::FAILED,
            Self::Kafka { .. } | Self::Store { .. } | Self::Missing { .. } | Self::Failed { .. } => crate::exit::OTHER,
        }
    }
}

/// Prints the error to standard error and answers its exit code.
pub fn report(error: Error) -> ExitCode {
    let code = error.code();
    eprintln!("{:?}", miette::Report::new(error));
    ExitCode::from(code)
}
