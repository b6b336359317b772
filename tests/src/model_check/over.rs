//! Letters that belong to what is over: answers to a turn that has passed, words on an attempt that is not the current one.
//! They may still be delivered, any number of times; but they change nothing, in no history that can still come.
//!
//! So that they need not be carried along, they are taken out of the state. That is no assumption: in every history that
//! is reached, each of them is really given to the core, which must ignore it; and a test checks that what is over stays
//! over.

use std::collections::BTreeSet;

use protocol::{CallState, EffectOutcome, Invocation, Message, Phase, Stage, Suspension};

use super::history::History;
use super::invariants::{Broken, Invariant};
use super::live::ends_by;
use super::model::Checked;
use super::names::{AttemptAt, CallAt, Cause, EffectAt, Entry, Letter, Said, Word, small};
use super::owners::Account;
use super::scenario::invocation;

impl Checked {
    /// Whether this letter can change nothing any more.
    pub(super) fn is_over(&self, history: &History, letter: Letter) -> bool {
        let state = &history.state;
        match letter {
            Letter::Request => state.run.is_some(),
            Letter::Cancel => {
                state.stub.is_some() || matches!(state.phase(), Some(Phase::Cancelling(_) | Phase::Ended(_)))
            }
            Letter::Verdict { step, round, .. } => {
                let current = state.turn();
                let deciding = matches!(state.phase(), Some(Phase::Deciding(_)));
                !deciding || (current.0.0, current.1.0) != (step.into(), round.into())
            }
            Letter::Result { attempt, said } => match self.effect_of(history, attempt) {
                None => !takes_read(call(state, attempt.call), attempt, said),
                Some(effect) => match said {
                    Said::Done => self.is_recorded(history, effect, Some(attempt)),
                    Said::Refused => self.is_recorded(history, effect, None),
                    Said::Transient | Said::NothingSent | Said::Unknown => {
                        !takes_uncertain(call(state, attempt.call), attempt)
                    }
                },
            },
            Letter::Resolution { attempt, probe, word } => {
                let effect = self.effect_of(history, attempt);
                let recorded = |applied| effect.is_some_and(|effect| self.is_recorded(history, effect, applied));
                match word {
                    Word::Committed(by) => recorded(Some(by)),
                    Word::Rejected => recorded(None),
                    Word::NotApplied | Word::Pending => !takes_answer(call(state, attempt.call), attempt, probe),
                }
            }
            Letter::Approve { step, round, own } => match waiting(state) {
                Some(Suspension::Approval(pending)) => {
                    let turn = (pending.step.0, pending.requested.round.0);
                    turn != (step.into(), round.into()) || (own && pending.requested.four_eyes)
                }
                Some(Suspension::Clarification(_) | Suspension::Operator(_)) | None => true,
            },
            Letter::Reject { step, round } => match waiting(state) {
                Some(Suspension::Approval(pending)) => {
                    (pending.step.0, pending.requested.round.0) != (step.into(), round.into())
                }
                Some(Suspension::Clarification(_) | Suspension::Operator(_)) | None => true,
            },
            Letter::Clarify { step, named } => match waiting(state) {
                Some(Suspension::Clarification(pending)) if named => pending.step.0 != u32::from(step),
                // An answer that names no question is good for one.
                Some(_) | None if !named => state.run.as_ref().is_some_and(|run| !run.answers.is_empty()),
                Some(_) | None => true,
            },
            Letter::Settled { effect, applied } => self.is_recorded(history, effect, applied),
        }
    }

    /// Whether the ledger has this outcome: applied by that attempt, or never.
    fn is_recorded(&self, history: &History, effect: EffectAt, applied: Option<AttemptAt>) -> bool {
        let (key, dedupe) = &self.effects[usize::from(effect)];
        let said = applied.map(|attempt| Account::effect_id(effect, attempt, *dedupe));
        let mut entries = history.state.ledger.entries();
        entries.any(|entry| {
            entry.key == *key
                && match (&entry.outcome, &said) {
                    (Some(EffectOutcome::Committed { receipt, .. }), Some(said)) => {
                        receipt.as_ref().is_some_and(|receipt| receipt.effect_id == *said)
                    }
                    (Some(EffectOutcome::Rejected { .. }), None) => true,
                    (Some(_) | None, _) => false,
                }
        })
    }

    /// What is wrong with a history, so many ticks after its newest event: the core is given everything that is over, and
    /// ignores all of it; and if nothing comes any more, timers bring the run on.
    pub(super) fn broken_in(&self, history: &History, late: u64) -> Broken {
        history.once(late, || {
            let mut broken = Broken::default();
            if !ends_by(protocol::timers, &history.state) {
                broken.add(Invariant::Live);
            }
            for letter in self.every_letter(history) {
                if self.is_over(history, letter)
                    && let Some(taken) = self.committed(history, Cause::Letter(letter), late)
                {
                    broken.add(Invariant::Over);
                    broken.add_all(taken.broken);
                }
            }
            broken
        })
    }

    /// Whatever anyone could have said so far.
    pub(super) fn every_letter(&self, history: &History) -> BTreeSet<Letter> {
        let mut letters = BTreeSet::from([Letter::Request, Letter::Cancel]);
        for (entry, outgoing) in &history.messages {
            match *entry {
                Entry::Turn { step, round, .. } => {
                    letters.extend(self.choices(step, round).map(|choice| Letter::Verdict { step, round, choice }));
                }
                Entry::Dispatch(attempt) => {
                    let effect = self.effect_of(history, attempt);
                    // What is wrong with an effect is certain or unknown: its executor says which.
                    let transient = effect.is_none().then_some(Said::Transient);
                    let said =
                        [Said::Done, Said::Refused, Said::NothingSent, Said::Unknown].into_iter().chain(transient);
                    letters.extend(said.map(|said| Letter::Result { attempt, said }));
                    letters.extend(
                        effect.into_iter().flat_map(|effect| {
                            [Some(attempt), None].map(|applied| Letter::Settled { effect, applied })
                        }),
                    );
                }
                Entry::Query { attempt, probe } => {
                    let words = [Word::Committed(attempt), Word::Rejected, Word::NotApplied, Word::Pending];
                    letters.extend(words.map(|word| Letter::Resolution { attempt, probe, word }));
                }
                Entry::Ended { .. } => {
                    if let Message::RunEnded(ended) = &outgoing.message {
                        let (step, round) = (small(ended.scope.step.0), small(ended.scope.round.0));
                        if ended.proposal.is_some() {
                            letters.extend([true, false].map(|own| Letter::Approve { step, round, own }));
                            letters.insert(Letter::Reject { step, round });
                        }
                        if ended.question.is_some() {
                            letters.extend([true, false].map(|named| Letter::Clarify { step, named }));
                        }
                    }
                }
            }
        }
        letters
    }
}

fn waiting(state: &Invocation) -> Option<&Suspension> {
    match state.phase()? {
        Phase::Suspended(suspension) => Some(suspension),
        Phase::Deciding(_) | Phase::Executing(_) | Phase::Cancelling(_) | Phase::Ended(_) => None,
    }
}

fn call(state: &Invocation, at: CallAt) -> Option<&CallState> {
    let execution = state.execution()?;
    let position = execution.plan.position(at.id(invocation()))?;
    execution.calls.get(position)
}

fn takes_read(call: Option<&CallState>, attempt: AttemptAt, said: Said) -> bool {
    let Some(call) = call else {
        return false;
    };
    match &call.stage {
        Stage::Settled(_) => false,
        Stage::Released { .. } => said == Said::Done || is_current(call, attempt),
        Stage::Waiting | Stage::Backoff { .. } | Stage::Claimed(_) | Stage::Unknown(_) | Stage::Unanswerable { .. } => {
            said == Said::Done
        }
    }
}

fn takes_uncertain(call: Option<&CallState>, attempt: AttemptAt) -> bool {
    call.is_some_and(|call| {
        is_current(call, attempt) && matches!(call.stage, Stage::Released { .. } | Stage::Claimed(_))
    })
}

fn takes_answer(call: Option<&CallState>, attempt: AttemptAt, probe: u8) -> bool {
    call.is_some_and(|call| match &call.stage {
        Stage::Unknown(unknown) => {
            is_current(call, attempt) && unknown.probe.0 == u32::from(probe) && unknown.next_probe_at.is_none()
        }
        Stage::Waiting
        | Stage::Released { .. }
        | Stage::Claimed(_)
        | Stage::Backoff { .. }
        | Stage::Unanswerable { .. }
        | Stage::Settled(_) => false,
    })
}

fn is_current(call: &CallState, attempt: AttemptAt) -> bool {
    call.attempt.0 == u32::from(attempt.number)
}
