//! Places in a scripted decision that the context fills: `{goal.field}`, `{c1.output.path}`, `{c1.error.class}`, and
//! `{answer.path}` for the newest answer to a question. A string that is one place takes the value's JSON type; `{{` and `}}` stand for braces.

use serde_json::{Map, Value};

use crate::{Context, PastOutcome};

/// Adds what is wrong with the places of a decision, as far as the file alone can tell.
pub(super) fn check(value: &Value, at: &str, problems: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let known = |path: &str| match path.split('.').collect::<Vec<_>>()[..] {
                ["goal" | "answer", ..] | [_, "output" | "error", ..] => Ok(Value::Null),
                _ => Err(format!(
                    "`{{{path}}}` must be {{goal.…}}, {{answer.…}}, {{call_id.output.…}} or {{call_id.error.…}}"
                )),
            };
            if let Err(why) = render(text, &known) {
                problems.push(format!("{at}: {why}"));
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, item)| check(item, &format!("{at}[{i}]"), problems))
        }
        Value::Object(object) => {
            object.iter().for_each(|(name, item)| check(item, &format!("{at}.{name}"), problems));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The value with every place filled. The error names the place that cannot be.
pub(super) fn fill(value: &Value, context: &Context) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => render(text, &|path| look_up(path, context))?,
        Value::Array(list) => list.iter().map(|item| fill(item, context)).collect::<Result<Vec<_>, _>>()?.into(),
        Value::Object(object) => {
            let filled = object.iter().map(|(name, item)| Ok((name.clone(), fill(item, context)?)));
            filled.collect::<Result<Map<_, _>, String>>()?.into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

type LookUp<'l> = &'l dyn Fn(&str) -> Result<Value, String>;

fn render(text: &str, look_up: LookUp<'_>) -> Result<Value, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix(brace) {
            out.push_str(brace);
            rest = escaped;
            continue;
        }
        let close = after.find('}').filter(|close| brace == "{" && *close > 0);
        let close = close.ok_or_else(|| format!("`{text}` has a brace that is no place; write it twice"))?;
        let value = look_up(&after[..close])?;
        rest = &after[close + 1..];
        if at == 0 && out.is_empty() && rest.is_empty() && text.len() == close + 2 {
            return Ok(value);
        }
        match value {
            Value::String(part) => out.push_str(&part),
            other => out.push_str(&other.to_string()),
        }
    }
    out.push_str(rest);
    Ok(out.into())
}

fn look_up(path: &str, context: &Context) -> Result<Value, String> {
    let mut fields = path.split('.');
    let head = fields.next().unwrap_or_default();
    if head == "goal" {
        return walk(&context.goal, fields).ok_or_else(|| format!("`{{{path}}}` is not in the goal"));
    }
    if head == "answer" {
        let answer = context.turns.iter().rev().find_map(|turn| turn.answer.as_ref());
        let answer = answer.ok_or_else(|| format!("`{{{path}}}`: no turn before this one has an answer"))?;
        return walk(answer, fields).ok_or_else(|| format!("`{{{path}}}` is not in the answer"));
    }
    let results = context.turns.iter().rev().flat_map(|turn| &turn.results);
    let result = results.into_iter().find(|result| result.call_id == head);
    let result = result.ok_or_else(|| format!("`{{{path}}}`: no turn before this one has a call `{head}`"))?;
    let found = match (fields.next(), &result.outcome) {
        (Some("output"), PastOutcome::Output(output)) => walk(output, fields),
        (Some("error"), PastOutcome::Error { class, message }) => {
            walk(&serde_json::json!({"class": class, "message": message}), fields)
        }
        (_, PastOutcome::Output(_) | PastOutcome::Error { .. } | PastOutcome::OmittedOutput { .. }) => None,
    };
    found.ok_or_else(|| format!("`{{{path}}}` is not in the result of `{head}`"))
}

fn walk<'p>(value: &Value, mut fields: impl Iterator<Item = &'p str>) -> Option<Value> {
    let found = fields.try_fold(value, |value, field| match value {
        Value::Array(list) => list.get(field.parse::<usize>().ok()?),
        Value::Object(object) => object.get(field),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    });
    found.cloned()
}
