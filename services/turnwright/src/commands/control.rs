//! `cancel`, `approve`, `reject`, `clarify`: what people say to a run. Each produces one control, as JSON; whether it counts
//! is the committer's to say.

use std::path::PathBuf;

use clap::Args;
use protocol::{Actor, Control, Digest, InvocationId, Step};
use schemas::{Codec, ControlRecord, Outbound, SigningKey, WireFormat};
use serde_json::json;

use crate::client::{codec, publish};
use crate::commands::invoke;
use crate::error::Error;
use crate::settings::Settings;
use crate::{exit, render};

/// Cancels an invocation: no new effect starts; what is committed is not undone.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright cancel 0198c0de-0000-7000-8000-000000000001 --tenant demo --reason 'asked twice'"
)]
pub struct Cancel {
    #[command(flatten)]
    to: To,
    /// Why, for the log.
    #[arg(long, default_value = "")]
    reason: String,
}

/// Approves exactly one proposal: the calls that the run's newest terminal event shows under this digest.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    turnwright inspect 0198c0de-0000-7000-8000-000000000001 --tenant demo   # shows the proposal and its digest\n  \
    turnwright approve 0198c0de-0000-7000-8000-000000000001 --tenant demo --actor grace --digest 5a1f…\n\n\
    Signed, where ingress.yaml wants it:\n  \
    openssl genpkey -algorithm ed25519 -out grace.pem\n  \
    openssl pkey -in grace.pem -pubout   # for `keys` of ingress.yaml\n  \
    turnwright approve ID -t demo --actor grace --digest 5a1f… --sign-with grace.pem --key-id grace-1")]
pub struct Approve {
    #[command(flatten)]
    to: To,
    /// SHA-256 of the proposal, 64 hexadecimal digits: `inspect` and the run's terminal event show it.
    #[arg(long, value_parser = digest)]
    digest: Digest,
}

/// Refuses a proposal: nothing of it runs, and the model is told why.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright reject 0198c0de-0000-7000-8000-000000000001 --tenant demo --actor grace --digest 5a1f… --reason 'over the limit'"
)]
pub struct Reject {
    #[command(flatten)]
    to: To,
    /// SHA-256 of the proposal, 64 hexadecimal digits: `inspect` and the run's terminal event show it.
    #[arg(long, value_parser = digest)]
    digest: Digest,
    /// Why. The model reads it.
    #[arg(long, default_value = "")]
    reason: String,
}

/// Answers the question that a run waits for.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright clarify 0198c0de-0000-7000-8000-000000000001 --tenant demo --step 2 --answer 'order 1001'"
)]
pub struct Clarify {
    #[command(flatten)]
    to: To,
    /// The answer: text, JSON, or @FILE (@- is standard input). The model reads it.
    #[arg(long)]
    answer: String,
    /// The step whose question it answers, as the terminal event names it. Without it the same answer counts once in a run.
    #[arg(long)]
    step: Option<u32>,
}

/// Which run, who speaks, and by which key.
#[derive(Debug, Args)]
struct To {
    invocation: InvocationId,
    /// Whose task it is.
    #[arg(long, short, env = "TURNWRIGHT_TENANT")]
    tenant: String,
    /// Who says it.
    #[arg(long, env = "TURNWRIGHT_ACTOR", default_value = "cli")]
    actor: String,
    /// Signs with this Ed25519 key: PEM, PKCS#8, not encrypted.
    #[arg(long, value_name = "FILE", env = "TURNWRIGHT_SIGNING_KEY", requires = "key_id")]
    sign_with: Option<PathBuf>,
    /// The key's ID in ingress.yaml.
    #[arg(long, value_name = "ID", env = "TURNWRIGHT_SIGNING_KEY_ID", requires = "sign_with")]
    key_id: Option<String>,
}

fn digest(text: &str) -> Result<Digest, String> {
    Digest::from_hex(text)
        .ok_or_else(|| "write all 64 hexadecimal digits, as `turnwright inspect` shows them".to_owned())
}

pub async fn cancel(settings: &Settings, Cancel { to, reason }: Cancel) -> Result<u8, Error> {
    say(settings, to, "cancel", |actor| Control::Cancel { actor, reason }).await
}

pub async fn approve(settings: &Settings, Approve { to, digest }: Approve) -> Result<u8, Error> {
    say(settings, to, "approve", |actor| Control::Approve { actor, proposal_digest: digest }).await
}

pub async fn reject(settings: &Settings, Reject { to, digest, reason }: Reject) -> Result<u8, Error> {
    say(settings, to, "reject", |actor| Control::Reject { actor, proposal_digest: digest, reason }).await
}

pub async fn clarify(settings: &Settings, Clarify { to, answer, step }: Clarify) -> Result<u8, Error> {
    let answer = invoke::text_or_json("--answer", &answer)?;
    say(settings, to, "clarify", |actor| Control::Clarify { actor, answer, step: step.map(Step) }).await
}

async fn say(settings: &Settings, to: To, kind: &str, control: impl FnOnce(Actor) -> Control) -> Result<u8, Error> {
    let control = control(to.actor.as_str().into());
    let record = ControlRecord { tenant: to.tenant.as_str().into(), invocation_id: to.invocation, control };
    let mut encoded = encode(&codec(settings).await?, &record)?;
    if let Some(key) = signing_key(&to)? {
        key.sign(&mut encoded);
    }
    publish(settings, encoded).await?;
    let id = record.invocation_id;
    match settings.is_json() {
        true => render::json(&json!({ "invocation_id": id, "asked": kind })),
        false => {
            render::line(format!("{kind} is asked for; what came of it: turnwright inspect {id}, or dead-letters"))
        }
    }
    Ok(exit::COMPLETED)
}

/// The control's record. Read as the committer will read it, so that what it would refuse is refused here.
fn encode(codec: &Codec, control: &ControlRecord) -> Result<Outbound, Error> {
    let fix = "see the command's --help";
    let record = codec.encode_control(control, WireFormat::Json);
    let record = record.map_err(|error| Error::setting("the control", error, "say it in fewer words"))?;
    match codec.decode_control(&codec.arrival(record.clone())) {
        Ok(_) => Ok(record),
        Err(refused) => Err(Error::setting(format!("--{}", refused.field.replace('_', "-")), refused.message, fix)),
    }
}

fn signing_key(to: &To) -> Result<Option<SigningKey>, Error> {
    let (Some(path), Some(id)) = (&to.sign_with, &to.key_id) else {
        return Ok(None);
    };
    let name = format!("--sign-with {}", path.display());
    let fix = "`openssl genpkey -algorithm ed25519` makes one; its ID is that of `keys` in ingress.yaml";
    let pem = std::fs::read(path).map_err(|error| Error::setting(&name, error, fix))?;
    SigningKey::from_pem(id, &pem).map(Some).map_err(|error| Error::setting(&name, error, fix))
}
