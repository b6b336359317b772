//! From names to what the core is really given: every message is the one that was emitted, or an answer to it.

use protocol::{
    Answer, AttemptOutcome, CallError, Control, Dedupe, Digest, EffectAnswered, EffectKey, EffectOutcome,
    EffectQueried, ErrorClass, Input, Message, Receipt, Requested, Round, Step, TimerName, ToolCallDispatched,
    ToolCallSettled, TurnReady, Verdict,
};
use serde_json::json;

use super::history::History;
use super::names::{AttemptAt, Cause, EffectAt, Entry, Letter, Said, TimerAt, Word};
use super::owners::Account;
use super::scenario::{START, Scenario, invocation};

/// The effects of a scenario, by place.
pub type Effects = [(EffectKey, Dedupe)];

/// The dispatch of that attempt.
pub fn dispatch(history: &History, attempt: AttemptAt) -> Option<&ToolCallDispatched> {
    match &history.messages.get(&Entry::Dispatch(attempt))?.message {
        Message::ToolCallDispatched(dispatch) => Some(dispatch),
        _ => None,
    }
}

fn turn(history: &History, step: u8, round: u8) -> Option<&TurnReady> {
    match &history.messages.get(&Entry::Turn { step, round, count: 0 })?.message {
        Message::TurnReady(ready) => Some(ready),
        _ => None,
    }
}

/// The question that was asked of an attempt.
pub fn query(history: &History, attempt: AttemptAt, probe: u8) -> Option<&EffectQueried> {
    match &history.messages.get(&Entry::Query { attempt, probe })?.message {
        Message::EffectQueried(query) => Some(query),
        _ => None,
    }
}

/// The digest of what that turn proposed, as its caller was shown it.
fn proposal(history: &History, step: u8, round: u8) -> Option<Digest> {
    history.messages.values().find_map(|outgoing| match &outgoing.message {
        Message::RunEnded(ended) => {
            let turn = (ended.scope.step, ended.scope.round);
            let proposal = ended.proposal.as_ref().filter(|_| turn == (Step(step.into()), Round(round.into())));
            proposal.map(|proposal| proposal.digest)
        }
        _ => None,
    })
}

/// The place of a dispatch's effect.
pub fn effect_of(effects: &Effects, key: &EffectKey) -> Option<EffectAt> {
    effects.iter().position(|(known, _)| known == key).and_then(|at| u8::try_from(at).ok())
}

/// What the store is given; `None` when the message it would answer was never committed.
pub fn input(scenario: &Scenario, effects: &Effects, history: &History, cause: Cause) -> Option<Input> {
    Some(match cause {
        Cause::Letter(Letter::Request) => {
            let request = scenario.request();
            Input::Requested(Box::new(Requested {
                digest: request.digest(),
                request,
                requested_at: START,
                profile: scenario.profile(),
                horizon_ms: u64::MAX,
            }))
        }
        Cause::Letter(Letter::Cancel) => {
            Input::Control(Control::Cancel { actor: "ada".into(), reason: "changed my mind".to_owned() })
        }
        Cause::Letter(Letter::Verdict { step, round, choice }) => Input::Verdict(Box::new(Verdict {
            scope: turn(history, step, round)?.scope.clone(),
            judgement: scenario.answers(step, round).get(usize::from(choice))?.clone(),
            registry_digest: Digest::default(),
            policy_digest: Digest::default(),
        })),
        Cause::Letter(Letter::Result { attempt, said }) => {
            let dispatch = dispatch(history, attempt)?;
            Input::CallSettled(Box::new(ToolCallSettled {
                scope: dispatch.scope.clone(),
                call_id: dispatch.call_id,
                attempt: dispatch.attempt,
                attempt_id: attempt.id(invocation()),
                effect_key: dispatch.effect.as_ref().map(|effect| effect.key.clone()),
                outcome: outcome(effects, dispatch, attempt, said),
            }))
        }
        Cause::Letter(Letter::Resolution { attempt, probe, word }) => {
            let query = query(history, attempt, probe)?;
            Input::EffectAnswered(Box::new(EffectAnswered {
                scope: query.scope.clone(),
                call_id: query.call_id,
                effect_key: query.effect_key.clone(),
                attempt_id: query.attempt_id,
                probe: query.probe,
                answer: answer(effects, &query.effect_key, word),
            }))
        }
        Cause::Letter(Letter::Settled { effect, applied }) => {
            let (effect_key, dedupe) = effects.get(usize::from(effect))?.clone();
            let outcome = applied.map_or_else(rejected, |attempt| committed(effect, attempt, dedupe));
            let (actor, evidence) = ("grace".into(), "the owner's books".to_owned());
            Input::Control(Control::ResolveEffect { actor, effect_key, outcome, evidence })
        }
        Cause::Letter(Letter::Approve { step, round, own }) => {
            let actor = if own { "ada".into() } else { "grace".into() };
            Input::Control(Control::Approve { actor, proposal_digest: proposal(history, step, round)? })
        }
        Cause::Letter(Letter::Reject { step, round }) => {
            let (actor, reason) = ("grace".into(), "no".to_owned());
            Input::Control(Control::Reject { actor, proposal_digest: proposal(history, step, round)?, reason })
        }
        Cause::Letter(Letter::Clarify { step, named }) => {
            let (actor, answer) = ("ada".into(), json!("so"));
            let step = named.then_some(Step(step.into()));
            Input::Control(Control::Clarify { actor, answer, step })
        }
        Cause::Claim(attempt) => Input::ClaimRequested(Box::new(dispatch(history, attempt)?.clone())),
        Cause::Timer(timer) => Input::TimerFired(match timer {
            TimerAt::Deadline => TimerName::Deadline,
            TimerAt::Decide => TimerName::Decide,
            TimerAt::Approval => TimerName::Approval,
            TimerAt::Grace => TimerName::Grace,
            TimerAt::Call(call) => TimerName::Call(call.id(invocation())),
        }),
    })
}

fn outcome(effects: &Effects, dispatch: &ToolCallDispatched, attempt: AttemptAt, said: Said) -> AttemptOutcome {
    let error = |class| CallError::new(class, "it went wrong");
    match said {
        Said::Done => {
            let effect = dispatch.effect.as_ref().and_then(|effect| effect_of(effects, &effect.key));
            let receipt = effect.map(|at| receipt(at, attempt, effects[usize::from(at)].1));
            AttemptOutcome::Succeeded { output: json!({ "echo": dispatch.arguments }), receipt }
        }
        Said::Refused => AttemptOutcome::Failed { error: error(ErrorClass::BusinessRejected) },
        Said::Transient => AttemptOutcome::Failed { error: error(ErrorClass::Unavailable) },
        Said::NothingSent => AttemptOutcome::NothingSent { error: error(ErrorClass::Unavailable) },
        Said::Unknown => AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) },
    }
}

fn answer(effects: &Effects, key: &EffectKey, word: Word) -> Answer {
    match word {
        Word::Committed(attempt) => match effect_of(effects, key) {
            Some(at) => Answer::Certain { outcome: committed(at, attempt, effects[usize::from(at)].1) },
            None => Answer::NotApplied,
        },
        Word::Rejected => Answer::Certain { outcome: rejected() },
        Word::NotApplied => Answer::NotApplied,
        Word::Pending => Answer::Pending { retry_after_ms: 0 },
    }
}

fn receipt(effect: EffectAt, attempt: AttemptAt, dedupe: Dedupe) -> Receipt {
    Receipt { effect_id: Account::effect_id(effect, attempt, dedupe), body_digest: Digest::default() }
}

fn committed(effect: EffectAt, attempt: AttemptAt, dedupe: Dedupe) -> EffectOutcome {
    EffectOutcome::Committed { receipt: Some(receipt(effect, attempt, dedupe)), output: json!({ "found": true }) }
}

fn rejected() -> EffectOutcome {
    EffectOutcome::Rejected { error: CallError::new(ErrorClass::BusinessRejected, "not in the books") }
}
