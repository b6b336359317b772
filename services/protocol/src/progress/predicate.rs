//! Goal predicates: what a caller wants to see hold in the outputs of tools before a run counts as done. A predicate is
//! data, never code, so that whoever reads the log comes to the same answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::check_name;
use crate::{CallResult, FieldError, ToolName, TurnResult, canonical};

/// The most goal predicates a request may carry.
pub const MAX_GOAL_PREDICATES: usize = 16;
/// The longest `pointer`, in bytes.
pub const MAX_POINTER_BYTES: usize = 512;
/// The largest `equals`, in bytes of canonical JSON.
pub const MAX_EQUALS_BYTES: usize = 1_024;

/// Holds as soon as one output of `tool` passes the test at `pointer`, and from then on. Exactly one of `equals` and
/// `exists` is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalPredicate {
    /// The caller's name for it, unique in its request.
    pub name: String,
    /// The tool whose outputs are looked at; an error is no output.
    pub tool: ToolName,
    /// JSON Pointer (RFC 6901) into the output; empty for the whole of it.
    #[serde(default)]
    pub pointer: String,
    /// The value that must stand there. Compared in canonical form: 1 equals 1.0, and the order of keys says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// Whether a value, `null` included, must stand there or must not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
}

/// Checks the predicates of a request; the error names the first field that cannot be accepted.
pub fn check_goal_predicates(predicates: &[GoalPredicate]) -> Result<(), FieldError> {
    if predicates.len() > MAX_GOAL_PREDICATES {
        return Err(FieldError::new("goal_predicates", format!("at most {MAX_GOAL_PREDICATES} predicates")));
    }
    for (i, predicate) in predicates.iter().enumerate() {
        let at = |field: &str| format!("goal_predicates[{i}].{field}");
        check_name(&at("name"), &predicate.name)?;
        if predicates[..i].iter().any(|before| before.name == predicate.name) {
            return Err(FieldError::new(at("name"), "stands twice; every predicate needs a name of its own"));
        }
        check_name(&at("tool"), predicate.tool.as_str())?;
        if !is_pointer(&predicate.pointer) {
            let message = format!(
                "must be a JSON Pointer (RFC 6901) of at most {MAX_POINTER_BYTES} bytes, such as /order/status, or empty"
            );
            return Err(FieldError::new(at("pointer"), message));
        }
        match (&predicate.equals, predicate.exists) {
            (None, None) | (Some(_), Some(_)) => {
                return Err(FieldError::new(format!("goal_predicates[{i}]"), "must have one of `equals` and `exists`"));
            }
            (Some(Value::Null), None) => {
                return Err(FieldError::new(at("equals"), "must be a value; `null` counts as absent"));
            }
            (Some(value), None) if canonical(value).len() > MAX_EQUALS_BYTES => {
                return Err(FieldError::new(at("equals"), format!("at most {MAX_EQUALS_BYTES} bytes of JSON")));
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
    }
    Ok(())
}

/// Whether a text is a JSON Pointer of at most [`MAX_POINTER_BYTES`]. RFC 6901, section 3: tokens behind slashes, in which
/// a tilde stands before 0 or 1 only.
pub fn is_pointer(text: &str) -> bool {
    let tokens = text.is_empty() || text.starts_with('/');
    let escapes = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    text.len() <= MAX_POINTER_BYTES && tokens && escapes
}

impl GoalPredicate {
    /// Whether this result makes it hold.
    pub fn is_met_by(&self, result: &TurnResult) -> bool {
        match &result.outcome.result {
            CallResult::Output(output) => result.tool == self.tool && self.holds_in(output),
            CallResult::Error(_) => false,
        }
    }

    fn holds_in(&self, output: &Value) -> bool {
        let found = output.pointer(&self.pointer);
        match (&self.equals, self.exists) {
            (Some(expected), _) => found.is_some_and(|found| canonical(found) == canonical(expected)),
            (None, Some(exists)) => found.is_some() == exists,
            (None, None) => false,
        }
    }

    /// What is missing while it does not hold, for a model that is to mend it.
    pub fn describe_unmet(&self) -> String {
        let place = match self.pointer.as_str() {
            "" => "the whole output".to_owned(),
            pointer => format!("`{pointer}`"),
        };
        let test = match (&self.equals, self.exists) {
            (Some(expected), _) => format!("in which {place} is {expected}"),
            (None, Some(false)) => format!("without {place}"),
            (None, Some(true) | None) => format!("with {place}"),
        };
        format!("goal predicate `{}` is not met: no call of `{}` has had an output {test}", self.name, self.tool)
    }
}
