//! `dev`: everything on this machine, for trying and developing.

use std::path::PathBuf;

use clap::Args;

use crate::dev::{self, Options};
use crate::error::Error;
use crate::settings::Settings;

/// Runs broker, store and the five services on this machine until Ctrl-C.
///
/// The broker is librdkafka's mock cluster: volatile, 5 MiB per partition. The store is a redis-server of its own, with its
/// data under .turnwright/dev; without one in PATH everything runs in one process, and nothing survives its exit.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  turnwright dev --demo\n  turnwright init my-agents && turnwright dev --config my-agents"
)]
pub struct Arguments {
    /// Runs one agent loop, shows its event log, and exits: 0 only if it completed.
    #[arg(long)]
    pub demo: bool,
    /// Everything in one process, with the store in memory.
    #[arg(long)]
    pub memory: bool,
    /// Where logs and the store's data are [default: .turnwright/dev; for --demo a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let Arguments { demo, memory, data } = arguments;
    dev::run(settings, Options { demo, memory, data }).await
}
