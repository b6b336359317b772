//! `completion`: completions for a shell.

use clap::Args;
use clap_complete::Shell;

use crate::error::Error;
use crate::{cli, exit};

/// Prints completions for a shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright completion bash > ~/.local/share/bash-completion/completions/turnwright"
)]
pub struct Arguments {
    #[arg(value_enum)]
    pub shell: Shell,
}

pub fn run(arguments: Arguments) -> Result<u8, Error> {
    let mut command = cli::command(None);
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "turnwright", &mut script);
    crate::render::line(String::from_utf8_lossy(&script).trim_end());
    Ok(exit::COMPLETED)
}
