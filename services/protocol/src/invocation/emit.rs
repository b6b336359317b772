//! `emit`: what the outbox must say because of one commit. It sees the state after the whole commit, so that nothing is
//! asked for that the same commit has already overtaken.

use super::{Invocation, Phase, Run, Stage};
use crate::{
    AttemptNumber, Basis, CallId, EffectQueried, Event, EventId, EventsCommitted, Fact, Message, Outgoing, Probe,
    Proposal, Round, RunEnded, Segment, TerminalReason, ToolCallDispatched, TurnReady,
};

/// Whether [`emit`] will list the effects of the whole run, so that the whole ledger must be loaded.
pub fn wants_whole_ledger(events: &[Event]) -> bool {
    events.iter().any(|event| {
        matches!(
            event.fact,
            Fact::Ended { .. }
                | Fact::ReconciliationRequired { .. }
                | Fact::ApprovalRequested(_)
                | Fact::ClarificationRequested { .. }
        )
    })
}

/// The messages of one commit, the committed events first.
pub fn emit(invocation: &Invocation, events: &[Event]) -> Vec<Outgoing> {
    let (Some(run), Some(last)) = (invocation.run.as_deref(), events.last()) else {
        return Vec::new();
    };
    let mut out = Emission { invocation, run, messages: Vec::new() };
    let committed = EventsCommitted { scope: invocation.scope(last.basis()), events: events.to_vec() };
    out.say(last.basis(), 0, Message::EventsCommitted(Box::new(committed)));
    for event in events {
        out.for_event(event);
    }
    out.messages
}

/// What a terminal event holds beside its reason.
enum Said {
    Nothing,
    Answer(serde_json::Value),
    Proposal(Proposal, Round),
    Question(String, Round),
}

struct Emission<'a> {
    invocation: &'a Invocation,
    run: &'a Run,
    messages: Vec<Outgoing>,
}

impl Emission<'_> {
    /// Ordinal 0 is the commit's own record; what a single event causes counts from 1.
    fn say(&mut self, basis: Basis, ordinal: u32, message: Message) {
        let event_id = EventId::derive(self.invocation.id, basis, ordinal);
        self.messages.push(Outgoing { event_id, message });
    }

    fn for_event(&mut self, event: &Event) {
        let basis = event.basis();
        match &event.fact {
            Fact::Admitted(_) | Fact::TurnCommitted(_) | Fact::DecisionRejected { .. } => {
                if let Phase::Deciding(deciding) = &self.run.phase
                    && deciding.basis == basis
                {
                    self.turn_ready(basis, basis);
                }
            }
            Fact::TurnReissued { round, count } => {
                if let Phase::Deciding(deciding) = &self.run.phase
                    && (deciding.round, deciding.reissues) == (*round, *count)
                {
                    self.turn_ready(basis, deciding.basis);
                }
            }
            Fact::WaveReleased { calls, .. } => {
                for (ordinal, call_id) in calls.iter().enumerate() {
                    self.dispatch(basis, u32::try_from(ordinal).unwrap_or(u32::MAX), *call_id, AttemptNumber(1));
                }
            }
            Fact::CallReleased { call_id, attempt, .. } => self.dispatch(basis, 0, *call_id, *attempt),
            Fact::ProbeRequested { call_id, probe, .. } => self.query(basis, *call_id, *probe),
            Fact::ReconciliationRequired { segment, detail, .. } => {
                self.run_ended(event, *segment, TerminalReason::ReconciliationRequired, detail, Said::Nothing);
            }
            Fact::ApprovalRequested(requested) => {
                let (reason, detail) = (TerminalReason::ApprovalRequired, requested.detail());
                let said = Said::Proposal(requested.proposal(), requested.round);
                self.run_ended(event, requested.segment, reason, &detail, said);
            }
            Fact::ClarificationRequested { segment, round, question, .. } => {
                let said = Said::Question(question.clone(), *round);
                self.run_ended(
                    event,
                    *segment,
                    TerminalReason::ClarificationRequired,
                    "the model has a question",
                    said,
                );
            }
            Fact::Ended { segment, reason, answer, detail } => {
                let said = answer.clone().map_or(Said::Nothing, Said::Answer);
                self.run_ended(event, *segment, *reason, detail, said);
            }
            Fact::TurnPlanned(_)
            | Fact::ApprovalGranted { .. }
            | Fact::ApprovalRefused { .. }
            | Fact::ClarificationGiven { .. }
            | Fact::CallClaimed { .. }
            | Fact::AttemptFailed { .. }
            | Fact::CallSettled { .. }
            | Fact::EffectUnknown { .. }
            | Fact::EffectResolved { .. }
            | Fact::EffectConflict { .. }
            | Fact::CancelRequested { .. }
            | Fact::EffectSettledLate { .. } => {}
        }
    }

    fn turn_ready(&mut self, cause: Basis, basis: Basis) {
        let run = self.run;
        let message = TurnReady {
            scope: self.invocation.scope(basis),
            actor: run.actor.clone(),
            agent: run.agent.clone(),
            tools: run.tools.clone(),
            budget: run.budget,
            spent: run.spent,
            deadline: run.ends_at().unwrap_or(crate::Timestamp(i64::MAX)),
            last_plan: run.progress.last_plan,
            output_schema: run.output_schema.clone(),
            profile_digest: run.profile_digest,
        };
        self.say(cause, 1, Message::TurnReady(Box::new(message)));
    }

    fn dispatch(&mut self, basis: Basis, ordinal: u32, call_id: CallId, attempt: AttemptNumber) {
        let Phase::Executing(execution) = &self.run.phase else {
            return;
        };
        let Some((planned, state)) = execution.call(call_id) else {
            return;
        };
        let Stage::Released { epoch, .. } = state.stage else {
            return;
        };
        if state.attempt != attempt {
            return;
        }
        let message = ToolCallDispatched {
            scope: self.invocation.scope(basis),
            actor: self.run.actor.clone(),
            call_id,
            attempt,
            tool: planned.tool.clone(),
            arguments: planned.arguments.clone(),
            effect: planned.effect.clone(),
            epoch,
            timeout_ms: planned.contract.timeout_ms,
        };
        self.say(basis, ordinal.saturating_add(1), Message::ToolCallDispatched(Box::new(message)));
    }

    fn query(&mut self, basis: Basis, call_id: CallId, probe: Probe) {
        let Some((planned, state)) = self.invocation.execution().and_then(|execution| execution.call(call_id)) else {
            return;
        };
        let (Stage::Unknown(unknown), Some(effect), Some(contract)) =
            (&state.stage, &planned.effect, &planned.contract.effect)
        else {
            return;
        };
        if unknown.probe != probe || unknown.next_probe_at.is_some() {
            return;
        }
        let message = EffectQueried {
            scope: self.invocation.scope(basis),
            call_id,
            effect_key: effect.key.clone(),
            attempt_id: unknown.claim.attempt_id,
            probe,
            tool: planned.tool.clone(),
            owner: contract.owner.clone(),
            request_fingerprint: effect.request_fingerprint,
            unknown_since: unknown.since,
            lease_until: unknown.claim.lease_until,
            seal: unknown.seal,
        };
        self.say(basis, 1, Message::EffectQueried(Box::new(message)));
    }

    fn run_ended(&mut self, event: &Event, segment: Segment, reason: TerminalReason, detail: &str, said: Said) {
        let run = self.run;
        let mut scope = self.invocation.scope(event.basis());
        // A commit may go on past a suspension; the message still speaks of the turn that was suspended.
        scope.step = event.step;
        let (mut answer, mut proposal, mut question) = (None, None, None);
        match said {
            Said::Nothing => {}
            Said::Answer(value) => answer = Some(value),
            Said::Proposal(value, round) => (proposal, scope.round) = (Some(value), round),
            Said::Question(value, round) => (question, scope.round) = (Some(value), round),
        }
        let effects: Vec<_> = self.invocation.ledger.entries().map(crate::LedgerEntry::summary).collect();
        let message = RunEnded {
            scope,
            actor: run.actor.clone(),
            agent: run.agent.clone(),
            segment,
            reason,
            resumable: reason.is_resumable(),
            answer,
            proposal,
            question,
            detail: detail.to_owned(),
            effects_unresolved: effects.iter().any(|effect| effect.status.is_unresolved()),
            effects,
            spent: run.spent,
            requested_at: run.requested_at,
            ended_at: event.at,
        };
        self.say(event.basis(), 1, Message::RunEnded(Box::new(message)));
    }
}
