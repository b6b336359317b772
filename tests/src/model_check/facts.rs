//! What the committed events alone say of the invariants. It reads facts and runs no code of `handle` or `apply`; what it
//! remembers is a part of the state's identity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::{
    Actor, AttemptId, Budget, CallId, CallResult, Digest, DispatchedEffect, EffectKey, Event, Fact, Message,
    ModelEvidence, Outgoing, Plan, Resolution, Round, Segment, Step, Timestamp, Version,
};
use serde::Serialize;

use super::invariants::{Broken, Invariant};

/// A fold over the events and what the outbox was given because of them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Facts {
    stopped: bool,
    ended: bool,
    finals: u32,
    segments: BTreeSet<Segment>,
    /// Granted claims.
    claims: BTreeSet<AttemptId>,
    unknown: BTreeSet<EffectKey>,
    effects: BTreeMap<CallId, (EffectKey, String)>,
    turns: u32,
    dispatched: u32,
    tokens: u64,
    cost_micros: u64,
    /// The usage of the turn at hand is in.
    is_counted: bool,
    waiting: Option<Waiting>,
    /// Turns whose proposal was granted.
    granted: BTreeSet<(Step, Round)>,
    #[serde(skip)]
    plan: Option<Arc<Plan>>,
    #[serde(skip)]
    budget: Option<Budget>,
    #[serde(skip)]
    deadline: Option<Timestamp>,
    #[serde(skip)]
    actor: Option<Actor>,
}

/// A proposal that waits for its approval.
#[derive(Debug, Clone, Serialize)]
struct Waiting {
    turn: (Step, Round),
    four_eyes: bool,
    #[serde(skip)]
    digest: Digest,
    #[serde(skip)]
    expires_at: Timestamp,
    is_granted: bool,
}

impl Facts {
    /// Takes one commit: the events before it, its own, and its messages. What it finds broken is added.
    pub fn take(&mut self, log: &[Arc<Event>], events: &[Event], messages: &[Outgoing], broken: &mut Broken) {
        let mut last = log.last().map(|event| (event.version, event.hash)).unwrap_or_default();
        for event in events {
            if event.version != Version(last.0.0 + 1) || event.previous != last.1 || !event.is_authentic() {
                broken.add(Invariant::I5);
            }
            last = (event.version, event.hash);
            if self.ended && !is_of_the_ledger(&event.fact) {
                broken.add(Invariant::I4);
            }
            self.fact(event, broken);
        }
        let known = |version: Version| {
            let before = usize::try_from(version.0).ok().and_then(|n| n.checked_sub(1));
            let before = before.and_then(|n| log.get(n)).map(Arc::as_ref);
            before.or_else(|| events.iter().find(|event| event.version == version))
        };
        for outgoing in messages {
            self.message(&outgoing.message, known, broken);
        }
    }

    /// Whether that attempt was granted.
    pub fn is_claimed(&self, attempt: AttemptId) -> bool {
        self.claims.contains(&attempt)
    }

    fn fact(&mut self, event: &Event, broken: &mut Broken) {
        match &event.fact {
            Fact::Admitted(admitted) => {
                self.budget = Some(admitted.budget);
                self.deadline = admitted.request.deadline;
                self.actor = Some(admitted.request.actor.clone());
            }
            Fact::TurnPlanned(planned) => {
                if let Some(waiting) = self.waiting.take() {
                    let is_what_was_granted = waiting.is_granted
                        && waiting.digest == planned.proposal_digest
                        && self.plan.as_deref() == Some(&planned.plan);
                    if !is_what_was_granted {
                        broken.add(Invariant::I13);
                    }
                }
                self.plan = Some(Arc::new(planned.plan.clone()));
                self.count(&planned.evidence);
            }
            Fact::ApprovalRequested(requested) => {
                self.waiting = Some(Waiting {
                    turn: (event.step, requested.round),
                    four_eyes: requested.four_eyes,
                    digest: requested.proposal_digest,
                    expires_at: requested.expires_at,
                    is_granted: false,
                });
                self.plan = Some(Arc::new(requested.plan.clone()));
                self.count(&requested.evidence);
            }
            Fact::ApprovalGranted { proposal_digest, actor } => {
                let own = self.actor.as_ref() == Some(actor);
                let is_good = self.waiting.as_mut().is_some_and(|waiting| {
                    waiting.is_granted = true;
                    waiting.digest == *proposal_digest && event.at < waiting.expires_at && !(waiting.four_eyes && own)
                });
                let turn = self.waiting.as_ref().map(|waiting| waiting.turn);
                if !is_good || !turn.is_some_and(|turn| self.granted.insert(turn)) {
                    broken.add(Invariant::I13);
                }
            }
            Fact::ApprovalRefused { proposal_digest, .. } => {
                let waited = self.waiting.take();
                if waited.is_none_or(|waiting| waiting.digest != *proposal_digest || waiting.is_granted) {
                    broken.add(Invariant::I13);
                }
            }
            Fact::ClarificationRequested { evidence, .. } => self.count(evidence),
            Fact::DecisionRejected { evidence, .. } => self.pay(evidence),
            Fact::WaveReleased { calls, .. } => self.release(calls.len(), broken),
            Fact::CallReleased { .. } => self.release(1, broken),
            Fact::CallClaimed { attempt_id, effect_key, .. } => {
                if self.stopped {
                    broken.add(Invariant::I7);
                }
                if self.unknown.contains(effect_key) || !self.claims.insert(*attempt_id) {
                    broken.add(Invariant::I8);
                }
                if self.deadline.is_some_and(|deadline| event.at >= deadline) {
                    broken.add(Invariant::I12);
                }
            }
            Fact::EffectUnknown { effect_key, .. } => {
                self.unknown.insert(effect_key.clone());
            }
            Fact::EffectResolved { effect_key, resolution: Resolution::NotApplied, .. }
            | Fact::EffectSettledLate { effect_key, .. } => {
                self.unknown.remove(effect_key);
            }
            Fact::TurnCommitted(turn) => {
                self.turns += 1;
                self.count(&turn.evidence);
                self.is_counted = false;
                if !self.belongs(turn) {
                    broken.add(Invariant::I6);
                }
                if self.budget.is_some_and(|budget| self.turns > budget.max_steps) {
                    broken.add(Invariant::I12);
                }
            }
            Fact::CancelRequested { .. } => self.stopped = true,
            Fact::Ended { .. } => {
                if self.ended {
                    broken.add(Invariant::I4);
                }
                (self.stopped, self.ended) = (true, true);
            }
            Fact::CallSettled { call_id, by, .. } => {
                let key = self.plan.as_ref().and_then(|plan| {
                    let call = plan.calls.iter().find(|call| call.call_id == *call_id)?;
                    Some(call.effect.as_ref()?.key.clone())
                });
                if let (Some(key), Some(_)) = (key, by) {
                    self.unknown.remove(&key);
                }
            }
            Fact::AttemptFailed { .. }
            | Fact::ProbeRequested { .. }
            | Fact::EffectResolved { .. }
            | Fact::EffectConflict { .. }
            | Fact::TurnReissued { .. }
            | Fact::ClarificationGiven { .. }
            | Fact::ReconciliationRequired { .. } => {}
        }
    }

    /// A turn's answer is paid for once, wherever it is met first.
    fn count(&mut self, evidence: &ModelEvidence) {
        if !self.is_counted {
            self.pay(evidence);
            self.is_counted = true;
        }
    }

    fn pay(&mut self, evidence: &ModelEvidence) {
        self.tokens += evidence.usage.input_tokens + evidence.usage.output_tokens;
        self.cost_micros += evidence.usage.cost_micros;
    }

    /// Calls are released: within the budget, by this count of its own.
    fn release(&mut self, calls: usize, broken: &mut Broken) {
        self.dispatched = self.dispatched.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
        let over = |budget: Budget| self.dispatched > budget.max_tool_calls || self.is_overspent(budget);
        if self.budget.is_some_and(over) {
            broken.add(Invariant::I12);
        }
    }

    fn is_overspent(&self, budget: Budget) -> bool {
        self.tokens > budget.max_tokens || self.cost_micros > budget.max_cost_micros
    }

    /// Whether a turn's results are one per call of the plan, in its order, and each is its own call's.
    fn belongs(&self, turn: &protocol::TurnCommitted) -> bool {
        let Some(plan) = self.plan.as_ref().filter(|_| turn.mark.is_some()) else {
            return turn.results.is_empty();
        };
        let pairs = plan.calls.iter().zip(&turn.results);
        let echoed = |result: &CallResult| match result {
            CallResult::Output(output) => output.get("echo").cloned(),
            CallResult::Error(_) => None,
        };
        plan.calls.len() == turn.results.len()
            && pairs.into_iter().all(|(call, result)| {
                call.call_id == result.call_id
                    && echoed(&result.outcome.result).is_none_or(|echo| echo == call.arguments)
            })
    }

    /// A message of the outbox: its basis is committed and releases what it asks for.
    fn message<'e>(&mut self, message: &Message, known: impl Fn(Version) -> Option<&'e Event>, broken: &mut Broken) {
        match message {
            Message::TurnReady(ready) => {
                let basis = known(ready.scope.basis.version).filter(|event| event.hash == ready.scope.basis.hash);
                if basis.is_none() || self.turns + 1 != ready.scope.step.0 {
                    broken.add(Invariant::I6);
                }
                if self.budget.is_some_and(|budget| self.turns >= budget.max_steps || self.is_overspent(budget)) {
                    broken.add(Invariant::I12);
                }
            }
            Message::ToolCallDispatched(dispatch) => {
                let releases = known(dispatch.scope.basis.version).is_some_and(|event| {
                    event.hash == dispatch.scope.basis.hash
                        && match &event.fact {
                            Fact::WaveReleased { calls, .. } => calls.contains(&dispatch.call_id),
                            Fact::CallReleased { call_id, attempt, .. } => {
                                (*call_id, *attempt) == (dispatch.call_id, dispatch.attempt)
                            }
                            _ => false,
                        }
                });
                if !releases {
                    broken.add(Invariant::I2);
                }
                if let Some(DispatchedEffect { key, request_fingerprint }) = &dispatch.effect {
                    let effect = (key.clone(), request_fingerprint.to_string());
                    let before = self.effects.insert(dispatch.call_id, effect.clone());
                    if before.is_some_and(|before| before != effect) {
                        broken.add(Invariant::I11);
                    }
                }
            }
            Message::RunEnded(ended) => {
                self.finals += u32::from(!ended.resumable);
                if !self.segments.insert(ended.segment) || self.finals > 1 {
                    broken.add(Invariant::I4);
                }
            }
            Message::EffectQueried(_) | Message::EventsCommitted(_) => {}
        }
    }
}

/// What may still be committed after the end.
fn is_of_the_ledger(fact: &Fact) -> bool {
    match fact {
        Fact::EffectSettledLate { .. }
        | Fact::EffectConflict { .. }
        | Fact::EffectUnknown { .. }
        | Fact::ProbeRequested { .. }
        | Fact::EffectResolved { .. }
        | Fact::AttemptFailed { .. } => true,
        Fact::Admitted(_)
        | Fact::TurnPlanned(_)
        | Fact::DecisionRejected { .. }
        | Fact::ApprovalRequested(_)
        | Fact::ApprovalGranted { .. }
        | Fact::ApprovalRefused { .. }
        | Fact::ClarificationRequested { .. }
        | Fact::ClarificationGiven { .. }
        | Fact::WaveReleased { .. }
        | Fact::CallReleased { .. }
        | Fact::CallClaimed { .. }
        | Fact::CallSettled { .. }
        | Fact::TurnReissued { .. }
        | Fact::TurnCommitted(_)
        | Fact::CancelRequested { .. }
        | Fact::ReconciliationRequired { .. }
        | Fact::Ended { .. } => false,
    }
}
