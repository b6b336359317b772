//! `invoke`: asks an agent for something, and waits for the end if told to.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use clap::Args;
use protocol::{BudgetRequest, InvocationId, Request, RunEnded, Timestamp};
use schemas::{Codec, Outbound, Topic, WireFormat, headers};
use serde_json::{Value, json};

use crate::client::{codec, publish};
use crate::error::Error;
use crate::follow::{From, Tail};
use crate::settings::Settings;
use crate::{duration, edge, exit, render};

/// Asks an agent for something: produces one request, as JSON.
#[derive(Debug, Args)]
#[command(after_help = concat_help())]
pub struct Arguments {
    /// The agent profile, as agents.yaml names it.
    #[arg(long, short)]
    pub agent: String,
    /// Whose task this is.
    #[arg(long, short, env = "TURNWRIGHT_TENANT")]
    pub tenant: String,
    /// What is to be done: text, JSON, or @FILE (@- is standard input).
    #[arg(long, short)]
    pub goal: String,
    /// Your name for the kind of task; statistics are split by it.
    #[arg(long, default_value = "default")]
    pub task_type: String,
    /// On whose behalf the run acts.
    #[arg(long, env = "TURNWRIGHT_ACTOR", default_value = "cli")]
    pub actor: String,
    /// The Invocation ID, a UUID: the same ID with the same fields is the same task, however often it is sent.
    #[arg(long)]
    pub id: Option<InvocationId>,
    /// A limit, such as max_steps=4. Also max_tool_calls, max_tokens, max_cost_micros, max_repeated_plan.
    #[arg(long = "budget", value_name = "LIMIT=N")]
    pub budgets: Vec<String>,
    /// When the run must be over: RFC 3339, or a duration from now such as 5m.
    #[arg(long, value_parser = deadline)]
    pub deadline: Option<Timestamp>,
    /// A label of the request.
    #[arg(long = "label", value_name = "NAME=TEXT")]
    pub labels: Vec<String>,
    /// Waits for the terminal event, prints it, and exits by its reason.
    #[arg(long, short)]
    pub wait: bool,
    /// How long --wait waits.
    #[arg(long, default_value = "5m", value_parser = duration::parse)]
    pub timeout: Duration,
}

fn concat_help() -> String {
    format!(
        "Examples:\n  turnwright invoke --agent refund-desk --tenant demo --goal 'Refund order 1001' --wait\n  \
         turnwright invoke -a refund-desk -t demo -g @task.json --budget max_steps=4 --deadline 5m -o json\n\n{}",
        exit::HELP
    )
}

fn deadline(text: &str) -> Result<Timestamp, String> {
    if let Ok(duration) = duration::parse(text) {
        return Ok(edge::now().plus_ms(duration::millis(duration)));
    }
    let wrong = |_| format!("`{text}` is neither a duration such as 5m nor a time such as 2026-01-31T12:00:00Z");
    text.parse::<jiff::Timestamp>().map(|at| Timestamp(at.as_millisecond())).map_err(wrong)
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let request = request(&arguments)?;
    let codec = codec(settings).await?;
    let record = encode(&codec, &request)?;
    let id = request.invocation_id;
    if !arguments.wait {
        publish(settings, record).await?;
        match settings.is_json() {
            true => render::json(&json!({ "invocation_id": id, "tenant": request.tenant })),
            false => {
                render::line(id);
                eprintln!("asked; follow it with: turnwright watch {id} --from-start");
            }
        }
        return Ok(exit::COMPLETED);
    }
    // An ID that was chosen may have run before: then its end is in the log already.
    let from = if arguments.id.is_some() { From::Start } else { From::Now };
    let waiting = Waiting::open(settings, &codec, id, from).await?;
    publish(settings, record).await?;
    let (event_id, ended) = waiting.end(&codec, arguments.timeout).await?;
    print(settings, &event_id, &ended);
    Ok(exit::of(ended.reason, ended.effects_unresolved))
}

/// The request as the arguments describe it.
pub fn request(arguments: &Arguments) -> Result<Request, Error> {
    let request = Request {
        invocation_id: arguments.id.unwrap_or_else(edge::new_invocation_id),
        tenant: arguments.tenant.as_str().into(),
        actor: arguments.actor.as_str().into(),
        task_type: arguments.task_type.as_str().into(),
        agent: arguments.agent.as_str().into(),
        goal: text_or_json("--goal", &arguments.goal)?,
        tools: None,
        budget: budget(&arguments.budgets)?,
        deadline: arguments.deadline,
        output_schema: None,
        goal_predicates: Vec::new(),
        labels: pairs("--label", &arguments.labels)?.into_iter().collect::<BTreeMap<_, _>>(),
        // With an ID of the caller's choice, sending again must be the same request; a time of ours would change it.
        requested_at: arguments.id.is_none().then(edge::now),
    };
    let fix = "see `turnwright invoke --help`";
    request
        .check()
        .map_err(|error| Error::setting(format!("--{}", error.field.replace('_', "-")), error.message, fix))?;
    Ok(request)
}

/// The request's record, as JSON: what anybody could have produced by hand.
pub fn encode(codec: &Codec, request: &Request) -> Result<Outbound, Error> {
    let refused = |error| Error::setting("--goal", error, "send less, or a reference to it");
    codec.encode_request(request, WireFormat::Json).map_err(refused)
}

/// What a flag says to the model: text, JSON, or a file with either.
pub fn text_or_json(flag: &str, text: &str) -> Result<Value, Error> {
    let unreadable = |error| Error::setting(flag, error, "write text, JSON, @FILE or @- for standard input");
    let text = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some("-") => std::io::read_to_string(std::io::stdin()).map_err(unreadable)?,
        Some(path) => std::fs::read_to_string(path).map_err(unreadable)?,
    };
    // Only an object or a list is meant as JSON: a text such as `42` or `true` is a text.
    let parsed = serde_json::from_str::<Value>(&text).ok().filter(|value| value.is_object() || value.is_array());
    Ok(parsed.unwrap_or_else(|| Value::String(text.trim_end().to_owned())))
}

fn pairs(flag: &str, given: &[String]) -> Result<Vec<(String, String)>, Error> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        Some(_) | None => Err(Error::setting(flag, format!("`{text}` has no name and value"), "write NAME=VALUE")),
    };
    given.iter().map(pair).collect()
}

fn budget(given: &[String]) -> Result<BudgetRequest, Error> {
    let mut limits = serde_json::Map::new();
    for (name, value) in pairs("--budget", given)? {
        let wrong =
            |error| Error::setting(format!("--budget {name}"), error, "write a whole number, such as max_steps=4");
        limits.insert(name.clone(), value.parse::<u64>().map_err(wrong)?.into());
    }
    let fix = "the limits are max_steps, max_tool_calls, max_tokens, max_cost_micros and max_repeated_plan";
    serde_json::from_value(Value::Object(limits)).map_err(|error| Error::setting("--budget", error, fix))
}

/// Waits for one run's terminal event.
pub struct Waiting {
    tail: Tail,
    id: InvocationId,
    letters: String,
    requests: String,
}

impl Waiting {
    pub async fn open(settings: &Settings, codec: &Codec, id: InvocationId, from: From) -> Result<Self, Error> {
        let letters = codec.topic_name(Topic::DeadLetters);
        let topics = vec![(codec.topic_name(Topic::Terminals), from), (letters.clone(), From::Now)];
        let tail = Tail::open(settings, topics).await?;
        Ok(Self { tail, id, letters, requests: codec.topic_name(Topic::Invocations) })
    }

    /// The terminal event and its `ce_id`, or the reason why the request was not taken.
    pub async fn end(&self, codec: &Codec, timeout: Duration) -> Result<(String, RunEnded), Error> {
        tokio::time::timeout(timeout, self.search(codec)).await.unwrap_or_else(|_| {
            let id = self.id;
            let why = format!("no terminal event of {id} within {}", render::age(duration::millis(timeout)));
            let fix =
                format!("it may still run: turnwright inspect {id}, or wait longer with --timeout; do not ask anew");
            Err(Error::Missing { why, fix })
        })
    }

    async fn search(&self, codec: &Codec) -> Result<(String, RunEnded), Error> {
        let key = self.id.to_string().into_bytes();
        let mut seen = HashSet::new();
        loop {
            let record = self.tail.next().await?;
            if record.key.as_ref() != Some(&key) {
                continue;
            }
            let unreadable = |error| Error::failed("a record of this run", error);
            codec
                .learn(std::slice::from_ref(&record))
                .await
                .map_err(|error| Error::failed("the schema registry", error))?;
            if record.topic == self.letters {
                let letter = codec.decode_dead_letter(&record).map_err(unreadable)?;
                if letter.record.topic == self.requests {
                    let fix = format!("correct the named field; the record is on {}", self.letters);
                    return Err(Error::Refused { why: letter.rejection.to_string(), fix });
                }
                continue;
            }
            let event_id = record.header(headers::CE_ID).unwrap_or_default().to_owned();
            // Publishing may repeat: a record that was seen says nothing new.
            if seen.insert(event_id.clone()) {
                return Ok((event_id, codec.decode::<RunEnded>(&record).map_err(unreadable)?));
            }
        }
    }
}

fn print(settings: &Settings, event_id: &str, ended: &RunEnded) {
    if settings.is_json() {
        let mut value = serde_json::to_value(ended).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("invocation_id".into(), json!(ended.scope.invocation_id));
            object.insert("event_id".into(), json!(event_id));
        }
        return render::json(&value);
    }
    let mut table = render::facts();
    table.add_row(["invocation", &ended.scope.invocation_id.to_string()]);
    table.add_row(["reason", ended.reason.as_str()]);
    if let Some(answer) = &ended.answer {
        table.add_row(["answer", &render::value(answer, 2_000)]);
    }
    if let Some(proposal) = &ended.proposal {
        render::proposal(&mut table, proposal);
    }
    if let Some(question) = &ended.question {
        table.add_row(["question", &render::clean(question, 500)]);
    }
    if !ended.detail.is_empty() {
        table.add_row(["detail", &render::clean(&ended.detail, 500)]);
    }
    table.add_row(["spent", &format!("steps={} tool_calls={}", ended.spent.steps, ended.spent.tool_calls)]);
    for effect in &ended.effects {
        let receipt = effect.receipt.as_ref().map_or("no receipt", |receipt| receipt.effect_id.as_str());
        let line = format!("{} {:?}, {}", render::clean(&effect.tool.0, 60), effect.status, render::clean(receipt, 80));
        table.add_row(["effect", &line]);
    }
    if ended.effects_unresolved {
        table.add_row(["attention", "an effect was started and its outcome is not known: look before asking again"]);
    }
    table.add_row(["event id", event_id]);
    render::print(&table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_text_unless_it_is_an_object_or_a_list() {
        assert_eq!(text_or_json("--goal", "refund 12").unwrap(), json!("refund 12"));
        assert_eq!(text_or_json("--goal", "42").unwrap(), json!("42"));
        assert_eq!(text_or_json("--goal", "{\"order\": 1}").unwrap(), json!({"order": 1}));
        assert!(text_or_json("--goal", "@/no/such/file").is_err());
    }

    #[test]
    fn an_unknown_limit_is_refused_by_name() {
        let budget = budget(&["max_steps=4".into()]).unwrap();
        assert_eq!(budget.max_steps, Some(4));
        for wrong in ["max_stepz=4", "max_steps=many", "max_steps"] {
            assert!(super::budget(&[wrong.into()]).is_err(), "{wrong}");
        }
    }
}
