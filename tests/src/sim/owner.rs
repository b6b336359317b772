//! The owning service and the read tools in memory. Its books say what was really applied; requests may be slow on the
//! wire, answers may be lost, and it enforces the Effect Key.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use protocol::{AttemptId, Digest, EffectKey, ErrorClass};
use reconciler::{OwnerQuery, OwnerReply, Question, Verb};
use serde_json::{Value, json};
use tool_executor::{Answered, ToolRequest, ToolTransport, Transported};

use super::World;

/// One business change, as its owner has it in its books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    pub sequence: u64,
    pub key: EffectKey,
    pub attempt_id: AttemptId,
    pub fingerprint: Option<Digest>,
    pub effect_id: String,
}

#[derive(Default)]
struct Books {
    applied: Vec<Application>,
    refused: BTreeSet<EffectKey>,
    /// Requests that are still on the wire, by when they arrive.
    in_flight: Vec<(u64, Application)>,
    calls: u64,
}

/// The owner. Clones share the books.
#[derive(Clone)]
pub struct SimOwner {
    world: World,
    books: Arc<Mutex<Books>>,
}

impl SimOwner {
    pub fn new(world: World) -> Self {
        Self { world, books: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.world.now_ms();
        let (arrived, later): (Vec<_>, Vec<_>) = books.in_flight.drain(..).partition(|(due, _)| *due <= now);
        books.in_flight = later;
        for (_, application) in arrived {
            apply(&mut books, application);
        }
        books
    }

    /// What was applied, in the order it was.
    pub fn applied(&self) -> Vec<Application> {
        self.lock().applied.clone()
    }

    pub fn refused(&self) -> BTreeSet<EffectKey> {
        self.lock().refused.clone()
    }

    /// A person looks the effect up, and makes sure that what is not there can never come.
    pub fn settle_by_hand(&self, key: &EffectKey) -> Option<String> {
        let mut books = self.lock();
        books.in_flight.retain(|(_, application)| &application.key != key);
        let found = books.applied.iter().find(|application| &application.key == key);
        let found = found.map(|application| application.effect_id.clone());
        if found.is_none() {
            books.refused.insert(key.clone());
        }
        found
    }

    async fn effect(&self, request: &ToolRequest<'_>, key: &EffectKey) -> Transported {
        let timeout = u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX);
        let faulty = self.world.faults().is_some();
        let fate = if faulty { self.world.below(20) } else { 0 };
        let application = || Application {
            sequence: self.world.next_sequence(),
            key: key.clone(),
            attempt_id: request.attempt_id,
            fingerprint: request.request_fingerprint,
            effect_id: format!("e-{}", self.world.next_sequence()),
        };
        let lost = Transported::Uncertain { class: ErrorClass::Timeout, why: "the answer was lost" };
        match fate {
            1 => return Transported::NothingSent { class: ErrorClass::Unavailable, why: "connection refused" },
            2 => {
                self.world.injected("request_lost");
                return lost;
            }
            3 => {
                // Slow on the wire: it arrives after the caller gave up, at the latest one timeout later.
                self.world.injected("request_late");
                let due = self.world.now_ms() + self.world.below(timeout);
                let application = application();
                self.lock().in_flight.push((due, application));
                return lost;
            }
            _ => {}
        }
        self.world.sleep(1 + self.world.below(timeout.min(50))).await;
        if request.arguments.get("refuse") == Some(&json!(true)) {
            let mut books = self.lock();
            let known = books.applied.iter().any(|application| &application.key == key);
            if !known {
                books.refused.insert(key.clone());
                return Transported::Answered(Answered::new(409, br#"{"status":"rejected"}"#.to_vec()));
            }
        }
        let application = application();
        let recorded = apply(&mut self.lock(), application);
        match (fate, recorded) {
            (4..=6, _) => {
                self.world.injected("answer_lost");
                lost
            }
            (_, Some(effect_id)) => {
                let body = json!({"effect_id": effect_id, "echo": request.arguments});
                Transported::Answered(Answered::new(200, body.to_string().into_bytes()))
            }
            (_, None) => Transported::Answered(Answered::new(409, br#"{"status":"rejected"}"#.to_vec())),
        }
    }

    async fn read(&self, request: &ToolRequest<'_>) -> Transported {
        let timeout = u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX);
        self.world.sleep(1 + self.world.below(timeout.min(60))).await;
        let faulty = self.world.faults().is_some();
        match if faulty { self.world.below(12) } else { 0 } {
            1 => Transported::NothingSent { class: ErrorClass::Unavailable, why: "connection refused" },
            2 => Transported::Answered(Answered::new(503, Vec::new())),
            3 => Transported::Answered(Answered::new(200, b"<html>".to_vec())),
            _ => {
                let mut books = self.lock();
                books.calls += 1;
                let body = json!({"echo": request.arguments, "n": books.calls});
                Transported::Answered(Answered::new(200, body.to_string().into_bytes()))
            }
        }
    }
}

/// Applies once per key; the owner's ID of the change, new or known. A refused key stays refused.
fn apply(books: &mut Books, application: Application) -> Option<String> {
    if books.refused.contains(&application.key) {
        return None;
    }
    let known = books.applied.iter().find(|known| known.key == application.key);
    if let Some(known) = known {
        return Some(known.effect_id.clone());
    }
    let id = application.effect_id.clone();
    books.applied.push(application);
    Some(id)
}

#[async_trait]
impl ToolTransport for SimOwner {
    async fn call(&self, request: &ToolRequest<'_>) -> Transported {
        match &request.idempotency_key {
            Some(key) => self.effect(request, key).await,
            None => self.read(request).await,
        }
    }
}

#[async_trait]
impl OwnerQuery for SimOwner {
    async fn ask(&self, question: &Question<'_>) -> OwnerReply {
        self.world.sleep(1 + self.world.below(10)).await;
        if self.world.faults().is_some() && self.world.chance(150) {
            return OwnerReply::TimedOut;
        }
        let mut books = self.lock();
        let is_applied = books.applied.iter().any(|application| &application.key == question.effect_key);
        if question.verb == Verb::Close && !is_applied && books.refused.insert(question.effect_key.clone()) {
            self.world.injected("key_closed");
            if books.in_flight.iter().any(|(_, application)| &application.key == question.effect_key) {
                self.world.injected("closed_before_arrival");
            }
        }
        let applied = books.applied.iter().find(|application| &application.key == question.effect_key);
        let (status, body): (u16, Value) = match applied {
            Some(application) => {
                (200, json!({"status": "committed", "effect_id": application.effect_id, "output": {"found": true}}))
            }
            None if books.refused.contains(question.effect_key) => {
                (200, json!({"status": "rejected", "reason": "not allowed"}))
            }
            None => (404, json!({})),
        };
        OwnerReply::Answered { status, body: body.to_string().into_bytes(), retry_after_ms: None }
    }
}
