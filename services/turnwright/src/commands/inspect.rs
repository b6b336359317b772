//! `inspect`: everything the store knows of one invocation: state, events, and the effects with their receipts.

use std::sync::Arc;

use clap::Args;
use protocol::{EffectOutcome, Event, Invocation, InvocationId, LedgerEntry, Phase, Suspension, Version};
use serde_json::json;
use store::{Address, Entries, Loaded, Store};

use crate::commands::{list, watch};
use crate::error::Error;
use crate::settings::Settings;
use crate::timeline::short;
use crate::{client, exit, render};

/// Shows one invocation: state, event log, effects with receipts.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  turnwright inspect 0198c0de-0000-7000-8000-000000000001 --tenant demo -o json")]
pub struct Arguments {
    pub invocation: InvocationId,
    /// Whose task it is; without it the index is searched.
    #[arg(long, short, env = "TURNWRIGHT_TENANT")]
    pub tenant: Option<String>,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let store = client::store(settings).await?;
    let address = address(settings, &store, &arguments).await?;
    let failed = |error| settings.store_error(error);
    let loaded = store.load(&address, &Entries::All, None).await.map_err(failed)?;
    let records = store.events(&address, Version(1), Version(u64::MAX)).await.map_err(failed)?;
    let events: Vec<Event> = records.iter().map(store::read_event).collect::<Result<_, _>>().map_err(failed)?;
    let state: Option<Invocation> = match &loaded.snapshot {
        Some(snapshot) => Some(read("the snapshot", &snapshot.bytes)?),
        None => None,
    };
    let ledger: Vec<LedgerEntry> =
        loaded.entries.iter().map(|(_, bytes)| read("a ledger entry", bytes)).collect::<Result<_, _>>()?;
    if state.is_none() && loaded.tombstone.is_none() {
        return Err(unknown(&arguments));
    }
    match settings.is_json() {
        true => render::json(&json!({
            "invocation_id": address.id,
            "tenant": address.tenant,
            "state": state,
            "epoch": loaded.epoch,
            "frozen": loaded.frozen.map(|(basis, since)| json!({ "basis": basis, "since": since })),
            "tombstone": loaded.tombstone,
            "events": events,
            "ledger": ledger,
        })),
        false => show(&address, &loaded, state.as_ref(), &events, &ledger),
    }
    Ok(exit::COMPLETED)
}

fn read<T: serde::de::DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::failed(what, format!("{error}; was it written by a newer version?")))
}

fn unknown(arguments: &Arguments) -> Error {
    let why = format!("no invocation {} is stored", arguments.invocation);
    let fix = match arguments.tenant {
        Some(_) => {
            "check the tenant; if it was just asked for, no committer has taken it yet, or it was refused: see dead-letters"
        }
        None => "name its --tenant: an expired one is not in the index; a refused request is in dead-letters",
    };
    Error::Missing { why, fix: fix.to_owned() }
}

async fn address(settings: &Settings, store: &Arc<dyn Store>, arguments: &Arguments) -> Result<Address, Error> {
    if let Some(tenant) = &arguments.tenant {
        return Ok(Address { tenant: tenant.as_str().into(), id: arguments.invocation });
    }
    let index = list::index(settings, store).await?;
    let mut found = index.into_iter().map(|(address, _)| address).filter(|address| address.id == arguments.invocation);
    match (found.next(), found.next()) {
        (Some(address), None) => Ok(address),
        (None, _) => Err(unknown(arguments)),
        (Some(a), Some(b)) => {
            let why = format!("several tenants have this ID, such as {} and {}", a.tenant, b.tenant);
            Err(Error::setting("--tenant", why, "name one"))
        }
    }
}

fn show(address: &Address, loaded: &Loaded, state: Option<&Invocation>, events: &[Event], ledger: &[LedgerEntry]) {
    let mut table = render::facts();
    table.add_row(["invocation", &address.id.to_string()]);
    table.add_row(["tenant", &render::clean(&address.tenant.0, 80)]);
    if let Some(state) = state {
        about(&mut table, state);
    }
    if let Some((basis, since)) = &loaded.frozen {
        let line = format!(
            "since {}: a message proves version {}, which the store lost",
            render::date_time(*since),
            basis.version
        );
        table.add_row(["FROZEN", &line]);
    }
    if let Some(tombstone) = &loaded.tombstone {
        table.add_row(["expired", &render::clean(&tombstone.reason, 200)]);
    }
    render::print(&table);
    if !events.is_empty() {
        render::print(&watch::table(events));
    }
    if ledger.is_empty() {
        return render::line("no effects");
    }
    let mut table = render::table(["effect", "tool", "owner", "status", "attempts", "receipt or outcome"]);
    for entry in ledger {
        let outcome = match &entry.outcome {
            Some(EffectOutcome::Committed { receipt, .. }) => {
                receipt.as_ref().map_or("no receipt".to_owned(), |receipt| render::clean(&receipt.effect_id, 80))
            }
            Some(EffectOutcome::Rejected { error }) => render::clean(&error.message, 80),
            None => entry
                .not_applied_at
                .map_or("–".to_owned(), |at| format!("not applied as of {}", render::date_time(at))),
        };
        let status = format!("{:?}{}", entry.status, if entry.conflicting { " (CONFLICTING)" } else { "" });
        let tool = render::clean(&entry.tool.0, 60);
        let owner = render::clean(&entry.owner, 60);
        table.add_row([short(&entry.key.0), tool, owner, status, entry.attempts.len().to_string(), outcome]);
    }
    render::print(&table);
}

fn about(table: &mut comfy_table::Table, state: &Invocation) {
    let (step, round) = state.turn();
    let phase = match state.phase() {
        None => "a cancel waits for its request".to_owned(),
        Some(Phase::Deciding(_)) => "deciding".to_owned(),
        Some(Phase::Executing(_)) => "executing".to_owned(),
        Some(Phase::Suspended(suspension)) => format!("suspended: {}", suspension.reason().as_str()),
        Some(Phase::Cancelling(cancelling)) => format!("cancelling: {}", cancelling.reason.as_str()),
        Some(Phase::Ended(ended)) => format!("ended: {}", ended.reason.as_str()),
    };
    table.add_row(["phase", &phase]);
    if let Some(Phase::Suspended(suspension)) = state.phase() {
        waits(table, suspension);
    }
    table.add_row(["version", &state.version.to_string()]);
    if let Some(run) = &state.run {
        table.add_row(["agent", &render::clean(&run.agent.0, 80)]);
        table.add_row(["actor", &render::clean(&run.actor.0, 80)]);
        table.add_row(["task type", &render::clean(&run.task_type.0, 80)]);
        table.add_row(["turn", &format!("step {step}, round {round}")]);
        let spent = format!(
            "steps {} of {}, tool calls {} of {}",
            run.spent.steps, run.budget.max_steps, run.spent.tool_calls, run.budget.max_tool_calls
        );
        table.add_row(["spent", &spent]);
        table.add_row(["requested", &render::date_time(run.requested_at)]);
        if let Some(deadline) = run.deadline {
            table.add_row(["deadline", &render::date_time(deadline)]);
        }
    }
    table.add_row(["last event", &render::date_time(state.at)]);
}

/// What a person is asked. The effects that an operator is asked about stand in the ledger's table.
fn waits(table: &mut comfy_table::Table, suspension: &Suspension) {
    match suspension {
        Suspension::Approval(pending) => render::proposal(table, &pending.requested.proposal()),
        Suspension::Clarification(pending) => {
            table.add_row(["question", &render::clean(&pending.question, 500)]);
        }
        Suspension::Operator(_) => {}
    }
}
