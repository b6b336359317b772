//! `cancel`: nothing new starts once it is committed; effects that are committed stay.

use clap::Args;
use protocol::{Control, InvocationId};
use schemas::{ControlRecord, WireFormat};
use serde_json::json;

use crate::client::{codec, publish};
use crate::error::Error;
use crate::settings::Settings;
use crate::{exit, render};

/// Cancels an invocation: no new effect starts; what is committed is not undone.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright cancel 0198c0de-0000-7000-8000-000000000001 --tenant demo --reason 'asked twice'"
)]
pub struct Arguments {
    pub invocation: InvocationId,
    /// Whose task it is.
    #[arg(long, short, env = "TURNWRIGHT_TENANT")]
    pub tenant: String,
    /// Who cancels.
    #[arg(long, env = "TURNWRIGHT_ACTOR", default_value = "cli")]
    pub actor: String,
    /// Why, for the log.
    #[arg(long, default_value = "")]
    pub reason: String,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let codec = codec(settings).await?;
    let control = Control::Cancel { actor: arguments.actor.as_str().into(), reason: arguments.reason };
    let record =
        ControlRecord { tenant: arguments.tenant.as_str().into(), invocation_id: arguments.invocation, control };
    let refused = |error| Error::setting("--reason", error, "say it in fewer words");
    publish(settings, codec.encode_control(&record, WireFormat::Json).map_err(refused)?).await?;
    match settings.is_json() {
        true => render::json(&json!({ "invocation_id": record.invocation_id, "asked": "cancel" })),
        false => render::line(format!("cancel of {} is asked for; see: turnwright inspect {0}", record.invocation_id)),
    }
    Ok(exit::COMPLETED)
}
