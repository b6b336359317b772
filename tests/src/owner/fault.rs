//! What can be wrong with an owner.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One way to misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Applies the change and closes the connection without an answer.
    CommitThenDrop,
    /// Neither applies nor answers.
    Hang,
    #[serde(rename = "error_500_before")]
    Error500Before,
    #[serde(rename = "error_500_after")]
    Error500After,
    /// Applies the change and answers 200 with a body that is no JSON.
    #[serde(rename = "garbage_200")]
    Garbage200,
    /// Answers 202; the change is applied by the second question for its key.
    Accepted,
}

/// A fault and a delay, for every request, or for the next `times`. A request's own `fault` and `slow_ms` fields win.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    pub fault: Option<Fault>,
    /// Waited before anything is applied.
    pub slow_ms: u64,
    /// Without end, when absent.
    pub times: Option<u64>,
}

impl Faults {
    /// One fault, for every request.
    pub fn always(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// What a request asks for by its own fields, if it does.
    pub(super) fn of_request(body: &Value) -> Option<Self> {
        let fault = body.get("fault").and_then(|fault| serde_json::from_value(fault.clone()).ok());
        let slow_ms = body.get("slow_ms").and_then(Value::as_u64);
        let is_asked = fault.is_some() || slow_ms.is_some();
        is_asked.then(|| Self { fault, slow_ms: slow_ms.unwrap_or(0), times: None })
    }

    /// What is wrong with the next request.
    pub(super) fn take(&mut self) -> Self {
        match &mut self.times {
            Some(0) => return Self::default(),
            Some(times) => *times -= 1,
            None => {}
        }
        self.clone()
    }
}
