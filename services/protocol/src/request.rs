//! An invocation request, as sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Actor, AgentName, BudgetRequest, Digest, GoalPredicate, InvocationId, TaskType, Tenant, Timestamp, ToolName,
    canonical_digest, check_goal_predicates,
};

/// A request with its fields as they were sent: what was left out is absent here too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub invocation_id: InvocationId,
    pub tenant: Tenant,
    pub actor: Actor,
    pub task_type: TaskType,
    pub agent: AgentName,
    /// Text or JSON.
    pub goal: Value,
    /// Narrows the profile's tools, never widens them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolName>>,
    #[serde(default)]
    pub budget: BudgetRequest,
    /// Absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// JSON Schema of the final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What must be seen to hold before a final answer is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goal_predicates: Vec<GoalPredicate>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Timestamp>,
}

/// The longest name (tenant, actor, task type, agent, tool, label), in bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// The most labels a request may carry.
pub const MAX_LABELS: usize = 32;
/// A request may be this far in the future, by its own `requested_at`.
pub const MAX_FUTURE_MS: u64 = 5 * 60 * 1_000;

/// A field that cannot be accepted: its path, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl Request {
    /// The digest that makes a repeated request the same: over the fields as sent, never over a default.
    pub fn digest(&self) -> Digest {
        let value = serde_json::to_value(self).expect("a request is always JSON");
        canonical_digest("request", &value)
    }

    /// Checks what no configuration is needed for.
    pub fn check(&self) -> Result<(), FieldError> {
        let names = [
            ("tenant", &self.tenant.0),
            ("actor", &self.actor.0),
            ("task_type", &self.task_type.0),
            ("agent", &self.agent.0),
        ];
        for (field, name) in names {
            check_name(field, name)?;
        }
        if self.goal.is_null() || self.goal.as_str().is_some_and(|text| text.trim().is_empty()) {
            return Err(FieldError::new("goal", "say what is to be done, as text or JSON"));
        }
        for (i, tool) in self.tools.iter().flatten().enumerate() {
            check_name(&format!("tools[{i}]"), &tool.0)?;
        }
        if self.labels.len() > MAX_LABELS {
            return Err(FieldError::new("labels", format!("at most {MAX_LABELS} labels")));
        }
        for (name, value) in &self.labels {
            check_name("labels", name)?;
            check_name(&format!("labels.{name}"), value)?;
        }
        if self.budget.max_steps == Some(0) {
            return Err(FieldError::new("budget.max_steps", "must be at least 1"));
        }
        match &self.output_schema {
            Some(Value::Object(_) | Value::Bool(_)) | None => {}
            Some(_) => return Err(FieldError::new("output_schema", "must be a JSON Schema: an object")),
        }
        check_goal_predicates(&self.goal_predicates)
    }
}

pub(crate) fn check_name(field: &str, name: &str) -> Result<(), FieldError> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        let message = format!("must be 1 to {MAX_NAME_BYTES} bytes without control characters");
        return Err(FieldError::new(field, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A request that can be accepted, with some fields changed.
    fn with(changes: Value) -> Request {
        let mut request = json!({
            "invocation_id": uuid::Uuid::nil(), "tenant": "acme", "actor": "ada", "task_type": "refund",
            "agent": "refunds", "goal": "refund order 7",
        });
        request.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value(request).unwrap()
    }

    fn labels(count: usize) -> Value {
        json!({"labels": (0..count).map(|n| (format!("l{n}"), json!("x"))).collect::<serde_json::Map<_, _>>()})
    }

    #[test]
    fn a_request_at_its_limits_is_accepted() {
        let longest = "x".repeat(MAX_NAME_BYTES);
        for changes in [
            json!({}),
            json!({"tenant": longest, "actor": longest, "task_type": longest, "agent": longest, "tools": [longest]}),
            json!({"labels": {longest.as_str(): longest}}),
            labels(MAX_LABELS),
            json!({"goal": {"order": 7}}),
            json!({"goal": false}),
            json!({"tools": []}),
            json!({"budget": {"max_steps": 1, "max_tool_calls": 0}}),
            json!({"output_schema": {"type": "object"}}),
            json!({"output_schema": true}),
        ] {
            assert_eq!(with(changes.clone()).check(), Ok(()), "{changes}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_accepted_is_refused_by_field() {
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        for (changes, field) in [
            (json!({"tenant": ""}), "tenant"),
            (json!({"actor": long}), "actor"),
            (json!({"task_type": "a\nb"}), "task_type"),
            (json!({"agent": "\u{7f}"}), "agent"),
            (json!({"goal": null}), "goal"),
            (json!({"goal": " \n"}), "goal"),
            (json!({"tools": ["lookup", ""]}), "tools[1]"),
            (labels(MAX_LABELS + 1), "labels"),
            (json!({"labels": {"": "x"}}), "labels"),
            (json!({"labels": {"team": long}}), "labels.team"),
            (json!({"budget": {"max_steps": 0}}), "budget.max_steps"),
            (json!({"output_schema": "object"}), "output_schema"),
            (json!({"goal_predicates": [{"name": "paid", "tool": "pay"}]}), "goal_predicates[0]"),
        ] {
            assert_eq!(with(changes.clone()).check().map_err(|error| error.field), Err(field.to_owned()), "{changes}");
        }
    }
}
