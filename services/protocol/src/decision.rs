//! The closed decision union (M2): what a model may propose, and how untrusted text becomes one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{JsonError, JsonLimits, ToolContract, ToolName, parse_bounded};

/// The version of the union this build speaks.
pub const DECISION_SCHEMA_VERSION: u64 = 1;

/// A typed decision, parsed but not yet judged.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Final { answer: Value },
    ToolCalls { calls: Vec<ProposedCall> },
    RequestApproval { calls: Vec<ProposedCall> },
    Clarification { question: String },
    CannotContinue { reason: String },
}

/// One call as the model proposed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedCall {
    /// The provider's own ID, kept beside our Call ID.
    pub provider_call_id: String,
    pub tool: ToolName,
    pub arguments: Value,
}

/// A decision that validation has accepted; the calls carry their tools' contracts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum AcceptedDecision {
    Final {
        answer: Value,
    },
    ToolCalls {
        calls: Vec<AcceptedCall>,
    },
    /// Validated like `tool_calls`; runs only if a person approves exactly these calls.
    RequestApproval {
        calls: Vec<AcceptedCall>,
    },
    Clarification {
        question: String,
    },
    CannotContinue {
        reason: String,
    },
}

impl AcceptedDecision {
    /// The calls it proposes.
    pub fn calls(&self) -> &[AcceptedCall] {
        match self {
            Self::ToolCalls { calls } | Self::RequestApproval { calls } => calls,
            Self::Final { .. } | Self::Clarification { .. } | Self::CannotContinue { .. } => &[],
        }
    }
}

/// A call that passed validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedCall {
    pub call: ProposedCall,
    pub contract: ToolContract,
}

/// What is wrong with a decision. Closed; the wire and the metrics use these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingCode {
    Malformed,
    UnknownKind,
    UnknownField,
    UnknownVersion,
    Unsupported,
    EmptyBatch,
    TooManyCalls,
    MissingCallId,
    DuplicateCallId,
    UnknownTool,
    ToolNotAllowed,
    InvalidArguments,
    TooLarge,
    TooDeep,
    Unauthorized,
    BudgetExceeded,
    InvalidAnswer,
    PlanRefused,
    NoProgress,
    /// The provider's answer was a refusal, empty or cut off.
    NoDecision,
}

/// One finding of validation: where, and what to do about it. Shown to the model for the repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub code: FindingCode,
    /// Path in the decision, such as `calls[1].arguments.order_id`.
    pub path: String,
    pub message: String,
}

impl Finding {
    pub fn new(code: FindingCode, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: message.into() }
    }
}

impl Decision {
    /// Parses the text of a decision: `{"schema_version": 1, "kind": …, …}`. Unknown kinds and unknown fields are
    /// refused; every finding is reported, not only the first.
    pub fn parse(text: &str, limits: JsonLimits) -> Result<Decision, Vec<Finding>> {
        let value = parse_bounded(text.as_bytes(), limits).map_err(|error| vec![json_finding(&error)])?;
        let Value::Object(mut object) = value else {
            return Err(vec![Finding::new(FindingCode::Malformed, "", "a decision is a JSON object")]);
        };
        let mut findings = Vec::new();
        match object.remove("schema_version") {
            Some(Value::Number(n)) if n.as_u64() == Some(DECISION_SCHEMA_VERSION) => {}
            _ => findings.push(Finding::new(
                FindingCode::UnknownVersion,
                "schema_version",
                format!("must be {DECISION_SCHEMA_VERSION}"),
            )),
        }
        let kind = match object.remove("kind") {
            Some(Value::String(kind)) => kind,
            _ => String::new(),
        };
        let mut fields = Fields { object, findings: &mut findings };
        let decision = match kind.as_str() {
            "final" => fields.required("answer").map(|answer| Decision::Final { answer }),
            "tool_calls" => fields.calls().map(|calls| Decision::ToolCalls { calls }),
            "request_approval" => fields.calls().map(|calls| Decision::RequestApproval { calls }),
            "clarification" => fields.text("question").map(|question| Decision::Clarification { question }),
            "cannot_continue" => fields.text("reason").map(|reason| Decision::CannotContinue { reason }),
            _ => {
                let kinds = "one of final, tool_calls, request_approval, clarification, cannot_continue";
                fields.findings.push(Finding::new(FindingCode::UnknownKind, "kind", format!("must be {kinds}")));
                return Err(findings);
            }
        };
        fields.no_more("");
        match decision {
            Some(decision) if findings.is_empty() => Ok(decision),
            _ => Err(findings),
        }
    }
}

fn json_finding(error: &JsonError) -> Finding {
    let code = match error {
        JsonError::Oversize { .. } | JsonError::TooManyNodes(_) => FindingCode::TooLarge,
        JsonError::TooDeep(_) => FindingCode::TooDeep,
        JsonError::DuplicateKey(_) | JsonError::InexactInteger { .. } | JsonError::Malformed(_) => {
            FindingCode::Malformed
        }
    };
    Finding::new(code, "", error.to_string())
}

/// Takes fields out of an object and notes what is missing, of the wrong type or left over.
struct Fields<'f> {
    object: Map<String, Value>,
    findings: &'f mut Vec<Finding>,
}

impl Fields<'_> {
    fn required(&mut self, name: &str) -> Option<Value> {
        let value = self.object.remove(name).filter(|value| !value.is_null());
        if value.is_none() {
            self.findings.push(Finding::new(FindingCode::Malformed, name, "is required"));
        }
        value
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.required(name)? {
            Value::String(text) if !text.trim().is_empty() => Some(text),
            _ => {
                self.findings.push(Finding::new(FindingCode::Malformed, name, "must be a text that is not empty"));
                None
            }
        }
    }

    fn calls(&mut self) -> Option<Vec<ProposedCall>> {
        let Value::Array(list) = self.required("calls")? else {
            self.findings.push(Finding::new(FindingCode::Malformed, "calls", "must be a list"));
            return None;
        };
        if list.is_empty() {
            self.findings.push(Finding::new(FindingCode::EmptyBatch, "calls", "must hold at least one call"));
        }
        let calls: Vec<_> = list.into_iter().enumerate().map(|(i, call)| self.call(i, call)).collect();
        calls.into_iter().collect()
    }

    fn call(&mut self, ordinal: usize, value: Value) -> Option<ProposedCall> {
        let at = |field: &str| format!("calls[{ordinal}].{field}");
        let Value::Object(object) = value else {
            let path = format!("calls[{ordinal}]");
            self.findings.push(Finding::new(FindingCode::Malformed, path, "a call is an object"));
            return None;
        };
        let mut fields = Fields { object, findings: self.findings };
        let provider_call_id = match fields.object.remove("call_id") {
            Some(Value::String(id)) if !id.is_empty() => Some(id),
            _ => {
                fields.findings.push(Finding::new(FindingCode::MissingCallId, at("call_id"), "every call needs an ID"));
                None
            }
        };
        let tool = match fields.object.remove("tool_name") {
            Some(Value::String(name)) => Some(ToolName(name)),
            _ => {
                fields.findings.push(Finding::new(FindingCode::Malformed, at("tool_name"), "must name a tool"));
                None
            }
        };
        let arguments = match fields.object.remove("arguments") {
            Some(Value::Object(arguments)) => Some(Value::Object(arguments)),
            _ => {
                fields.findings.push(Finding::new(FindingCode::Malformed, at("arguments"), "must be an object"));
                None
            }
        };
        fields.no_more(&format!("calls[{ordinal}]."));
        Some(ProposedCall { provider_call_id: provider_call_id?, tool: tool?, arguments: arguments? })
    }

    fn no_more(&mut self, prefix: &str) {
        for name in self.object.keys() {
            let path = format!("{prefix}{name}");
            self.findings.push(Finding::new(FindingCode::UnknownField, path, "is not a field of this decision"));
        }
    }
}

/// Whether every finding is a denial: then a failed repair ends `permission_denied` rather than `invalid_decision`.
pub fn all_denied(findings: &[Finding]) -> bool {
    !findings.is_empty() && findings.iter().all(|finding| finding.code == FindingCode::Unauthorized)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: Value) -> Result<Decision, Vec<FindingCode>> {
        let parsed = Decision::parse(&value.to_string(), JsonLimits::default());
        parsed.map_err(|findings| findings.into_iter().map(|finding| finding.code).collect())
    }

    #[test]
    fn each_kind_of_the_union_parses() {
        let call = json!({"call_id": "c1", "tool_name": "lookup", "arguments": {"q": 1}});
        for body in [
            json!({"schema_version": 1, "kind": "final", "answer": {"a": 1}}),
            json!({"schema_version": 1, "kind": "tool_calls", "calls": [call]}),
            json!({"schema_version": 1, "kind": "request_approval", "calls": [call]}),
            json!({"schema_version": 1, "kind": "clarification", "question": "which order?"}),
            json!({"schema_version": 1, "kind": "cannot_continue", "reason": "no data"}),
        ] {
            assert!(parse(body.clone()).is_ok(), "{body}");
        }
    }

    #[test]
    fn unknown_kind_field_version_empty_batch_and_missing_id_are_each_found() {
        use FindingCode::*;
        assert_eq!(parse(json!({"schema_version": 1, "kind": "dance"})), Err(vec![UnknownKind]));
        assert_eq!(parse(json!({"schema_version": 1, "kind": "final", "answer": 1, "x": 2})), Err(vec![UnknownField]));
        assert_eq!(parse(json!({"schema_version": 9, "kind": "final", "answer": 1})), Err(vec![UnknownVersion]));
        assert_eq!(parse(json!({"schema_version": 1, "kind": "tool_calls", "calls": []})), Err(vec![EmptyBatch]));
        let calls = json!([{"tool_name": "a", "arguments": "no", "extra": 1}, {"call_id": "", "arguments": {}}]);
        let body = json!({"schema_version": 1, "kind": "tool_calls", "calls": calls});
        assert_eq!(parse(body), Err(vec![MissingCallId, Malformed, UnknownField, MissingCallId, Malformed]));
        assert_eq!(parse(json!([1])), Err(vec![Malformed]));
    }

    #[test]
    fn a_question_and_a_reason_are_texts_with_something_in_them() {
        for (kind, field) in [("clarification", "question"), ("cannot_continue", "reason")] {
            for nothing in [json!(""), json!(" \n"), json!(7), Value::Null] {
                let body = json!({"schema_version": 1, "kind": kind, field: nothing});
                assert_eq!(parse(body), Err(vec![FindingCode::Malformed]), "{kind}: {nothing}");
            }
        }
    }
}
