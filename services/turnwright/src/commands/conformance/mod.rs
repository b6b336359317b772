//! `conformance`: runs an owning service against the owner contract (`schemas/owner.md`), with the same code that calls and
//! asks owners in production.

mod checks;
mod subject;

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;
use crate::settings::Settings;
use crate::{duration, exit, render};

use subject::Subject;

/// Checks that a service keeps the owner contract. Exits 1 if a check fails.
///
/// It makes about ten changes at the service, so use a test instance. Keys are fresh in every run. The contract is schemas/owner.md.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright conformance http://127.0.0.1:8080 --write-path /refunds --body '{\"order_id\":7,\"amount\":3}' --tombstone"
)]
pub struct Arguments {
    /// Where the service is.
    #[arg(value_name = "BASE_URL")]
    pub base_url: String,
    /// Where it takes the write: a tool's `run.endpoint.url`.
    #[arg(long, default_value = "/changes", value_name = "PATH")]
    pub write_path: String,
    /// The write's method.
    #[arg(long, default_value = "POST")]
    pub method: String,
    /// Where it is asked by key: a tool's `run.reconcile.url`.
    #[arg(long, default_value = "/effects", value_name = "PATH")]
    pub reconcile_path: String,
    /// The write's body: arguments that the service commits.
    #[arg(long, default_value = "{}", value_name = "JSON", value_parser = json)]
    pub body: Value,
    /// The body of another request, sent under a key that is taken [default: the same body, with another fingerprint].
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub other_body: Option<Value>,
    /// The service closes keys on demand (`tombstone: true`): check that, too.
    #[arg(long)]
    pub tombstone: bool,
    /// How long one request may take.
    #[arg(long, default_value = "5s", value_parser = duration::parse)]
    pub timeout: Duration,
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Pass,
    Fail,
    Skip,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::Skip => "skip",
        }
    }
}

/// One rule of the contract, and how the service keeps it.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    seen: String,
    /// What the service must do, where it does not.
    #[serde(skip_serializing_if = "str::is_empty")]
    fix: &'static str,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let tombstone = arguments.tombstone;
    let subject = Subject::new(arguments)?;
    let checks = checks::all(&subject, tombstone).await;
    match settings.is_json() {
        true => render::json(&checks),
        false => {
            let mut table = render::table(["", "check", "seen", "what to do"]);
            for check in &checks {
                table.add_row([check.verdict.as_str(), check.name, &render::clean(&check.seen, 200), check.fix]);
            }
            render::print(&table);
        }
    }
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Ok(if failed { exit::OTHER } else { exit::COMPLETED })
}
