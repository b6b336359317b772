//! A call in Cedar's terms: who asks, which objects it touches, and its arguments as a record.

use std::str::FromStr;

use cedar_policy::{Context, EntityId, EntityTypeName, EntityUid, RestrictedExpression as Expression};
use protocol::{Actor, AgentName, TaskType, TemplateError, Tenant, ToolContract, ToolName};
use serde_json::{Number, Value};

/// On whose behalf, and in which run, a call is proposed.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    pub tenant: &'a Tenant,
    pub actor: &'a Actor,
    pub agent: &'a AgentName,
    pub task_type: &'a TaskType,
}

/// What a call does to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    Write,
}

impl Access {
    /// As policies see it in `context.access`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One thing that a call touches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub access: Access,
    /// A rendered resource, such as `order:A-100`; absent for a tool that declares none.
    pub object: Option<String>,
}

impl Caller<'_> {
    /// `Actor::"tenant/actor"`: the same name in two tenants is two actors.
    pub(super) fn uid(&self) -> EntityUid {
        let tenant = self.tenant.as_str().replace('%', "%25").replace('/', "%2F");
        uid("Actor", &format!("{tenant}/{}", self.actor))
    }
}

impl Target {
    /// Everything a call touches by its tool's declaration. Never empty.
    pub fn of(tool: &ToolContract, arguments: &Value) -> Result<Vec<Self>, TemplateError> {
        let declared = [(Access::Read, &tool.reads), (Access::Write, &tool.writes)];
        let declared = declared.iter().flat_map(|(access, templates)| templates.iter().map(move |one| (*access, one)));
        let render = |(access, template): (Access, &protocol::Template)| {
            template.render(arguments).map(|object| Self { access, object: Some(object) })
        };
        let mut targets = declared.map(render).collect::<Result<Vec<_>, _>>()?;
        if targets.is_empty() {
            let access = if tool.effect.is_some() { Access::Write } else { Access::Read };
            targets.push(Self { access, object: None });
        }
        Ok(targets)
    }

    pub fn uid(&self, tool: &ToolContract) -> EntityUid {
        match &self.object {
            Some(object) => uid("Object", object),
            None => uid("Tool", tool.tool.as_str()),
        }
    }
}

/// The groups of actions that stand for all reads and all effects.
const CLASSES: [&str; 2] = ["read", "effect"];

/// The class of a tool, as policies see it: `action in Action::"effect"`.
pub(super) fn class(tool: &ToolContract) -> EntityUid {
    uid("Action", CLASSES[usize::from(tool.effect.is_some())])
}

/// Whether a tool of this name would be taken for a class.
pub(super) fn names_a_class(tool: &ToolName) -> bool {
    CLASSES.contains(&tool.as_str())
}

/// An entity's name. Any text is a good ID; `kind` is one of the few types that are written in this module.
pub(super) fn uid(kind: &str, id: &str) -> EntityUid {
    let kind = EntityTypeName::from_str(kind).expect("the types of this module are names");
    EntityUid::from_type_name_and_id(kind, EntityId::new(id))
}

/// `context` of a request. The error says why Cedar will not have it.
pub(super) fn context(
    caller: &Caller<'_>,
    tool: &ToolContract,
    arguments: &Value,
    access: Access,
) -> Result<Context, String> {
    let text = |text: &str| Expression::new_string(text.to_owned());
    let empty = || Expression::new_record([]).expect("a record without fields has none twice");
    let pairs = [
        ("tenant", text(caller.tenant.as_str())),
        ("agent", text(caller.agent.as_str())),
        ("task_type", text(caller.task_type.as_str())),
        ("tool", text(tool.tool.as_str())),
        ("access", text(access.as_str())),
        ("arguments", expression(arguments, &whole).unwrap_or_else(empty)),
        ("decimals", expression(arguments, &decimal).unwrap_or_else(empty)),
    ];
    Context::from_pairs(pairs.map(|(name, value)| (name.to_owned(), value))).map_err(|error| error.to_string())
}

/// A JSON value as Cedar knows it. Cedar has no null and no fractions, and its types never depend on a value here: null is
/// left out, a list is a set, and a number is what `number` makes of it, or left out.
fn expression(value: &Value, number: &dyn Fn(&Number) -> Option<Expression>) -> Option<Expression> {
    match value {
        Value::Null => None,
        Value::Bool(flag) => Some(Expression::new_bool(*flag)),
        Value::Number(value) => number(value),
        Value::String(text) => Some(Expression::new_string(text.clone())),
        Value::Array(list) => Some(Expression::new_set(list.iter().filter_map(|item| expression(item, number)))),
        Value::Object(object) => {
            let fields = object.iter().filter_map(|(name, item)| Some((name.clone(), expression(item, number)?)));
            Some(Expression::new_record(fields).expect("a JSON object holds a key once"))
        }
    }
}

/// In `context.arguments` a number is a whole number; `5.0` is 5, as the canonical form has it.
fn whole(number: &Number) -> Option<Expression> {
    let value = number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        let exact = float.fract() == 0.0 && float.abs() <= protocol::MAX_EXACT_INTEGER as f64;
        exact.then_some(float as i64)
    })?;
    Some(Expression::new_long(value))
}

/// In `context.decimals` every number is a decimal of at most four places; one that needs more is left out, never rounded.
fn decimal(number: &Number) -> Option<Expression> {
    let text = match number.as_i64() {
        Some(whole) => format!("{whole}.0"),
        None => {
            let float = number.as_f64()?;
            let text = format!("{float}");
            if text.contains('.') { text } else { format!("{text}.0") }
        }
    };
    let (integer, fraction) = text.split_once('.')?;
    // The type holds an i64 of ten-thousandths.
    let fits = fraction.len() <= 4 && integer.parse::<i64>().is_ok_and(|whole| whole.abs() < i64::MAX / 10_000);
    fits.then(|| Expression::new_decimal(text))
}
