//! The judgement of one decision, as a pure function of the message and the configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use chassis::registry::Registry;
use protocol::{
    AcceptedDecision, AgentName, Decision, DecisionProposed, Finding, FindingCode, Judgement, ModelAnswer,
    ToolContract, ToolName, TurnReady, all_denied,
};
use serde_json::Value;

use crate::answer::AnswerCheck;
use crate::authorize::Gated;
use crate::policy::Policy;
use crate::schema::{Schema, SchemaProblems};
use crate::{DecisionLimits, answer, calls};

/// Judges decisions against one registry and one policy. Needs no store and keeps no state.
pub struct Judge {
    tools: BTreeMap<ToolName, KnownTool>,
    /// The validators of each agent's final answers.
    answers: BTreeMap<AgentName, Vec<AnswerCheck>>,
    policy: Arc<Policy>,
    limits: DecisionLimits,
}

/// A tool of the registry, its argument schema compiled.
pub(crate) struct KnownTool {
    pub contract: ToolContract,
    pub arguments: Schema,
}

impl Judge {
    /// Compiles every tool's argument schema and every agent's validators once. The error lists all that cannot be used.
    pub fn new(registry: &Registry, policy: Arc<Policy>, limits: DecisionLimits) -> Result<Self, SchemaProblems> {
        let mut problems = Vec::new();
        let mut tools = BTreeMap::new();
        for (i, tool) in registry.tools.tools.iter().enumerate() {
            if Policy::names_a_class(&tool.name) {
                let why = "policies know all reads and all effects by this name; choose another";
                problems.push(format!("tools.yaml: tools[{i}] ({}): name: {why}", tool.name));
            }
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
        let mut answers = BTreeMap::new();
        for (i, agent) in registry.agents.agents.iter().enumerate() {
            let checks = agent.validators.iter().enumerate().filter_map(|(n, rule)| {
                let at = || format!("agents.yaml: agents[{i}] ({}): validators[{n}].pattern", agent.name);
                AnswerCheck::compile(rule).map_err(|why| problems.push(format!("{}: {why}", at()))).ok()
            });
            answers.insert(agent.name.clone(), checks.collect());
        }
        match problems.is_empty() {
            true => Ok(Self { tools, answers, policy, limits }),
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
            Ok((decision, gates)) if gates.is_empty() => Judgement::Accepted { decision, evidence },
            Ok((decision, gates)) => Judgement::ApprovalRequired {
                decision,
                four_eyes: gates.iter().any(|gated| gated.approval.four_eyes),
                ttl_ms: gates.iter().filter_map(|gated| gated.approval.ttl_ms).min(),
                reasons: gates.into_iter().map(Gated::into_reason).collect(),
                evidence,
            },
            Err(findings) => Judgement::Rejected { findings: self.bounded(findings), evidence },
        }
    }

    /// What a tool's schema says against arguments; nothing for a tool that is not declared.
    pub fn argument_findings(&self, tool: &ToolName, arguments: &Value) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(known) = self.tools.get(tool) {
            let (code, most) = (FindingCode::InvalidArguments, self.limits.findings);
            known.arguments.judge(arguments, code, "arguments", most, &mut findings);
        }
        findings
    }

    /// The decision, and the gates that apply to its calls.
    fn decision(&self, turn: &TurnReady, body: &str) -> Result<(AcceptedDecision, Vec<Gated>), Vec<Finding>> {
        if let Some(finding) = no_decision(body) {
            return Err(vec![finding]);
        }
        let calls = |calls| calls::judge(turn, calls, &self.tools, &self.policy, &self.limits);
        let decision = match Decision::parse(body, self.limits.json)? {
            Decision::ToolCalls { calls: proposed } => {
                let (calls, gates) = calls(proposed)?;
                return Ok((AcceptedDecision::ToolCalls { calls }, gates));
            }
            // What the model asks approval for is judged like any call: a denial stays one.
            Decision::RequestApproval { calls: proposed } => {
                let (calls, gates) = calls(proposed)?;
                return Ok((AcceptedDecision::RequestApproval { calls }, gates));
            }
            Decision::Final { answer } => {
                let Some(checks) = self.answers.get(&turn.agent) else {
                    // Its validators are not known here, so nothing can be said to have passed them.
                    let message = format!("the agent `{}` is not declared any more", turn.agent);
                    return Err(vec![Finding::new(FindingCode::InvalidAnswer, "", message)]);
                };
                let schema = turn.output_schema.as_ref();
                let findings = answer::findings(&answer, schema, checks, self.limits.findings);
                if findings.is_empty() { Ok(AcceptedDecision::Final { answer }) } else { Err(findings) }
            }
            Decision::CannotContinue { reason } if reason.len() > self.limits.reason_bytes => {
                let message = format!("{} bytes are more than the limit of {}", reason.len(), self.limits.reason_bytes);
                Err(vec![Finding::new(FindingCode::TooLarge, "reason", message)])
            }
            Decision::CannotContinue { reason } => Ok(AcceptedDecision::CannotContinue { reason }),
            Decision::Clarification { question } if question.len() > self.limits.reason_bytes => {
                let message =
                    format!("{} bytes are more than the limit of {}", question.len(), self.limits.reason_bytes);
                Err(vec![Finding::new(FindingCode::TooLarge, "question", message)])
            }
            Decision::Clarification { question } => Ok(AcceptedDecision::Clarification { question }),
        };
        decision.map(|decision| (decision, Vec::new()))
    }

    /// A verdict holds a bounded number of findings; what is left out is counted in the last one.
    fn bounded(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        let over = findings.len().saturating_sub(self.limits.findings);
        if over > 0 {
            // Many denials are still nothing but denials.
            let code = if all_denied(&findings) { FindingCode::Unauthorized } else { FindingCode::TooLarge };
            findings.truncate(self.limits.findings);
            findings.push(Finding::new(code, "", format!("{over} more findings are left out")));
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
