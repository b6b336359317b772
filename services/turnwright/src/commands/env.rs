//! `env`: every setting, its value, where it came from, and its default.

use clap::parser::ValueSource;
use clap::{Args, CommandFactory};
use serde::Serialize;

use crate::cli::Cli;
use crate::error::Error;
use crate::settings::{Settings, redacted};
use crate::{edge, exit, render};

/// Prints every setting with its value, where that came from, and the default. Secrets are not shown.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  turnwright env -o json")]
pub struct Arguments {}

#[derive(Debug, Serialize)]
struct Setting {
    name: String,
    flag: String,
    value: String,
    source: &'static str,
    default: String,
    about: String,
}

pub fn run(settings: &Settings, _: Arguments, matches: &clap::ArgMatches) -> Result<u8, Error> {
    let mut found: Vec<Setting> =
        Cli::command().get_arguments().filter_map(|arg| shared(settings, arg, matches)).collect();
    let serve = Cli::command().find_subcommand("serve").cloned();
    for arg in serve.iter().flat_map(|serve| serve.get_arguments()) {
        if let Some(setting) = of_serve(arg)
            && !found.iter().any(|known| known.name == setting.name)
        {
            found.push(setting);
        }
    }
    if settings.is_json() {
        render::json(&found);
        return Ok(exit::COMPLETED);
    }
    let mut table = render::table(["variable", "value", "source", "default", "about"]);
    for setting in &found {
        table.add_row([&setting.name, &setting.value, setting.source, &setting.default, &setting.about]);
    }
    render::print(&table);
    if let Some(dev) = &settings.dev {
        render::line(format!("dev.json is {}", dev.path.display()));
    }
    Ok(exit::COMPLETED)
}

/// A setting of every command: clap knows where its value came from.
fn shared(settings: &Settings, arg: &clap::Arg, matches: &clap::ArgMatches) -> Option<Setting> {
    let name = arg.get_env()?.to_string_lossy().into_owned();
    let id = arg.get_id().as_str();
    let of_dev = settings.dev.is_some() && matches!(id, "brokers" | "store" | "wire_public" | "config");
    let source = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "flag",
        Some(ValueSource::EnvVariable) => "environment",
        _ if of_dev => "dev.json",
        _ => "default",
    };
    let raw =
        matches.get_raw(id).map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>());
    let value = match id {
        "config" => settings.config_directory().display().to_string(),
        "properties" => {
            settings.properties.iter().map(|property| format!("{property:?}")).collect::<Vec<_>>().join(",")
        }
        _ => redacted(&raw.unwrap_or_default().join(",")),
    };
    Some(Setting { name, flag: flag(arg), value, source, default: default(arg), about: about(arg) })
}

/// A setting of `serve` alone. Its value is what a service started from here would read.
fn of_serve(arg: &clap::Arg) -> Option<Setting> {
    let name = arg.get_env()?.to_string_lossy().into_owned();
    let default = default(arg);
    let (value, source) = match edge::variable(&name) {
        Some(_) if arg.is_hide_env_values_set() => ("(redacted)".to_owned(), "environment"),
        Some(value) => (redacted(&value), "environment"),
        None => (default.clone(), "default"),
    };
    Some(Setting { name, flag: flag(arg), value, source, default, about: about(arg) })
}

fn flag(arg: &clap::Arg) -> String {
    arg.get_long().map(|long| format!("--{long}")).unwrap_or_default()
}

fn default(arg: &clap::Arg) -> String {
    arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",")
}

fn about(arg: &clap::Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}
