//! `terminals`: what a caller reads.

use protocol as p;
use serde::{Deserialize, Serialize};

use super::Mapped;
use super::parts::{EffectSummary, Proposal, Spent, scoped, with_scope};
use super::scalars::{Count, Hex, Id, Json, Time};
use super::symbols;
use crate::{EncodeError, Limits, Rejection};

scoped!(RunEnded {
    actor: p::Actor,
    agent: p::AgentName,
    segment: p::Segment,
    reason: symbols::TerminalReason,
    resumable: bool,
    answer: Option<Json>,
    proposal: Option<Proposal>,
    question: Option<String>,
    detail: String,
    effects: Vec<EffectSummary>,
    effects_unresolved: bool,
    spent: Spent,
    requested_at: Time,
    ended_at: Time,
});

impl Mapped for p::RunEnded {
    type Wire = RunEnded;

    fn to_wire(&self, limits: &Limits) -> Result<RunEnded, EncodeError> {
        let answer = self.answer.as_ref();
        Ok(with_scope!(RunEnded, &self.scope, {
            actor: self.actor.clone(),
            agent: self.agent.clone(),
            segment: self.segment,
            reason: self.reason.into(),
            resumable: self.resumable,
            answer: answer.map(|answer| Json::of("answer", answer, limits.field())).transpose()?,
            proposal: self.proposal.as_ref().map(|proposal| Proposal::of(proposal, limits)).transpose()?,
            question: self.question.clone(),
            detail: self.detail.clone(),
            effects: self.effects.iter().map(EffectSummary::from).collect(),
            effects_unresolved: self.effects_unresolved,
            spent: Spent::from(&self.spent),
            requested_at: Time(self.requested_at),
            ended_at: Time(self.ended_at),
        }))
    }

    fn from_wire(wire: RunEnded, limits: &Limits) -> Result<Self, Rejection> {
        Ok(Self {
            scope: wire.scope(),
            actor: wire.actor,
            agent: wire.agent,
            segment: wire.segment,
            reason: wire.reason.core("reason")?,
            resumable: wire.resumable,
            answer: wire.answer.map(|answer| answer.value("answer", limits.field())).transpose()?,
            proposal: wire.proposal.map(|proposal| proposal.core(limits)).transpose()?,
            question: wire.question,
            detail: wire.detail,
            effects: wire.effects.into_iter().map(EffectSummary::core).collect::<Result<_, _>>()?,
            effects_unresolved: wire.effects_unresolved,
            spent: wire.spent.into(),
            requested_at: wire.requested_at.0,
            ended_at: wire.ended_at.0,
        })
    }

    fn invocation_id(&self) -> p::InvocationId {
        self.scope.invocation_id
    }

    fn time_ms(&self) -> Option<i64> {
        Some(self.ended_at.0)
    }
}
