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
