//! From a command to the input it stands for: fixtures, and answers to what was really said.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::world;
use super::stage::Stage;
use super::transcript::{Answered, Approval, Command, Judged, Judgement as Says, Settled};
use crate::*;

impl Stage {
    /// The input of a command; a timer that is waited for moves the time.
    pub(super) fn input(&mut self, command: &Command) -> Result<Input, String> {
        Ok(match command {
            Command::Request(fields) => self.request(fields)?,
            Command::Verdict(judged) => self.verdict(judged)?,
            Command::Claim(name) => Input::ClaimRequested(Box::new(self.dispatch(name)?)),
            Command::Settled(result) => {
                let (name, what) = only(result)?;
                let settled = world::settled(&self.dispatch(name)?, attempt_outcome(parse(what)?));
                Input::CallSettled(Box::new(settled))
            }
            Command::Answered(answer) => {
                let (name, what) = only(answer)?;
                let answered = world::answered(&self.query(name)?, answer_of(parse(what)?));
                Input::EffectAnswered(Box::new(answered))
            }
            Command::Cancel(actor) => {
                Input::Control(Control::Cancel { actor: actor.as_str().into(), reason: "changed my mind".into() })
            }
            Command::Approve(approval) => {
                let (actor, proposal_digest) = self.approval(approval)?;
                Input::Control(Control::Approve { actor, proposal_digest })
            }
            Command::Reject(approval) => {
                let (actor, proposal_digest) = self.approval(approval)?;
                Input::Control(Control::Reject { actor, proposal_digest, reason: "not today".into() })
            }
            Command::Clarify { answer, step } => {
                let (answer, step) = (answer.clone(), step.map(Step));
                Input::Control(Control::Clarify { actor: "ada".into(), answer, step })
            }
            Command::Resolve(resolution) => self.resolve(resolution)?,
            Command::Timer(name) => {
                let timer = self.timer(name)?;
                let due = timers(&self.world.state).into_iter().find(|wanted| wanted.name == timer);
                let due = due.ok_or_else(|| format!("no timer `{name}` is set"))?.due;
                self.world.now = self.world.now.max(due);
                Input::TimerFired(timer)
            }
            Command::Fire(name) => Input::TimerFired(self.timer(name)?),
            Command::Given(_) | Command::Wait(_) | Command::Restore(_) | Command::Lease(_) | Command::Again => {
                return Err("no input".to_owned());
            }
        })
    }

    fn request(&self, fields: &Map<String, Value>) -> Result<Input, String> {
        let request: Request = merged(&world::request(), fields)?;
        let profile = match self.given.agent.as_deref() {
            Some("none") => None,
            _ => Some(merged(&world::profile(), &self.given.profile)?),
        };
        Ok(Input::Requested(Box::new(Requested {
            digest: request.digest(),
            requested_at: request.requested_at.unwrap_or(self.world.now),
            request,
            profile,
            horizon_ms: 1_000_000,
        })))
    }

    fn verdict(&self, judged: &Judged) -> Result<Input, String> {
        let turns: Vec<&TurnReady> = self.world.out.iter().filter_map(turn).collect();
        let nth = judged.turn.unwrap_or(turns.len());
        let turn = nth.checked_sub(1).and_then(|n| turns.get(n)).ok_or_else(|| format!("no turn {nth}"))?;
        let evidence = judged.evidence();
        let judgement = match &judged.judgement {
            Says::Gated(gated) => {
                let reason = |path: &String| {
                    let (policy, message) = ("large_refunds".to_owned(), "a large amount".to_owned());
                    ApprovalReason { path: path.clone(), policy, message }
                };
                let decision = self.decision(&gated.decision)?;
                let reasons = gated.paths.iter().map(reason).collect();
                let (four_eyes, ttl_ms) = (gated.four_eyes, gated.ttl_ms);
                Judgement::ApprovalRequired { decision, reasons, four_eyes, ttl_ms, evidence }
            }
            Says::Rejected(codes) => {
                let finding = |code: &FindingCode| Finding::new(*code, "calls[0]", "no");
                Judgement::Rejected { findings: codes.iter().map(finding).collect(), evidence }
            }
            Says::DecisionFailed(message) => Judgement::DecisionFailed { message: message.clone() },
            accepted => Judgement::Accepted { decision: self.decision(accepted)?, evidence },
        };
        let (registry_digest, policy_digest) = (Digest::of("registry", &[]), Digest::of("policy", &[]));
        Ok(Input::Verdict(Box::new(Verdict { scope: turn.scope.clone(), judgement, registry_digest, policy_digest })))
    }

    fn decision(&self, says: &Says) -> Result<AcceptedDecision, String> {
        Ok(match says {
            Says::Final(answer) => AcceptedDecision::Final { answer: answer.clone() },
            Says::CannotContinue(reason) => AcceptedDecision::CannotContinue { reason: reason.clone() },
            Says::Clarification(question) => AcceptedDecision::Clarification { question: question.clone() },
            Says::Calls(calls) => AcceptedDecision::ToolCalls { calls: self.calls(calls)? },
            Says::RequestApproval(calls) => AcceptedDecision::RequestApproval { calls: self.calls(calls)? },
            Says::Gated(_) | Says::Rejected(_) | Says::DecisionFailed(_) => return Err("no decision".to_owned()),
        })
    }

    fn calls(&self, calls: &[(String, String, Value)]) -> Result<Vec<AcceptedCall>, String> {
        let call = |(id, tool, arguments): &(String, String, Value)| {
            let call = world::call(id, tool, arguments.clone());
            let changes = self.given.tools.get(tool).and_then(Value::as_object).cloned().unwrap_or_default();
            Ok(AcceptedCall { contract: merged(&call.contract, &changes)?, ..call })
        };
        calls.iter().map(call).collect()
    }

    fn approval(&self, approval: &Approval) -> Result<(Actor, Digest), String> {
        let (by, nth) = match approval {
            Approval::Newest(by) => (by, self.names.proposals.len()),
            Approval::Exact { by, proposal } => (by, *proposal),
        };
        let digest = match nth.checked_sub(1) {
            Some(n) => *self.names.proposals.get(n).ok_or_else(|| format!("no proposal {nth}"))?,
            None => Digest::of("proposal", &[]),
        };
        Ok((by.as_str().into(), digest))
    }

    fn resolve(&self, resolution: &Map<String, Value>) -> Result<Input, String> {
        let (name, what) = only(resolution)?;
        let key = self.names.keys.iter().find(|(_, known)| known == name);
        let effect_key = key.map_or_else(|| EffectKey(name.to_owned()), |(key, _)| key.clone());
        let Answer::Certain { outcome } = answer_of(parse(what)?) else {
            return Err("a person says `committed` or `rejected`".to_owned());
        };
        let (actor, evidence) = ("grace".into(), "bank statement 17".into());
        Ok(Input::Control(Control::ResolveEffect { actor, effect_key, outcome, evidence }))
    }

    fn timer(&self, name: &str) -> Result<TimerName, String> {
        match self.names.call_id(name) {
            Some(call_id) => Ok(TimerName::Call(call_id)),
            None => name.parse::<TimerName>().map_err(|error| error.to_string()),
        }
    }

    pub(super) fn dispatch(&self, name: &str) -> Result<ToolCallDispatched, String> {
        self.nth(name, |message| match message {
            Message::ToolCallDispatched(dispatch) => Some((dispatch.call_id, (**dispatch).clone())),
            Message::TurnReady(_) | Message::EffectQueried(_) | Message::RunEnded(_) | Message::EventsCommitted(_) => {
                None
            }
        })
    }

    fn query(&self, name: &str) -> Result<EffectQueried, String> {
        self.nth(name, |message| match message {
            Message::EffectQueried(query) => Some((query.call_id, (**query).clone())),
            Message::TurnReady(_)
            | Message::ToolCallDispatched(_)
            | Message::RunEnded(_)
            | Message::EventsCommitted(_) => None,
        })
    }

    /// The newest message about a call, or the n-th where the name is `call#n`.
    fn nth<T>(&self, name: &str, of: impl Fn(&Message) -> Option<(CallId, T)>) -> Result<T, String> {
        let (name, nth) = match name.split_once('#') {
            Some((name, nth)) => (name, Some(nth.parse::<usize>().map_err(|error| error.to_string())?)),
            None => (name, None),
        };
        let call_id = self.names.call_id(name).ok_or_else(|| format!("no call `{name}`"))?;
        let all = self.world.out.iter().filter_map(of).filter(|(known, _)| *known == call_id);
        let mut all: Vec<T> = all.map(|(_, message)| message).collect();
        let nth = nth.unwrap_or(all.len());
        if nth == 0 || nth > all.len() {
            return Err(format!("there are {} messages of this kind about `{name}`", all.len()));
        }
        Ok(all.swap_remove(nth - 1))
    }
}

fn turn(message: &Message) -> Option<&TurnReady> {
    match message {
        Message::TurnReady(turn) => Some(turn),
        Message::ToolCallDispatched(_)
        | Message::EffectQueried(_)
        | Message::RunEnded(_)
        | Message::EventsCommitted(_) => None,
    }
}

fn only(map: &Map<String, Value>) -> Result<(&str, &Value), String> {
    match map.iter().next() {
        Some((name, value)) if map.len() == 1 => Ok((name, value)),
        _ => Err("name one call".to_owned()),
    }
}

fn parse<T: for<'de> Deserialize<'de>>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

/// A fixture with changes; objects are merged, everything else is replaced.
fn merged<T: serde::Serialize + for<'de> Deserialize<'de>>(
    usual: &T,
    changes: &Map<String, Value>,
) -> Result<T, String> {
    fn merge(into: &mut Value, changes: &Value) {
        match (into, changes) {
            (Value::Object(into), Value::Object(changes)) => {
                changes.iter().for_each(|(name, value)| merge(into.entry(name).or_insert(Value::Null), value));
            }
            (into, value) => *into = value.clone(),
        }
    }
    let mut value = json!(usual);
    merge(&mut value, &Value::Object(changes.clone()));
    parse(&value)
}

fn attempt_outcome(settled: Settled) -> AttemptOutcome {
    match settled {
        Settled::Output(output) => world::ok(output),
        Settled::Committed(receipt) => world::committed(&receipt),
        Settled::Failed(fault) => AttemptOutcome::Failed { error: fault.into() },
        Settled::NothingSent(fault) => AttemptOutcome::NothingSent { error: fault.into() },
        Settled::Unknown => AttemptOutcome::Unknown { error: world::error(ErrorClass::OutcomeUnknown) },
    }
}

fn answer_of(answered: Answered) -> Answer {
    match answered {
        Answered::Committed(receipt) => Answer::Certain { outcome: world::effect_committed(&receipt) },
        Answered::Rejected(fault) => Answer::Certain { outcome: EffectOutcome::Rejected { error: fault.into() } },
        Answered::NotApplied => Answer::NotApplied,
        Answered::Pending(retry_after_ms) => Answer::Pending { retry_after_ms },
        Answered::Unanswerable(why) => Answer::Unanswerable { why },
    }
}
