//! The bounded context a model is asked on (M1, stage 2): a function of committed events and configuration, so that every
//! replica and every redelivery builds the same one.

use chassis::registry::{Agent, Registry};
use protocol::{
    AcceptedCall, AcceptedDecision, CallResult, Digest, EffectStatus, ErrorClass, Event, Fact, Finding, GoalPredicate,
    Round, Step, ToolName, TurnCommitted, TurnReady, TurnResult, canonical_digest,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a model is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The profile's system prompt.
    pub system: String,
    pub goal: Value,
    /// What the run may use.
    pub tools: Vec<OfferedTool>,
    /// JSON Schema of the final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What must be seen to hold before the final answer is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goal_predicates: Vec<GoalPredicate>,
    /// The marker of what is missing: so many of the oldest turns did not fit.
    pub omitted_turns: u32,
    /// Finished turns, oldest first.
    pub turns: Vec<PastTurn>,
    /// What was wrong with the rejected decision of this step; for its repair.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    pub name: ToolName,
    pub description: String,
    /// JSON Schema 2020-12 of the arguments.
    pub arguments: Value,
}

/// A finished turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastTurn {
    pub step: Step,
    /// The decision, in the union's JSON form.
    pub decision: Value,
    /// In the proposal's order (M9).
    pub results: Vec<PastResult>,
    /// A person's answer to the turn's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// One call's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastResult {
    /// The provider's own call ID, as it stands in the decision.
    pub call_id: String,
    pub tool_name: ToolName,
    pub outcome: PastOutcome,
    /// Absent for a read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_status: Option<EffectStatus>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PastOutcome {
    Output(Value),
    Error {
        class: ErrorClass,
        message: String,
    },
    /// There was an output of so many bytes, and no room for it.
    OmittedOutput {
        bytes: usize,
    },
}

impl Context {
    /// The context of a turn over its history, at most `most` bytes of JSON as far as turns can help it: the
    /// newest turns are kept. Of the newest one, outputs are left out from the largest down until it fits; system prompt,
    /// goal, tools and findings are always whole. An error says what the history lacks.
    pub(crate) fn build(
        turn: &TurnReady,
        agent: &Agent,
        registry: &Registry,
        events: &[Event],
        most: usize,
    ) -> Result<Self, String> {
        let Some(Fact::Admitted(admitted)) = events.first().map(|event| &event.fact) else {
            return Err("the history does not start with its admission".to_owned());
        };
        let tools = turn.tools.iter().filter_map(|name| registry.tool(name)).map(|tool| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            arguments: tool.arguments.clone(),
        });
        let mut context = Self {
            system: agent.system.clone(),
            goal: admitted.request.goal.clone(),
            tools: tools.collect(),
            output_schema: turn.output_schema.clone(),
            goal_predicates: admitted.request.goal_predicates.clone(),
            omitted_turns: 0,
            turns: Vec::new(),
            findings: findings(turn, events),
        };
        let room = most.saturating_sub(size(&context));
        context.take_newest(events, room);
        Ok(context)
    }

    fn take_newest(&mut self, events: &[Event], mut room: usize) {
        let finished = events.iter().rev().filter_map(|event| match &event.fact {
            Fact::TurnCommitted(committed) => Some((event.step, committed)),
            _ => None,
        });
        for (step, committed) in finished {
            let mut past = past_turn(step, committed, events);
            if self.turns.is_empty() {
                past.shrink_to(room);
            }
            let bytes = size(&past);
            if self.omitted_turns > 0 || (bytes > room && !self.turns.is_empty()) {
                self.omitted_turns += 1;
                continue;
            }
            room = room.saturating_sub(bytes);
            self.turns.push(past);
        }
        self.turns.reverse();
    }

    pub(crate) fn digest(&self) -> Digest {
        canonical_digest("context", &value(self))
    }
}

impl PastTurn {
    fn shrink_to(&mut self, room: usize) {
        while size(self) > room {
            let outputs = self.results.iter_mut().filter_map(|result| match &result.outcome {
                PastOutcome::Output(output) => Some((size(output), result)),
                PastOutcome::Error { .. } | PastOutcome::OmittedOutput { .. } => None,
            });
            // The first of equally large ones, so that the choice never depends on chance.
            let largest = outputs.reduce(|best, next| if next.0 > best.0 { next } else { best });
            let Some((bytes, result)) = largest else {
                return;
            };
            result.outcome = PastOutcome::OmittedOutput { bytes };
        }
    }
}

/// The findings a repair has to mend.
fn findings(turn: &TurnReady, events: &[Event]) -> Vec<Finding> {
    if turn.scope.round == Round(0) {
        return Vec::new();
    }
    let rejected = events.iter().rev().find_map(|event| match &event.fact {
        Fact::DecisionRejected { findings, .. } if event.step == turn.scope.step => Some(findings.clone()),
        _ => None,
    });
    rejected.unwrap_or_default()
}

/// The answer to the question of a step.
fn answer_of(step: Step, events: &[Event]) -> Option<Value> {
    events.iter().rev().find_map(|event| match &event.fact {
        Fact::ClarificationGiven { answer, .. } if event.step == step => Some(answer.clone()),
        _ => None,
    })
}

fn past_turn(step: Step, committed: &TurnCommitted, events: &[Event]) -> PastTurn {
    let mut answer = None;
    let decision = match &committed.decision {
        AcceptedDecision::Final { answer } => json!({"kind": "final", "answer": answer}),
        AcceptedDecision::CannotContinue { reason } => json!({"kind": "cannot_continue", "reason": reason}),
        AcceptedDecision::ToolCalls { calls } => json!({"kind": "tool_calls", "calls": past_calls(calls)}),
        AcceptedDecision::RequestApproval { calls } => {
            json!({"kind": "request_approval", "calls": past_calls(calls)})
        }
        AcceptedDecision::Clarification { question } => {
            answer = answer_of(step, events);
            json!({"kind": "clarification", "question": question})
        }
    };
    PastTurn { step, decision, results: committed.results.iter().map(past_result).collect(), answer }
}

fn past_calls(calls: &[AcceptedCall]) -> Vec<Value> {
    let calls = calls.iter().map(|accepted| {
        let call = &accepted.call;
        json!({"call_id": call.provider_call_id, "tool_name": call.tool, "arguments": call.arguments})
    });
    calls.collect()
}

fn past_result(result: &TurnResult) -> PastResult {
    let outcome = match &result.outcome.result {
        CallResult::Output(output) => PastOutcome::Output(output.clone()),
        CallResult::Error(error) => PastOutcome::Error { class: error.class, message: error.message.clone() },
    };
    PastResult {
        call_id: result.provider_call_id.clone(),
        tool_name: result.tool.clone(),
        outcome,
        effect_status: result.outcome.effect_status,
    }
}

fn value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).expect("a context is always JSON")
}

/// Bytes as compact JSON; only the digest needs the canonical form.
fn size(part: &impl Serialize) -> usize {
    let mut bytes = Bytes(0);
    serde_json::to_writer(&mut bytes, part).expect("a context is always JSON");
    bytes.0
}

/// Counts what is written.
struct Bytes(usize);

impl std::io::Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
