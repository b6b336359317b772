//! The arguments: every command, and an example for each.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    completion, conformance, control, dev, doctor, env, init, inspect, invoke, list, policy, schema, serve, topics,
    watch,
};
use crate::error::Error;
use crate::settings::{Dev, Settings, with_defaults};

/// Runs agent loops: a model proposes typed decisions, trusted code decides what happens.
#[derive(Debug, Parser)]
#[command(
    name = "turnwright",
    version,
    propagate_version = true,
    after_help = "Example:\n  turnwright dev --demo\n\nSettings: a flag wins over its variable, the variable over .turnwright/dev.json, that over the default.\nEvery command explains itself: turnwright help COMMAND."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub settings: Settings,
    /// The arguments as they were matched: `env` says where each value came from.
    #[arg(skip)]
    pub matches: clap::ArgMatches,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(Box<serve::Arguments>),
    Dev(dev::Arguments),
    Invoke(invoke::Arguments),
    Watch(watch::Arguments),
    List(list::Arguments),
    Inspect(inspect::Arguments),
    Cancel(control::Cancel),
    Approve(control::Approve),
    Reject(control::Reject),
    Clarify(control::Clarify),
    Policy(policy::Arguments),
    Schema(schema::Arguments),
    Topics(topics::Arguments),
    Init(init::Arguments),
    Doctor(doctor::Arguments),
    Conformance(conformance::Arguments),
    Env(env::Arguments),
    Completion(completion::Arguments),
    /// Runs a program and ends it when standard input ends; `dev` keeps its Redis with it.
    #[command(hide = true, after_help = "Example:\n  turnwright guard redis-server --port 6400")]
    Guard {
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        program: Vec<String>,
    },
}

/// The whole command tree, with the defaults of the dev.json that was found.
pub fn command(dev: Option<&Dev>) -> clap::Command {
    match dev {
        Some(dev) => with_defaults(Cli::command(), &dev.file),
        None => Cli::command(),
    }
}

/// Reads the process' arguments. Ends the process for `--help`, `--version` and wrong usage, as clap does.
pub fn parse() -> Result<Cli, Error> {
    let here = std::env::current_dir().map_err(|error| Error::failed("the current directory", error))?;
    let dev = Dev::find(&here)?;
    let matches = command(dev.as_ref()).get_matches();
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    cli.settings.dev = dev;
    cli.matches = matches;
    Ok(cli)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn brokers_of_serve_are_the_brokers_of_every_command() {
        let matches = command(None).get_matches_from(["turnwright", "serve", "committer", "--brokers", "h:1"]);
        let cli = Cli::from_arg_matches(&matches).unwrap();
        assert_eq!(cli.settings.brokers, "h:1");
        let Command::Serve(arguments) = cli.command else { panic!("not serve") };
        assert_eq!(arguments.carried.kafka.brokers, "h:1");
    }

    #[test]
    fn every_command_shows_an_example() {
        let mut command = Cli::command();
        command.build();
        let mut pending: Vec<clap::Command> = command.get_subcommands().cloned().collect();
        while let Some(command) = pending.pop() {
            if command.get_name() == "help" {
                continue;
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
            pending.extend(command.get_subcommands().cloned());
        }
    }
}
