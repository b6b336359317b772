//! `list`: invocations from the store's index.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use protocol::Timestamp;
use serde::{Deserialize, Serialize};
use store::{Address, IndexEntry, Shard, Standing, Store};

use crate::error::Error;
use crate::settings::Settings;
use crate::{client, duration, exit, render};

/// Lists open, suspended and recently ended invocations, the newest first.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  turnwright list --tenant demo --phase suspended\n  turnwright list --reason no_progress --older-than 5m -o json"
)]
pub struct Arguments {
    /// Only of this tenant.
    #[arg(long, short, env = "TURNWRIGHT_TENANT")]
    pub tenant: Option<String>,
    /// Only in this phase.
    #[arg(long, value_parser = ["awaiting_request", "deciding", "executing", "suspended", "cancelling", "ended"])]
    pub phase: Option<String>,
    /// Only with this terminal reason.
    #[arg(long)]
    pub reason: Option<String>,
    /// Only those whose last event is at least this old.
    #[arg(long, value_parser = duration::parse)]
    pub older_than: Option<Duration>,
    /// At most so many.
    #[arg(long, default_value_t = 50)]
    pub limit: usize,
}

/// One line of the list. The summary is the store crate's; what a later version adds is passed on in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub invocation_id: String,
    pub tenant: String,
    pub standing: Standing,
    #[serde(flatten)]
    pub summary: Summary,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Summary {
    pub phase: String,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub task_type: Option<String>,
    #[serde(default)]
    pub agent: Option<String>,
    #[serde(default)]
    pub steps: Option<u32>,
    #[serde(default)]
    pub tool_calls: Option<u32>,
    /// What an approval must name; only while one is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_digest: Option<String>,
    /// What the model asks, its beginning; only while an answer is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    #[serde(default)]
    pub at: Timestamp,
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    if let Some(reason) = &arguments.reason
        && !protocol::TerminalReason::ALL.iter().any(|known| known.as_str() == reason)
    {
        let known: Vec<&str> = protocol::TerminalReason::ALL.iter().map(|known| known.as_str()).collect();
        return Err(Error::setting(
            "--reason",
            format!("`{reason}` is no terminal reason"),
            format!("one of {}", known.join(", ")),
        ));
    }
    let store = client::store(settings).await?;
    let now = store.now().await.map_err(|error| settings.store_error(error))?;
    let mut rows: Vec<Row> =
        index(settings, &store).await?.into_iter().filter_map(|(address, entry)| row(address, &entry)).collect();
    rows.retain(|row| wanted(row, &arguments, now));
    rows.sort_by_key(|row| std::cmp::Reverse(row.summary.at));
    let more = rows.len().saturating_sub(arguments.limit);
    rows.truncate(arguments.limit);
    if settings.is_json() {
        render::json(&rows);
        return Ok(exit::COMPLETED);
    }
    let mut table = render::table([
        "invocation",
        "tenant",
        "agent",
        "task type",
        "phase",
        "reason",
        "waits for",
        "steps",
        "calls",
        "age",
    ]);
    for row in &rows {
        let summary = &row.summary;
        let text =
            |text: &Option<String>| text.as_deref().map_or_else(|| "–".to_owned(), |text| render::clean(text, 40));
        let number = |number: Option<u32>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
        let phase = match row.standing {
            Standing::EndedUnresolved => format!("{} (effects unresolved)", summary.phase),
            Standing::Open | Standing::Suspended | Standing::Ended => summary.phase.clone(),
        };
        table.add_row([
            row.invocation_id.clone(),
            render::clean(&row.tenant, 40),
            text(&summary.agent),
            text(&summary.task_type),
            phase,
            text(&summary.reason),
            waits_for(summary),
            number(summary.steps),
            number(summary.tool_calls),
            render::age(now.ms_since(summary.at)),
        ]);
    }
    render::print(&table);
    if more > 0 {
        render::line(format!("{more} more; --limit shows them"));
    }
    Ok(exit::COMPLETED)
}

/// What an answer must name, or the question.
fn waits_for(summary: &Summary) -> String {
    let waits = summary.proposal_digest.as_ref().or(summary.question.as_ref());
    waits.map_or_else(|| "–".to_owned(), |text| render::clean(text, 80))
}

/// The whole index. Shards are read side by side.
pub async fn index(settings: &Settings, store: &Arc<dyn Store>) -> Result<Vec<(Address, IndexEntry)>, Error> {
    let shards = (0..store.shards()).map(Shard).map(|shard| of_shard(store, shard));
    let found = futures::future::try_join_all(shards).await.map_err(|error| settings.store_error(error))?;
    Ok(found.into_iter().flatten().collect())
}

async fn of_shard(store: &Arc<dyn Store>, shard: Shard) -> Result<Vec<(Address, IndexEntry)>, store::Error> {
    const PAGE: usize = 500;
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let (entries, next) = store.list(shard, cursor, PAGE).await?;
        found.extend(entries);
        if next.is_none() {
            return Ok(found);
        }
        cursor = next;
    }
}

fn row(address: Address, entry: &IndexEntry) -> Option<Row> {
    let summary = serde_json::from_str(&entry.summary)
        .inspect_err(|error| eprintln!("the summary of {} is passed over: {error}", address.id))
        .ok()?;
    Some(Row { invocation_id: address.id.to_string(), tenant: address.tenant.0, standing: entry.standing, summary })
}

fn wanted(row: &Row, arguments: &Arguments, now: Timestamp) -> bool {
    let is =
        |wanted: &Option<String>, found: Option<&String>| wanted.as_ref().is_none_or(|wanted| Some(wanted) == found);
    let old = arguments.older_than.is_none_or(|age| now.ms_since(row.summary.at) >= duration::millis(age));
    is(&arguments.tenant, Some(&row.tenant))
        && is(&arguments.phase, Some(&row.summary.phase))
        && is(&arguments.reason, row.summary.reason.as_ref())
        && old
}
