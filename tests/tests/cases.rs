//! Situations in which systems that do this job have failed. Each test is named after what must happen here, and says in a
//! line what the situation is; the whole pipeline runs in one process, with virtual time.

#[path = "cases/approvals.rs"]
mod approvals;
#[path = "cases/controls.rs"]
mod controls;
#[path = "cases/crashes.rs"]
mod crashes;
#[path = "cases/effects.rs"]
mod effects;
#[path = "cases/models.rs"]
mod models;
#[allow(dead_code, reason = "each suite uses the part of the stage that it needs")]
#[path = "pipeline/stage.rs"]
mod stage;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use protocol::EffectKey;
use reconciler::{OwnerReply, Question};
use serde_json::{Value, json};
use tool_executor::ToolRequest;

use stage::owner_says;

/// An owner's books: what it has applied under which key, and how often.
#[derive(Clone, Default)]
struct Books(Arc<Mutex<BTreeMap<EffectKey, u32>>>);

impl Books {
    /// Applies a request, once per key, and answers it with its receipt.
    fn apply(&self, request: &ToolRequest<'_>) -> Value {
        let key = request.idempotency_key.clone().expect("an effect has a key");
        *self.0.lock().unwrap().entry(key.clone()).or_default() += 1;
        json!({"effect_id": key.as_str(), "ok": true})
    }

    /// What the owner says about a key.
    fn answer(&self, question: &Question<'_>) -> OwnerReply {
        match self.0.lock().unwrap().contains_key(question.effect_key) {
            true => owner_says(200, json!({"status": "committed", "effect_id": question.effect_key.as_str()})),
            false => owner_says(404, json!({})),
        }
    }

    /// How often each key's request came.
    fn requests(&self) -> Vec<u32> {
        self.0.lock().unwrap().values().copied().collect()
    }

    fn keys(&self) -> Vec<EffectKey> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

/// One refund, then an answer.
const REFUND: &str = r#"
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: x, tool_name: refund, arguments: {n: 7}}]}
      - {step: 2, decision: {kind: final, answer: done}}
"#;
