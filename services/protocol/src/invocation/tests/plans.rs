//! Plans that a profile, a tool declaration or a person stops: mixed batches, required tools, refusals. Each test is one
//! transcript.

use serde_json::json;

use super::world::*;
use crate::*;

fn required() -> AcceptedCall {
    let mut call = call("a", LOOKUP, json!({"q": 1}));
    call.contract.required = true;
    call.contract.retry.max_attempts = 2;
    call
}

fn unavailable() -> AttemptOutcome {
    AttemptOutcome::Failed { error: error(ErrorClass::Unavailable) }
}

#[test]
fn a_required_tool_that_stays_unavailable_ends_the_run_after_its_turn() {
    let mut world = World::admitted();
    world.plan(vec![required(), call("b", "read_order", json!({"order": 7}))]).unwrap();
    let dispatches = world.dispatches();
    world.settle(&dispatches[1], ok(json!(7))).unwrap();
    assert_eq!(world.settle(&dispatches[0], unavailable()).unwrap(), ["attempt_failed"]);
    world.fire(TimerName::Call(dispatches[0].call_id)).unwrap();
    let again = world.last_dispatch();
    let facts = world.settle(&again, unavailable()).unwrap();
    assert_eq!(facts, ["call_settled", "turn_committed", "ended"]);
    let end = world.last_end();
    assert_eq!((end.reason, end.spent.steps), (TerminalReason::ToolUnavailable, 1));
    assert!(end.detail.contains(LOOKUP));
}

#[test]
fn another_error_of_a_required_tool_and_an_unavailable_other_tool_are_shown_to_the_model() {
    let mut world = World::admitted();
    world.plan(vec![required()]).unwrap();
    let not_found = AttemptOutcome::Failed { error: error(ErrorClass::NotFound) };
    let dispatch = world.last_dispatch();
    assert_eq!(world.settle(&dispatch, not_found).unwrap(), ["call_settled", "turn_committed"]);
    let mut other = required();
    (other.contract.required, other.contract.retry.max_attempts) = (false, 1);
    world.plan(vec![other]).unwrap();
    let dispatch = world.last_dispatch();
    assert_eq!(world.settle(&dispatch, unavailable()).unwrap(), ["call_settled", "turn_committed"]);
    assert_eq!(world.ends().len(), 0);
}

fn rejecting() -> World {
    let mut world = World::new();
    let request = request();
    let profile = Profile { mixed_batches: MixedBatches::Reject, ..profile() };
    let requested = Requested {
        digest: request.digest(),
        request,
        requested_at: world.now,
        profile: Some(profile),
        horizon_ms: 1_000_000,
    };
    world.input(Input::Requested(Box::new(requested))).unwrap();
    world
}

#[test]
fn a_profile_may_reject_a_batch_whose_calls_would_have_to_wait() {
    let mixed = || {
        let read = |id: &str, order: u32| call(id, "read_order", json!({"order": order}));
        vec![call("a", REFUND, json!({"order": 7})), read("b", 7), read("c", 8), read("d", 7)]
    };
    let mut world = rejecting();
    assert_eq!(world.plan(mixed()).unwrap(), ["decision_rejected"]);
    let Fact::DecisionRejected { findings, repair: true, .. } = &world.events.last().unwrap().fact else {
        panic!("no repair");
    };
    let found: Vec<_> = findings.iter().map(|finding| (finding.code, finding.path.as_str())).collect();
    assert_eq!(found, [(FindingCode::PlanRefused, "calls[1]"), (FindingCode::PlanRefused, "calls[3]")]);
    assert!(findings[1].message.contains("calls[0]"));
    assert_eq!(world.plan(mixed()).unwrap(), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::InvalidDecision);
    assert_eq!(World::admitted().plan(mixed()).unwrap(), ["turn_planned", "wave_released"], "others are ordered");
}

#[test]
fn a_batch_of_independent_calls_is_no_mixed_batch() {
    let mut world = rejecting();
    let calls = vec![call("a", REFUND, json!({"order": 7})), call("b", "read_order", json!({"order": 8}))];
    assert_eq!(world.plan(calls).unwrap(), ["turn_planned", "wave_released"]);
}

#[test]
fn an_unanswerable_effect_waits_for_the_rest_of_its_plan_before_a_person_is_called() {
    let mut world = World::admitted();
    world.plan(vec![call("a", LOOKUP, json!({"q": 1})), call("b", REFUND, json!({"order": 7}))]).unwrap();
    let (a, b) = (world.dispatches()[0].clone(), world.dispatches()[1].clone());
    world.claim(&b).unwrap();
    world.settle(&b, AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) }).unwrap();
    let query = world.query();
    let unanswerable = Answer::Unanswerable { why: "no endpoint".into() };
    assert_eq!(world.say(&query, unanswerable).unwrap(), ["effect_resolved"]);
    assert_eq!(world.settle(&a, ok(json!(1))).unwrap(), ["call_settled", "reconciliation_required"]);
}

#[test]
fn a_person_may_correct_an_owner_that_had_not_applied_the_change_but_says_nothing_of_what_never_started() {
    let mut world = World::admitted();
    world.plan(vec![call("b", REFUND, json!({"order": 7}))]).unwrap();
    let dispatch = world.last_dispatch();
    let resolve = |outcome| {
        let (actor, evidence) = ("grace".into(), "bank statement 17".into());
        let effect_key = dispatch.effect.clone().unwrap().key;
        Input::Control(Control::ResolveEffect { actor, effect_key, outcome, evidence })
    };
    assert_eq!(world.input(resolve(effect_committed("r1"))), Err(Ignored::Stale));
    world.claim(&dispatch).unwrap();
    world.settle(&dispatch, AttemptOutcome::NothingSent { error: error(ErrorClass::Unavailable) }).unwrap();
    assert_eq!(world.input(resolve(effect_committed("r1"))).unwrap(), ["call_settled", "turn_committed"]);
    assert_eq!(world.entry().status, EffectStatus::Committed);
}

#[test]
fn a_model_is_told_why_a_person_refused_where_that_was_said() {
    let told = |reason: &str| {
        let mut world = World::admitted();
        let calls = vec![call("a", REFUND, json!({"order": 7}))];
        let decision = AcceptedDecision::RequestApproval { calls };
        world.judge(Judgement::Accepted { decision, evidence: evidence() }).unwrap();
        let proposal_digest = world.last_end().proposal.unwrap().digest;
        let (actor, reason) = ("grace".into(), reason.into());
        world.input(Input::Control(Control::Reject { actor, proposal_digest, reason })).unwrap();
        match &world.events.last().unwrap().fact {
            Fact::TurnCommitted(turn) => turn.results[0].outcome.result.clone(),
            fact => panic!("{fact:?}"),
        }
    };
    let unauthorized = |message: &str| CallResult::Error(CallError::new(ErrorClass::Unauthorized, message));
    assert_eq!(told("too much"), unauthorized("a person refused this call: too much"));
    assert_eq!(told(""), unauthorized("a person refused this call"));
}
