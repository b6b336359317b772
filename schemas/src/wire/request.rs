//! `invocations` and `controls`: what people and programs outside send. Every field is as raw as it came, so that what
//! is wrong with it can be said by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::scalars::{Json, Time};
use super::symbols::{ControlKind, ErrorClass, ResolvedOutcome};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InvocationRequested {
    pub invocation_id: Option<String>,
    pub tenant: String,
    pub actor: String,
    pub task_type: String,
    pub agent: String,
    pub goal: Json,
    pub tools: Option<Vec<String>>,
    pub budget: BudgetRequested,
    pub deadline: Option<Time>,
    pub output_schema: Option<Json>,
    pub goal_predicates: Vec<GoalPredicate>,
    pub labels: BTreeMap<String, String>,
    pub requested_at: Option<Time>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BudgetRequested {
    pub max_steps: Option<i64>,
    pub max_tool_calls: Option<i64>,
    pub max_tokens: Option<i64>,
    pub max_cost_micros: Option<i64>,
    pub max_repeated_plan: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalPredicate {
    pub name: String,
    pub tool: String,
    pub pointer: String,
    pub equals: Option<Json>,
    pub exists: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlRequested {
    pub invocation_id: Option<String>,
    pub tenant: String,
    pub kind: ControlKind,
    pub actor: String,
    pub reason: Option<String>,
    pub proposal_digest: Option<String>,
    pub answer: Option<Json>,
    pub step: Option<i64>,
    pub effect_key: Option<String>,
    pub outcome: Option<ResolvedOutcome>,
    pub effect_id: Option<String>,
    pub body_digest: Option<String>,
    pub output: Option<Json>,
    pub error_class: Option<ErrorClass>,
    pub message: Option<String>,
    pub evidence: Option<String>,
}
