//! One file per command: its arguments, what it does, how it prints.

pub mod completion;
pub mod conformance;
pub mod control;
pub mod dev;
pub mod doctor;
pub mod env;
pub mod init;
pub mod inspect;
pub mod invoke;
pub mod list;
pub mod policy;
pub mod schema;
pub mod serve;
pub mod topics;
pub mod watch;

use crate::cli::{Cli, Command};
use crate::error::Error;

/// Runs the command and answers the exit code.
pub async fn run(cli: Cli) -> Result<u8, Error> {
    let Cli { command, settings, matches } = cli;
    match command {
        Command::Serve(arguments) => serve::run(&settings, *arguments).await,
        Command::Dev(arguments) => dev::run(&settings, arguments).await,
        Command::Invoke(arguments) => invoke::run(&settings, arguments).await,
        Command::Watch(arguments) => watch::run(&settings, arguments).await,
        Command::List(arguments) => list::run(&settings, arguments).await,
        Command::Inspect(arguments) => inspect::run(&settings, arguments).await,
        Command::Cancel(arguments) => control::cancel(&settings, arguments).await,
        Command::Approve(arguments) => control::approve(&settings, arguments).await,
        Command::Reject(arguments) => control::reject(&settings, arguments).await,
        Command::Clarify(arguments) => control::clarify(&settings, arguments).await,
        Command::Policy(arguments) => policy::run(&settings, arguments),
        Command::Schema(arguments) => schema::run(&settings, arguments).await,
        Command::Topics(arguments) => topics::run(&settings, arguments).await,
        Command::Init(arguments) => init::run(&settings, arguments),
        Command::Doctor(arguments) => doctor::run(&settings, arguments).await,
        Command::Conformance(arguments) => conformance::run(&settings, arguments).await,
        Command::Env(arguments) => env::run(&settings, arguments, &matches),
        Command::Completion(arguments) => completion::run(arguments),
        Command::Guard { program } => crate::dev::guard(&program).await,
    }
}
