//! `policy explain`: which policies decide about one call, for each thing that it touches.

use clap::Args;
use serde_json::{Map, Value, json};
use validation::policy::{Outcome, Ruling, Touched};

use super::{Files, Proposed};
use crate::error::Error;
use crate::settings::Settings;
use crate::{exit, render};

/// Says whether a call is allowed, gated or denied, and by which policies.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  turnwright policy explain --config my-agents --tenant demo --actor ada --tool customer_profile --arguments '{\"customer\":\"c-1001\"}'"
)]
pub struct Arguments {
    #[arg(long, short)]
    tenant: String,
    #[arg(long)]
    actor: String,
    #[arg(long)]
    tool: String,
    /// A JSON object.
    #[arg(long, default_value = "{}", value_parser = object)]
    arguments: JsonObject,
    /// The agent profile that proposes it.
    #[arg(long, short, default_value = "")]
    agent: String,
    #[arg(long, default_value = "")]
    task_type: String,
}

type JsonObject = Map<String, Value>;

fn object(text: &str) -> Result<JsonObject, String> {
    serde_json::from_str(text).map_err(|error| format!("a JSON object is wanted: {error}"))
}

pub fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let Arguments { tenant, actor, tool, arguments, agent, task_type } = arguments;
    let files = Files::read(&settings.config_directory())?;
    let call = Proposed {
        tenant: tenant.as_str().into(),
        actor: actor.as_str().into(),
        tool: tool.as_str().into(),
        arguments,
        agent: agent.as_str().into(),
        task_type: task_type.as_str().into(),
    };
    let ruling = files.rule(&call).map_err(|why| {
        let fix = "a call like this never comes before the policies: correct --tool or --arguments";
        Error::setting("the call", why, fix)
    })?;
    match settings.is_json() {
        true => render::json(&document(&ruling, &files)),
        false => print(&ruling),
    }
    Ok(exit::COMPLETED)
}

fn print(ruling: &Ruling) {
    let mut table = render::table(["access", "object", "outcome", "why"]);
    for touched in &ruling.touched {
        let object = touched.object.as_deref().unwrap_or("(the tool itself)");
        let outcome = touched.outcome.permission().as_str();
        table.add_row([touched.access.as_str(), &render::clean(object, 200), outcome, &why(touched)]);
    }
    render::print(&table);
    render::line(format!("the call: {}", ruling.permission().as_str()));
}

fn why(touched: &Touched) -> String {
    match &touched.outcome {
        Outcome::Allowed { by } => format!("permitted by {}", by.join(", ")),
        Outcome::Gated { by, gates } => {
            let gates = gates.iter().map(|gate| {
                let four_eyes = if gate.approval.four_eyes { ", by somebody else than the actor" } else { "" };
                let ttl = gate.approval.ttl_ms.map(|ms| format!(", within {}", render::age(ms))).unwrap_or_default();
                format!("{} ({}{four_eyes}{ttl})", gate.policy, gate.approval.reason)
            });
            format!("permitted by {}; to be approved for {}", by.join(", "), gates.collect::<Vec<_>>().join(", "))
        }
        Outcome::Denied { by, broken } if by.is_empty() && broken.is_empty() => "no policy permits it".to_owned(),
        Outcome::Denied { by, broken } => {
            let broken = broken.iter().map(|one| format!("{} cannot be evaluated: {}", one.policy, one.why));
            let by = (!by.is_empty()).then(|| format!("forbidden by {}", by.join(", ")));
            by.into_iter().chain(broken).collect::<Vec<_>>().join("; ")
        }
    }
}

fn document(ruling: &Ruling, files: &Files) -> Value {
    let touched = ruling.touched.iter().map(|touched| {
        let mut one = json!({
            "access": touched.access.as_str(),
            "object": touched.object,
            "outcome": touched.outcome.permission().as_str(),
        });
        let more = match &touched.outcome {
            Outcome::Allowed { by } => json!({ "permitted_by": by }),
            Outcome::Gated { by, gates } => {
                let gates = gates.iter().map(|gate| {
                    json!({
                        "policy": gate.policy,
                        "reason": gate.approval.reason,
                        "four_eyes": gate.approval.four_eyes,
                        "ttl_ms": gate.approval.ttl_ms,
                    })
                });
                json!({ "permitted_by": by, "gates": gates.collect::<Vec<_>>() })
            }
            Outcome::Denied { by, broken } => {
                let broken = broken.iter().map(|one| json!({ "policy": one.policy, "why": one.why }));
                json!({ "forbidden_by": by, "broken": broken.collect::<Vec<_>>() })
            }
        };
        if let (Value::Object(one), Value::Object(more)) = (&mut one, more) {
            one.extend(more);
        }
        one
    });
    json!({
        "permission": ruling.permission().as_str(),
        "touched": touched.collect::<Vec<_>>(),
        "policy_digest": files.policy.digest,
        "registry_digest": files.registry.digest,
    })
}
