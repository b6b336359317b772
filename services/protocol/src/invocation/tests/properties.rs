//! Random input sequences, answers drawn from what was really emitted, duplicated and reordered.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::world::*;
use crate::*;

/// One step of a random run: which kind of input, and a number to choose among what is at hand.
pub(super) fn steps() -> impl Strategy<Value = Vec<(u8, u16, u16)>> {
    prop::collection::vec((0..16_u8, any::<u16>(), 0..3_000_u16), 1..60)
}

fn pick<T: Clone>(list: &[T], n: u16) -> Option<T> {
    if list.is_empty() { None } else { list.get(usize::from(n) % list.len()).cloned() }
}

fn calls(n: u16) -> Vec<AcceptedCall> {
    let one = |i: u16| match (n >> (3 * i)) & 7 {
        0 | 1 => call(&format!("c{i}"), LOOKUP, json!({"q": n % 5})),
        2 => call(&format!("c{i}"), "read_order", json!({"order": n % 2})),
        3 | 4 => call(&format!("c{i}"), REFUND, json!({"order": n % 2})),
        5 => call("c0", LOOKUP, json!({"q": i})),
        _ => call(&format!("c{i}"), REFUND, json!({"order": n % 3, "amount": n % 4})),
    };
    (0..=n % 3).map(one).collect()
}

fn judgement(n: u16) -> Judgement {
    let evidence = evidence();
    let accepted = |decision| Judgement::Accepted { decision, evidence: super::world::evidence() };
    match n % 16 {
        0 => accepted(AcceptedDecision::Final { answer: json!(n) }),
        1 => accepted(AcceptedDecision::CannotContinue { reason: "stuck".into() }),
        2 => Judgement::DecisionFailed { message: "down".into() },
        4 => accepted(AcceptedDecision::Clarification { question: format!("which of {}?", n % 3) }),
        5 => accepted(AcceptedDecision::RequestApproval { calls: calls(n / 16) }),
        6 | 7 => Judgement::ApprovalRequired {
            decision: AcceptedDecision::ToolCalls { calls: calls(n / 16) },
            reasons: vec![ApprovalReason { path: format!("calls[{}]", n % 3), ..ApprovalReason::asked_by_model() }],
            four_eyes: n.is_multiple_of(3),
            ttl_ms: n.is_multiple_of(5).then_some(u64::from(n)),
            evidence,
        },
        3 => Judgement::Rejected { findings: vec![Finding::new(FindingCode::UnknownTool, "calls", "no")], evidence },
        _ => accepted(AcceptedDecision::ToolCalls { calls: calls(n / 16) }),
    }
}

fn attempt_outcome(n: u16) -> AttemptOutcome {
    match n % 6 {
        0 | 1 => committed("r1"),
        2 => AttemptOutcome::Failed { error: error(ErrorClass::BusinessRejected) },
        3 => AttemptOutcome::Failed { error: error(ErrorClass::Unavailable) },
        4 => AttemptOutcome::NothingSent { error: error(ErrorClass::Unavailable) },
        _ => AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) },
    }
}

fn answer(n: u16) -> Answer {
    match n % 6 {
        0 | 1 => Answer::Certain { outcome: effect_committed("r1") },
        2 => Answer::Certain { outcome: EffectOutcome::Rejected { error: error(ErrorClass::BusinessRejected) } },
        3 => Answer::NotApplied,
        4 => Answer::Pending { retry_after_ms: u64::from(n) },
        _ => Answer::Unanswerable { why: "no endpoint".into() },
    }
}

pub(super) fn input(world: &World, kind: u8, n: u16) -> Option<Input> {
    let turns: Vec<TurnReady> = world
        .out
        .iter()
        .filter_map(|m| match m {
            Message::TurnReady(turn) => Some((**turn).clone()),
            _ => None,
        })
        .collect();
    let queries: Vec<EffectQueried> = world
        .out
        .iter()
        .filter_map(|m| match m {
            Message::EffectQueried(query) => Some((**query).clone()),
            _ => None,
        })
        .collect();
    let dispatch = pick(&world.dispatches(), n);
    // Old digests too: what was answered once must not count again.
    let proposals: Vec<Digest> = world.ends().iter().filter_map(|end| Some(end.proposal.as_ref()?.digest)).collect();
    let newest = proposals.last().copied();
    Some(match kind {
        0..=2 => Input::Verdict(Box::new(Verdict {
            scope: turns.last()?.scope.clone(),
            judgement: judgement(n),
            registry_digest: Digest::default(),
            policy_digest: Digest::default(),
        })),
        3 => Input::Verdict(Box::new(Verdict {
            scope: pick(&turns, n)?.scope,
            judgement: judgement(n / 8),
            registry_digest: Digest::default(),
            policy_digest: Digest::default(),
        })),
        4 | 5 => Input::ClaimRequested(Box::new(dispatch?)),
        6 | 7 => Input::CallSettled(Box::new(settled(&dispatch?, attempt_outcome(n / 8)))),
        8 => Input::EffectAnswered(Box::new(answered(&pick(&queries, n)?, answer(n / 8)))),
        9 | 10 => Input::TimerFired(pick(&timers(&world.state), n)?.name),
        11 | 12 => Input::Control(Control::Approve {
            actor: if n.is_multiple_of(4) { "ada".into() } else { "grace".into() },
            proposal_digest: if n.is_multiple_of(3) { pick(&proposals, n)? } else { newest? },
        }),
        13 => Input::Control(Control::Reject {
            actor: "grace".into(),
            proposal_digest: if n.is_multiple_of(3) { pick(&proposals, n)? } else { newest? },
            reason: "no".into(),
        }),
        14 => Input::Control(Control::Clarify {
            actor: "ada".into(),
            answer: json!(n % 4),
            step: n.is_multiple_of(3).then(|| Step(u32::from(n % 5))),
        }),
        _ if n.is_multiple_of(4) => Input::Control(Control::Cancel { actor: "ada".into(), reason: "no".into() }),
        _ => Input::Control(Control::ResolveEffect {
            actor: "grace".into(),
            effect_key: pick(&queries, n)?.effect_key,
            outcome: effect_committed("r1"),
            evidence: "seen".into(),
        }),
    })
}

/// No (step, round) is used for two turns, every committed turn has its own step, and every segment ends once.
fn turns_are_unique(world: &World) -> Result<(), String> {
    let mut asked = BTreeMap::new();
    let mut segments = BTreeSet::new();
    let mut steps = BTreeSet::new();
    for message in &world.out {
        match message {
            Message::TurnReady(turn) => {
                let scope = &turn.scope;
                if asked.insert((scope.step, scope.round), scope.basis).is_some_and(|before| before != scope.basis) {
                    return Err(format!("step {}, round {} stands for two turns", scope.step, scope.round));
                }
            }
            Message::RunEnded(ended) if !segments.insert(ended.segment) => {
                return Err(format!("segment {} ends twice", ended.segment));
            }
            Message::RunEnded(_)
            | Message::ToolCallDispatched(_)
            | Message::EffectQueried(_)
            | Message::EventsCommitted(_) => {}
        }
    }
    let committed = world.events.iter().filter(|event| matches!(event.fact, Fact::TurnCommitted(_)));
    for event in committed {
        if !steps.insert(event.step) {
            return Err(format!("step {} is committed twice", event.step));
        }
    }
    match segments.iter().enumerate().all(|(i, segment)| segment.0 == i as u32 + 1) {
        true => Ok(()),
        false => Err(format!("segments are left out: {segments:?}")),
    }
}

/// I13: a gated batch runs by one grant with its digest, within its time, and a refused one never.
fn approvals_are_used_once(world: &World) -> Result<(), String> {
    let mut waiting: BTreeMap<Digest, Timestamp> = BTreeMap::new();
    let mut granted = BTreeSet::new();
    let mut gated = BTreeSet::new();
    for event in &world.events {
        match &event.fact {
            Fact::ApprovalRequested(requested) => {
                waiting.insert(requested.proposal_digest, requested.expires_at);
                gated.insert(requested.plan.calls[0].call_id);
            }
            Fact::ApprovalGranted { proposal_digest, .. } => match waiting.remove(proposal_digest) {
                Some(expires_at) if event.at < expires_at => drop(granted.insert(*proposal_digest)),
                Some(_) | None => return Err(format!("{proposal_digest} was granted when it did not wait")),
            },
            Fact::ApprovalRefused { proposal_digest, .. } => {
                waiting.remove(proposal_digest).ok_or(format!("{proposal_digest} was refused when it did not wait"))?;
            }
            Fact::TurnPlanned(planned)
                if gated.contains(&planned.plan.calls[0].call_id) && !granted.remove(&planned.proposal_digest) =>
            {
                return Err(format!("{} was planned without a grant", planned.proposal_digest));
            }
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2_000), ..ProptestConfig::default() })]

    /// `handle` never yields what `apply` refuses, never reads what `needs` did not name, and a replay of the events
    /// gives the same state; each run has at most one final end, and claims come only in the open lease.
    #[test]
    fn every_history_is_legal_and_replays_to_the_same_state(steps in steps()) {
        let mut world = World::admitted();
        for (kind, n, wait) in steps {
            world.now = world.now.plus_ms(u64::from(wait) * 3);
            let Some(input) = input(&world, kind, n) else { continue };
            let needs = needs(&world.state, &input);
            let before = world.state.clone();
            let whole = world.state.ledger.clone();
            let asked = needs.effects.iter().cloned().collect();
            let named = whole.entries().filter(|entry| needs.effects.contains(&entry.key)).cloned();
            world.state.ledger = Ledger::loaded(named, Some(asked));
            let outcome = handle(&world.state, &input, world.now);
            world.state.ledger = whole;
            match outcome {
                Err(Ignored::Refused(why)) => panic!("refused: {why}"),
                Err(Ignored::NotLoaded(why)) => panic!("{why}, for {input:?}"),
                Err(_) => prop_assert_eq!(&world.state, &before),
                Ok(events) => {
                    prop_assert!(!events.is_empty());
                    world.input(input).expect("decided the same again");
                }
            }
        }
        let mut replay = Invocation::absent(world.state.tenant.clone(), world.state.id);
        for event in &world.events {
            prop_assert!(event.is_authentic());
            replay = apply(replay, event).expect("the log is legal");
        }
        prop_assert_eq!(serde_json::to_value(&replay).unwrap(), serde_json::to_value(&world.state).unwrap());
        let kept: Invocation = serde_json::from_value(serde_json::to_value(&replay).unwrap()).unwrap();
        prop_assert_eq!(kept.run, replay.run);
        let finals = world.ends().iter().filter(|end| !end.resumable).count();
        prop_assert_eq!(finals, usize::from(world.state.is_ended()));
        let stopped = world.events.iter().position(|event| matches!(event.fact, Fact::CancelRequested { .. }));
        if let Some(stopped) = stopped {
            let late = world.events[stopped..].iter().any(|event| matches!(event.fact, Fact::CallClaimed { .. }));
            prop_assert!(!late, "a claim came after the cancel (I7)");
        }
        prop_assert_eq!(turns_are_unique(&world), Ok(()));
        prop_assert_eq!(approvals_are_used_once(&world), Ok(()));
    }

    #[test]
    fn any_text_is_a_decision_or_a_list_of_findings(text in "\\PC{0,200}") {
        if let Err(findings) = Decision::parse(&text, JsonLimits::default()) {
            prop_assert!(!findings.is_empty());
        }
    }
}
