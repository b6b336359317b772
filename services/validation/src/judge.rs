//! The judgement of one decision, as a pure function of the message and the configuration.

use std::collections::BTreeMap;

use chassis::registry::Registry;
use protocol::{
    AcceptedDecision, Decision, DecisionProposed, Finding, FindingCode, Judgement, ModelAnswer, ToolContract, ToolName,
    TurnReady,
};
use serde_json::Value;

use crate::schema::{Schema, SchemaProblems};
use crate::{DecisionLimits, answer, calls};

/// Judges decisions against one registry. Needs no store and keeps no state.
pub struct Judge {
    tools: BTreeMap<ToolName, KnownTool>,
    limits: DecisionLimits,
}

/// A tool of the registry, its argument schema compiled.
pub(crate) struct KnownTool {
    pub contract: ToolContract,
    pub arguments: Schema,
}

impl Judge {
    /// Compiles every tool's argument schema once. The error lists each tool whose schema does not compile.
    pub fn new(registry: &Registry, limits: DecisionLimits) -> Result<Self, SchemaProblems> {
        let mut problems = Vec::new();
        let mut tools = BTreeMap::new();
        for (i, tool) in registry.tools.tools.iter().enumerate() {
            match Schema::compile_arguments(&tool.arguments) {
                Ok(arguments) => {
                    tools.insert(tool.name.clone(), KnownTool { contract: tool.contract(), arguments });
                }
                Err(why) => {
                    let at = format!("tools.yaml: tools[{i}] ({}): arguments", tool.name);
                    problems.push(format!("{at}: is not a JSON Schema 2020-12 that can be used: {why}"));
                }
            }
        }
        match problems.is_empty() {
            true => Ok(Self { tools, limits }),
            false => Err(SchemaProblems(problems)),
        }
    }

    /// The judgement of an answer: every finding, not only the first, so that a repair can succeed (M13).
    pub fn judge(&self, proposed: &DecisionProposed) -> Judgement {
        let (body, evidence) = match &proposed.answer {
            ModelAnswer::Failed { message } => return Judgement::DecisionFailed { message: message.clone() },
            ModelAnswer::Proposed { body, evidence } => (body, evidence.clone()),
        };
        match self.decision(&proposed.turn, body) {
            Ok(decision) => Judgement::Accepted { decision, evidence },
            Err(findings) => Judgement::Rejected { findings: self.bounded(findings), evidence },
        }
    }

    fn decision(&self, turn: &TurnReady, body: &str) -> Result<AcceptedDecision, Vec<Finding>> {
        if let Some(finding) = no_decision(body) {
            return Err(vec![finding]);
        }
        match Decision::parse(body, self.limits.json)? {
            Decision::Final { answer } => {
                let findings = answer::findings(&answer, turn.output_schema.as_ref(), self.limits.findings);
                if findings.is_empty() { Ok(AcceptedDecision::Final { answer }) } else { Err(findings) }
            }
            Decision::ToolCalls { calls } => {
                let calls = calls::judge(turn, calls, &self.tools, &self.limits)?;
                Ok(AcceptedDecision::ToolCalls { calls })
            }
            Decision::CannotContinue { reason } if reason.len() > self.limits.reason_bytes => {
                let message = format!("{} bytes are more than the limit of {}", reason.len(), self.limits.reason_bytes);
                Err(vec![Finding::new(FindingCode::TooLarge, "reason", message)])
            }
            Decision::CannotContinue { reason } => Ok(AcceptedDecision::CannotContinue { reason }),
            Decision::RequestApproval { calls } => {
                let calls = calls::judge(turn, calls, &self.tools, &self.limits)?;
                Ok(AcceptedDecision::RequestApproval { calls })
            }
            Decision::Clarification { question } if question.len() > self.limits.reason_bytes => {
                let message =
                    format!("{} bytes are more than the limit of {}", question.len(), self.limits.reason_bytes);
                Err(vec![Finding::new(FindingCode::TooLarge, "question", message)])
            }
            Decision::Clarification { question } => Ok(AcceptedDecision::Clarification { question }),
        }
    }

    /// A verdict holds a bounded number of findings; what is left out is counted in the last one.
    fn bounded(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        let over = findings.len().saturating_sub(self.limits.findings);
        if over > 0 {
            findings.truncate(self.limits.findings);
            findings.push(Finding::new(FindingCode::TooLarge, "", format!("{over} more findings are left out")));
        }
        for finding in &mut findings {
            finding.path = crate::schema::bounded(&finding.path, MAX_PATH_BYTES);
        }
        findings
    }
}

/// The longest path of a finding, in bytes: an unknown field's name is the model's own text.
const MAX_PATH_BYTES: usize = 512;

/// What an adapter writes in place of a decision when the model gave none: an empty body, or `{"no_decision": why}` for
/// a refusal, an empty or a cut-off answer. It is repaired like any invalid decision.
fn no_decision(body: &str) -> Option<Finding> {
    let why = match body.trim() {
        "" => "empty".to_owned(),
        // No longer text can be this marker, so that no large body is parsed twice.
        text if text.len() > 64 => return None,
        text => match serde_json::from_str::<Value>(text).ok()? {
            Value::Object(object) if object.len() == 1 => object.get("no_decision")?.as_str()?.to_owned(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                return None;
            }
        },
    };
    let message = match why.as_str() {
        "refused" => "the answer was a refusal; answer with a decision, `cannot_continue` included",
        "empty" => "the answer was empty; answer with a decision",
        "cut_off" => "the answer was cut off at the length limit; answer with a shorter decision",
        _ => return None,
    };
    Some(Finding::new(FindingCode::NoDecision, "", message))
}
