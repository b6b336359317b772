//! The table of phases and inputs, cell by cell: which facts an input causes in which phase, or why it causes none.

use std::collections::BTreeMap;

use serde_json::json;

use super::world::*;
use crate::*;

/// The columns. The plan is a read `a` and a refund `b`. In `deciding`, `approval` and `clarification` it belongs to the
/// turn before, and both are settled. Elsewhere `a` is settled and `b` stands as the column says; in `released` both are
/// dispatched.
const PHASES: [&str; 13] = [
    "absent",
    "deciding",
    "released",
    "claimed",
    "unknown",
    "backoff",
    "approval",
    "clarification",
    "operator",
    "cancelling/claimed",
    "cancelling/unknown",
    "ended/claimed",
    "ended/unknown",
];

/// The table: per input what it does in most phases, and indented below it where it does something else. What it does is
/// the facts it causes, or `!` and the reason why there are none.
const TABLE: &str = "
request again: !duplicate
    absent: admitted
another request: !conflict
    absent: admitted
verdict for this turn: !stale
    absent: !lost_commit
    deciding: turn_committed ended
verdict for another turn: !stale
    absent: !lost_commit
claim: !claim_superseded
    absent: !lost_commit
    released: call_claimed
    claimed: !claim_held
    cancelling/claimed, cancelling/unknown, ended/claimed, ended/unknown: !claim_revoked
claim of an older attempt: !claim_superseded
    absent: !lost_commit
    cancelling/claimed, cancelling/unknown, ended/claimed, ended/unknown: !claim_revoked
claim past its lease: !claim_superseded
    absent: !lost_commit
    released: call_claimed
    claimed: !claim_expired
    cancelling/claimed, cancelling/unknown, ended/claimed, ended/unknown: !claim_revoked
read succeeds: !duplicate
    absent: !lost_commit
    deciding, approval, clarification, operator: !stale
    released: call_settled
read fails for now: !duplicate
    absent: !lost_commit
    deciding, approval, clarification, operator: !stale
    released: attempt_failed
effect committed: call_settled turn_committed
    absent: !lost_commit
    deciding, approval, clarification: !duplicate
    released: call_settled
    cancelling/claimed, cancelling/unknown: call_settled ended
    ended/claimed, ended/unknown: effect_settled_late
effect rejected: call_settled turn_committed
    absent: !lost_commit
    deciding, approval, clarification: effect_conflict
    released: call_settled
    cancelling/claimed, cancelling/unknown: call_settled ended
    ended/claimed, ended/unknown: effect_settled_late
nothing was sent: !stale
    absent: !lost_commit
    claimed, ended/claimed: attempt_failed
    cancelling/claimed: attempt_failed call_settled ended
outcome unknown: !stale
    absent: !lost_commit
    claimed, cancelling/claimed, ended/claimed: effect_unknown probe_requested
owner says committed: call_settled turn_committed
    absent: !lost_commit
    deciding, approval, clarification: !duplicate
    released: call_settled
    cancelling/claimed, cancelling/unknown: call_settled ended
    ended/claimed, ended/unknown: effect_settled_late
owner says committed otherwise: call_settled turn_committed
    absent: !lost_commit
    deciding, approval, clarification: effect_conflict
    released: call_settled
    cancelling/claimed, cancelling/unknown: call_settled ended
    ended/claimed, ended/unknown: effect_settled_late
owner says not applied: !stale
    absent: !lost_commit
    unknown: effect_resolved call_released
    cancelling/unknown: effect_resolved call_settled ended
    ended/unknown: effect_resolved
owner says pending: !stale
    absent: !lost_commit
    unknown, cancelling/unknown, ended/unknown: effect_resolved
owner says unanswerable: !stale
    absent: !lost_commit
    unknown: effect_resolved reconciliation_required
    cancelling/unknown: effect_resolved ended
    ended/unknown: effect_resolved
cancel: cancel_requested ended
    absent: !overtakes_request
    released: cancel_requested call_settled call_settled ended
    claimed, unknown: cancel_requested
    backoff: cancel_requested call_settled ended
    cancelling/claimed, cancelling/unknown, ended/claimed, ended/unknown: !duplicate
approve: !no_approval_waiting
    absent: !unknown_invocation
    approval: approval_granted turn_planned wave_released
approve by the actor: !no_approval_waiting
    absent: !unknown_invocation
    approval: !self_approval
approve another proposal: !no_approval_waiting
    absent: !unknown_invocation
    approval: !wrong_proposal
approve too late: !no_approval_waiting
    absent: !unknown_invocation
    approval: !approval_expired
reject: !no_approval_waiting
    absent: !unknown_invocation
    approval: approval_refused turn_committed
reject another proposal: !no_approval_waiting
    absent: !unknown_invocation
    approval: !wrong_proposal
clarify: !no_question_waiting
    absent: !unknown_invocation
    clarification: clarification_given turn_committed
clarify another step: !no_question_waiting
    absent: !unknown_invocation
    clarification: !wrong_question
resolve effect: call_settled turn_committed
    absent: !unknown_invocation
    deciding, approval, clarification: !duplicate
    released: !stale
    cancelling/claimed, cancelling/unknown: call_settled ended
    ended/claimed, ended/unknown: effect_settled_late
deadline: !stale
    deciding, approval, clarification, operator: cancel_requested ended
    released: cancel_requested call_settled call_settled ended
    claimed, unknown: cancel_requested
    backoff: cancel_requested call_settled ended
decide timer: !stale
    deciding: turn_reissued
approval expiry: !stale
    approval: approval_refused turn_committed
timer of the read: !stale
    released: attempt_failed
timer of the effect: !stale
    released, backoff: call_released
    claimed, cancelling/claimed, ended/claimed: effect_unknown probe_requested
    unknown, cancelling/unknown, ended/unknown: probe_requested
grace: !stale
    cancelling/claimed, cancelling/unknown: ended
";

fn batch() -> Vec<AcceptedCall> {
    vec![call("a", LOOKUP, json!({"q": 1})), call("b", REFUND, json!({"order": 7}))]
}

/// A run in the phase of a column.
fn in_phase(phase: &str) -> World {
    let mut world = World::new();
    if phase == "absent" {
        return world;
    }
    world.request(request()).unwrap();
    world.plan(batch()).unwrap();
    if phase == "released" {
        return world;
    }
    let (a, b) = (world.dispatches()[0].clone(), world.dispatches()[1].clone());
    world.settle(&a, ok(json!(1))).unwrap();
    world.claim(&b).unwrap();
    let (phase, stage) = phase.split_once('/').unwrap_or((phase, phase));
    match stage {
        "deciding" | "approval" | "clarification" => drop(world.settle(&b, committed("r1")).unwrap()),
        "unknown" | "operator" => {
            let unknown = AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) };
            world.settle(&b, unknown).unwrap();
        }
        "backoff" => {
            let nothing = AttemptOutcome::NothingSent { error: error(ErrorClass::Unavailable) };
            world.settle(&b, nothing).unwrap();
        }
        "claimed" => {}
        other => panic!("{other}"),
    }
    match phase {
        "approval" => drop(world.judge(gated()).unwrap()),
        "clarification" => {
            let decision = AcceptedDecision::Clarification { question: "which?".into() };
            world.judge(Judgement::Accepted { decision, evidence: evidence() }).unwrap();
        }
        "operator" => {
            let query = world.query();
            world.say(&query, Answer::Unanswerable { why: "no endpoint".into() }).unwrap();
        }
        "cancelling" => drop(world.cancel().unwrap()),
        "ended" => {
            world.cancel().unwrap();
            world.fire(TimerName::Grace).unwrap();
        }
        "deciding" | "claimed" | "unknown" | "backoff" => {}
        other => panic!("{other}"),
    }
    world
}

fn gated() -> Judgement {
    Judgement::ApprovalRequired {
        decision: AcceptedDecision::ToolCalls { calls: vec![call("c", REFUND, json!({"order": 8}))] },
        reasons: vec![ApprovalReason::asked_by_model()],
        four_eyes: true,
        ttl_ms: None,
        evidence: evidence(),
    }
}

/// What an input does in a world: the names of its facts, or the reason for none.
fn act(world: &mut World, input: &str) -> Result<Vec<&'static str>, Ignored> {
    // The dispatch and the question of another run's first call, where this one has none.
    let other = in_phase("unknown");
    let dispatches = if world.dispatches().is_empty() { other.dispatches() } else { world.dispatches() };
    let (a, b) = (dispatches[0].clone(), dispatches[1].clone());
    let asked = world.out.iter().any(|message| matches!(message, Message::EffectQueried(_)));
    let query = if asked { world.query() } else { EffectQueried { scope: b.scope.clone(), ..other.query() } };
    let proposal =
        world.ends().pop().and_then(|end| end.proposal).map_or(Digest::default(), |proposal| proposal.digest);
    let failed = |class| AttemptOutcome::Failed { error: error(class) };
    let control = |world: &mut World, control| world.input(Input::Control(control));
    let fire = |world: &mut World, name: TimerName| {
        let due = timers(&world.state).into_iter().find(|timer| timer.name == name).map(|timer| timer.due);
        world.now = world.now.max(due.unwrap_or_default());
        world.input(Input::TimerFired(name))
    };
    match input {
        "request again" => world.request(request()),
        "another request" => world.request(Request { goal: json!("refund order 9"), ..request() }),
        "verdict for this turn" => {
            let scope = if world.out.is_empty() { other.turn().scope } else { world.turn().scope };
            let decision = AcceptedDecision::Final { answer: json!("done") };
            let judgement = Judgement::Accepted { decision, evidence: evidence() };
            let digest = Digest::default();
            let verdict = Verdict { scope, judgement, registry_digest: digest, policy_digest: digest };
            world.input(Input::Verdict(Box::new(verdict)))
        }
        "verdict for another turn" => {
            let mut scope = if world.out.is_empty() { other.turn().scope } else { world.turn().scope };
            scope.round = scope.round.next();
            let judgement = Judgement::DecisionFailed { message: "down".into() };
            let digest = Digest::default();
            let verdict = Verdict { scope, judgement, registry_digest: digest, policy_digest: digest };
            world.input(Input::Verdict(Box::new(verdict)))
        }
        "claim" => world.claim(&b),
        "claim of an older attempt" => world.claim(&ToolCallDispatched { attempt: AttemptNumber(0), ..b }),
        "claim past its lease" => {
            world.now = world.now.plus_ms(1_001);
            world.claim(&b)
        }
        "read succeeds" => world.settle(&a, ok(json!(1))),
        "read fails for now" => world.settle(&a, failed(ErrorClass::Unavailable)),
        "effect committed" => world.settle(&b, committed("r1")),
        "effect rejected" => world.settle(&b, failed(ErrorClass::BusinessRejected)),
        "nothing was sent" => world.settle(&b, AttemptOutcome::NothingSent { error: error(ErrorClass::Unavailable) }),
        "outcome unknown" => world.settle(&b, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }),
        "owner says committed" => world.say(&query, Answer::Certain { outcome: effect_committed("r1") }),
        "owner says committed otherwise" => world.say(&query, Answer::Certain { outcome: effect_committed("r2") }),
        "owner says not applied" => {
            let settled_at = query.lease_until.plus_ms(1_500);
            if let Some(Stage::Unknown(unknown)) = stage(world) {
                unknown.probed_at = settled_at;
            }
            world.now = world.now.max(settled_at);
            world.say(&query, Answer::NotApplied)
        }
        "owner says pending" => world.say(&query, Answer::Pending { retry_after_ms: 10 }),
        "owner says unanswerable" => world.say(&query, Answer::Unanswerable { why: "no endpoint".into() }),
        "cancel" => world.cancel(),
        "approve" => control(world, Control::Approve { actor: "grace".into(), proposal_digest: proposal }),
        "approve by the actor" => control(world, Control::Approve { actor: "ada".into(), proposal_digest: proposal }),
        "approve another proposal" => {
            let digest = Digest::of("another", &[]);
            control(world, Control::Approve { actor: "grace".into(), proposal_digest: digest })
        }
        "approve too late" => {
            if let Some(due) = timers(&world.state).iter().find(|timer| timer.name == TimerName::Approval) {
                world.state.run.as_mut().unwrap().deadline = None;
                world.now = due.due;
            }
            control(world, Control::Approve { actor: "grace".into(), proposal_digest: proposal })
        }
        "reject" => {
            let (actor, reason) = ("ada".into(), "no".into());
            control(world, Control::Reject { actor, proposal_digest: proposal, reason })
        }
        "reject another proposal" => {
            let (actor, reason, proposal_digest) = ("ada".into(), "no".into(), Digest::of("another", &[]));
            control(world, Control::Reject { actor, proposal_digest, reason })
        }
        "clarify" => control(world, Control::Clarify { actor: "ada".into(), answer: json!("7"), step: None }),
        "clarify another step" => {
            control(world, Control::Clarify { actor: "ada".into(), answer: json!("7"), step: Some(Step(9)) })
        }
        "resolve effect" => {
            let key = b.effect.unwrap().key;
            let (actor, outcome, evidence) = ("grace".into(), effect_committed("r1"), "seen".into());
            control(world, Control::ResolveEffect { actor, effect_key: key, outcome, evidence })
        }
        "deadline" => fire(world, TimerName::Deadline),
        "decide timer" => fire(world, TimerName::Decide),
        "approval expiry" => {
            if let Some(run) = world.state.run.as_mut() {
                run.deadline = None;
            }
            fire(world, TimerName::Approval)
        }
        "timer of the read" => fire(world, TimerName::Call(a.call_id)),
        "timer of the effect" => fire(world, TimerName::Call(b.call_id)),
        "grace" => fire(world, TimerName::Grace),
        other => panic!("{other}"),
    }
}

/// The stage of the refund.
fn stage(world: &mut World) -> Option<&mut Stage> {
    world.state.execution_mut().map(|execution| &mut execution.calls[1].stage)
}

/// The table's rows: an input, and what it does in each phase.
fn rows() -> Vec<(&'static str, BTreeMap<&'static str, &'static str>)> {
    let mut rows = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        let (names, cell) = line.split_once(": ").expect("a row names an input or phases");
        if let Some(phases) = names.strip_prefix("    ") {
            let (_, cells): &mut (&str, BTreeMap<_, _>) = rows.last_mut().expect("a row before its exceptions");
            for phase in phases.split(", ") {
                assert!(cells.insert(phase, cell).is_some(), "{phase} is no phase");
            }
        } else {
            rows.push((names, PHASES.iter().map(|phase| (*phase, cell)).collect()));
        }
    }
    rows
}

#[test]
fn every_cell_of_the_table_does_what_it_says() {
    let mut wrong = Vec::new();
    for (input, cells) in rows() {
        for (phase, expected) in cells {
            let mut world = in_phase(phase);
            let found = match act(&mut world, input) {
                Ok(facts) => facts.join(" "),
                Err(ignored) => format!("!{}", ignored.as_str()),
            };
            if found != expected {
                wrong.push(format!("{input} / {phase}: {found}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
