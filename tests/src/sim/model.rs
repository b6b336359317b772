//! A model by chance: it answers differently every time it is asked, so that only the journal and the version check can
//! make a turn's decision one decision.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use decision::{ModelProvider, ModelReply, ModelRequest, PastOutcome, ProviderError, Said};
use protocol::Usage;
use serde_json::{Value, json};

use super::World;
use crate::checker::ModelRequested;

/// The model. Clones share the request journal.
#[derive(Clone)]
pub struct SimModel {
    world: World,
    journal: Arc<Mutex<Vec<ModelRequested>>>,
}

impl SimModel {
    pub fn new(world: World) -> Self {
        Self { world, journal: Arc::default() }
    }

    pub fn journal(&self) -> Vec<ModelRequested> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn call(&self, n: u64) -> Value {
        let order = self.world.below(2);
        let (tool, arguments) = match self.world.below(8) {
            0..=2 => ("lookup", json!({"q": self.world.below(100)})),
            3 => ("read_order", json!({"order": order})),
            4 => ("refund", json!({"order": order, "amount": 1})),
            5 => ("credit", json!({"order": order, "amount": 1})),
            6 => ("refund", json!({"order": 7, "amount": 1, "refuse": true})),
            _ => ("wire", json!({"to": order})),
        };
        json!({"call_id": format!("c{n}"), "tool_name": tool, "arguments": arguments})
    }

    fn decision(&self, step: u32) -> String {
        let last = step > 3 || self.world.below(4) == 0;
        let body = match self.world.below(24) {
            0 => json!({"schema_version": 1, "kind": "cannot_continue", "reason": "stuck"}),
            1 => json!({"schema_version": 1, "kind": "dance"}),
            2 | 3 => json!({"schema_version": 1, "kind": "clarification", "question": "which?"}),
            _ if last => json!({"schema_version": 1, "kind": "final", "answer": step}),
            _ => {
                let calls: Vec<Value> = (0..=self.world.below(3)).map(|n| self.call(n)).collect();
                let kind = if self.world.below(5) == 0 { "request_approval" } else { "tool_calls" };
                json!({"schema_version": 1, "kind": kind, "calls": calls})
            }
        };
        body.to_string()
    }
}

#[async_trait]
impl ModelProvider for SimModel {
    async fn decide(&self, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
        let turns =
            request.context.turns.iter().map(|turn| {
                turn.results.iter().map(|result| (result.call_id.clone(), shown(&result.outcome))).collect()
            });
        let requested = ModelRequested {
            sequence: self.world.next_sequence(),
            invocation_id: request.invocation_id,
            step: request.step.0,
            turns: turns.collect(),
        };
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).push(requested);
        self.world.sleep(1 + self.world.below(80)).await;
        if self.world.faults().is_some() && self.world.chance(40) {
            self.world.injected("model_error");
            return Err(ProviderError::transient("overloaded"));
        }
        Ok(ModelReply {
            said: Said::Decision(self.decision(request.step.0)),
            response_id: format!("r-{}", self.world.next_sequence()),
            model: "chance".to_owned(),
            usage: Usage { input_tokens: 10, output_tokens: 5, cost_micros: 1 },
        })
    }
}

/// What a result shows, in the checker's form.
fn shown(outcome: &PastOutcome) -> Value {
    match outcome {
        PastOutcome::Output(output) => output.clone(),
        PastOutcome::Error { class, .. } => json!({ "error": class }),
        PastOutcome::OmittedOutput { bytes } => json!({ "omitted": bytes }),
    }
}
