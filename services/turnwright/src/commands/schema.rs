//! `schema`: what the registry holds. Services never register by themselves; this does, once per release.

use clap::{Args, Subcommand};
use schemas::{Codec, Topic, subject};
use serde_json::json;

use crate::error::Error;
use crate::settings::Settings;
use crate::{exit, render};

/// Registers the schemas of every topic, one subject per topic.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  turnwright schema register --schema-registry http://registry.example:8081")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Registers what is missing; what is registered already stays as it is.
    #[command(after_help = "Example:\n  turnwright schema register --schema-registry http://registry.example:8081")]
    Register,
}

const SETTING: &str = "--schema-registry (TURNWRIGHT_SCHEMA_REGISTRY)";

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let Action::Register = arguments.action;
    if settings.schema_registry.is_none() {
        return Err(Error::setting(SETTING, "no registry is named", "name its address"));
    }
    let codec = Codec::new(settings.codec());
    let fix = "check the address, and that the subjects' compatibility lets this version in";
    codec.connect_registry(true).await.map_err(|error| Error::setting(SETTING, error, fix))?;
    let subjects: Vec<String> = Topic::ALL.into_iter().map(|topic| subject(topic, &settings.topic_prefix)).collect();
    match settings.is_json() {
        true => render::json(&json!({ "registered": subjects })),
        false => subjects.iter().for_each(|subject| render::line(format!("{subject} is registered"))),
    }
    Ok(exit::COMPLETED)
}
