//! One transcript per branch; each name says what must hold.

use serde_json::json;

use super::world::*;
use crate::*;

fn refund_claimed() -> (World, ToolCallDispatched) {
    let mut world = World::admitted();
    world.plan(vec![call("a", REFUND, json!({"order": 7}))]).unwrap();
    let dispatch = world.last_dispatch();
    assert_eq!(world.claim(&dispatch).unwrap(), ["call_claimed"]);
    (world, dispatch)
}

fn refund_unknown() -> (World, EffectQueried) {
    let (mut world, dispatch) = refund_claimed();
    let outcome = AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) };
    assert_eq!(world.settle(&dispatch, outcome).unwrap(), ["effect_unknown", "probe_requested"]);
    let query = world.query();
    (world, query)
}

#[test]
fn direct_answer_completes_in_one_step() {
    let mut world = World::admitted();
    assert_eq!(world.answer(json!("done")).unwrap(), ["turn_committed", "ended"]);
    let end = world.last_end();
    assert_eq!((end.reason, end.answer), (TerminalReason::Completed, Some(json!("done"))));
    assert_eq!((end.spent.steps, end.spent.tool_calls, end.spent.usage.tokens()), (1, 0, 15));
    assert_eq!(timers(&world.state), []);
}

#[test]
fn parallel_results_out_of_order_are_committed_in_proposal_order() {
    let mut world = World::admitted();
    let calls = vec![call("a", LOOKUP, json!({"q": "profile"})), call("b", LOOKUP, json!({"q": "policy"}))];
    assert_eq!(world.plan(calls).unwrap(), ["turn_planned", "wave_released"]);
    let dispatches = world.dispatches();
    assert_eq!(dispatches.len(), 2);
    assert_eq!(world.settle(&dispatches[1], ok(json!("second"))).unwrap(), ["call_settled"]);
    assert_eq!(world.settle(&dispatches[0], ok(json!("first"))).unwrap(), ["call_settled", "turn_committed"]);
    let Fact::TurnCommitted(turn) = &world.events.last().unwrap().fact else { panic!("no turn") };
    let outputs: Vec<_> = turn.results.iter().map(|r| (r.provider_call_id.as_str(), &r.outcome.result)).collect();
    assert_eq!(outputs[0], ("a", &CallResult::Output(json!("first"))));
    assert_eq!(outputs[1], ("b", &CallResult::Output(json!("second"))));
    assert_eq!(world.turn().scope.step, Step(2));
    assert_eq!(world.settle(&dispatches[0], ok(json!("late"))), Err(Ignored::Stale));
}

#[test]
fn a_read_of_what_the_refund_writes_waits_for_it() {
    let mut world = World::admitted();
    let order = json!({"order": 7});
    let calls = vec![call("a", REFUND, order.clone()), call("b", "read_order", order), call("c", LOOKUP, json!({}))];
    world.plan(calls).unwrap();
    let tools = |world: &World| world.dispatches().iter().map(|d| d.tool.0.clone()).collect::<Vec<_>>();
    assert_eq!(tools(&world), [REFUND, LOOKUP]);
    let first = world.dispatches()[0].clone();
    let lookup = world.last_dispatch();
    world.claim(&first).unwrap();
    world.settle(&first, committed("r1")).unwrap();
    assert_eq!(tools(&world), [REFUND, LOOKUP], "the wave is not finished");
    assert_eq!(world.settle(&lookup, ok(json!(1))).unwrap(), ["call_settled", "wave_released"]);
    assert_eq!(tools(&world), [REFUND, LOOKUP, "read_order"]);
}

#[test]
fn a_dependant_of_a_rejected_call_is_skipped() {
    let mut world = World::admitted();
    let order = json!({"order": 7});
    world.plan(vec![call("a", REFUND, order.clone()), call("b", "read_order", order)]).unwrap();
    let dispatch = world.last_dispatch();
    world.claim(&dispatch).unwrap();
    let outcome = AttemptOutcome::Failed { error: error(ErrorClass::BusinessRejected) };
    assert_eq!(world.settle(&dispatch, outcome).unwrap(), ["call_settled", "call_settled", "turn_committed"]);
    let Fact::TurnCommitted(turn) = &world.events.last().unwrap().fact else { panic!("no turn") };
    let classes: Vec<_> = turn
        .results
        .iter()
        .map(|r| match &r.outcome.result {
            CallResult::Error(error) => error.class,
            CallResult::Output(_) => panic!("no output was expected"),
        })
        .collect();
    assert_eq!(classes, [ErrorClass::BusinessRejected, ErrorClass::Skipped]);
    assert_eq!(world.entry().status, EffectStatus::Rejected);
}

#[test]
fn a_repeated_plan_stops_before_it_runs_again() {
    let mut world = World::admitted();
    for trace in 0..2 {
        world.plan(vec![call("a", LOOKUP, json!({"q": 1, "trace": trace}))]).unwrap();
        let dispatch = world.last_dispatch();
        world.settle(&dispatch, ok(json!("same"))).unwrap();
    }
    let third = world.plan(vec![call("x", LOOKUP, json!({"q": 1, "trace": 9}))]).unwrap();
    assert_eq!(third, ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::NoProgress);
    assert_eq!(world.dispatches().len(), 2);
}

#[test]
fn an_invalid_decision_is_repaired_once_then_ends() {
    let mut world = World::admitted();
    assert_eq!(world.reject(FindingCode::UnknownTool).unwrap(), ["decision_rejected"]);
    assert_eq!((world.turn().scope.step, world.turn().scope.round), (Step(1), Round(1)));
    assert_eq!(world.reject(FindingCode::UnknownTool).unwrap(), ["decision_rejected", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::InvalidDecision);

    let mut denied = World::admitted();
    denied.reject(FindingCode::Unauthorized).unwrap();
    denied.reject(FindingCode::Unauthorized).unwrap();
    assert_eq!(denied.last_end().reason, TerminalReason::PermissionDenied);
}

#[test]
fn a_verdict_for_another_round_is_stale() {
    let mut world = World::admitted();
    let first = world.turn();
    world.reject(FindingCode::UnknownTool).unwrap();
    let verdict = Verdict {
        scope: first.scope,
        judgement: Judgement::DecisionFailed { message: "late".into() },
        registry_digest: Digest::default(),
        policy_digest: Digest::default(),
    };
    assert_eq!(world.input(Input::Verdict(Box::new(verdict))), Err(Ignored::Stale));
}

#[test]
fn a_failed_decision_ends_model_error() {
    let mut world = World::admitted();
    world.judge(Judgement::DecisionFailed { message: "503 for a minute".into() }).unwrap();
    assert_eq!(world.last_end().reason, TerminalReason::ModelError);
}

#[test]
fn a_silent_model_is_asked_again_and_then_ends_model_error() {
    let mut world = World::admitted();
    let basis = world.turn().scope.basis;
    for _ in 0..3 {
        assert_eq!(world.fire(TimerName::Decide).unwrap(), ["turn_reissued"]);
        assert_eq!(world.turn().scope.basis, basis, "the turn keeps its first basis");
    }
    assert_eq!(world.fire(TimerName::Decide).unwrap(), ["ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::ModelError);
}

#[test]
fn budgets_end_the_run_by_name() {
    let mut steps = World::admitted();
    for i in 0..4 {
        steps.plan(vec![call("a", LOOKUP, json!({"q": i}))]).unwrap();
        let dispatch = steps.last_dispatch();
        steps.settle(&dispatch, ok(json!(i))).unwrap();
    }
    assert_eq!(steps.last_end().reason, TerminalReason::MaxSteps);

    let mut calls = World::admitted();
    calls.plan((0..7).map(|i| call(&format!("c{i}"), LOOKUP, json!({"q": i}))).collect()).unwrap();
    assert_eq!(calls.last_end().reason, TerminalReason::ToolBudgetExhausted);
    assert_eq!(calls.dispatches().len(), 0);

    for (evidence, reason) in [
        (Usage { input_tokens: 2_000, output_tokens: 0, cost_micros: 0 }, TerminalReason::TokenBudgetExhausted),
        (Usage { input_tokens: 0, output_tokens: 0, cost_micros: 2_000 }, TerminalReason::CostBudgetExhausted),
    ] {
        let mut world = World::admitted();
        let evidence = ModelEvidence { usage: evidence, ..super::world::evidence() };
        let decision = AcceptedDecision::ToolCalls { calls: vec![call("a", LOOKUP, json!({}))] };
        world.judge(Judgement::Accepted { decision, evidence }).unwrap();
        assert_eq!(world.last_end().reason, reason);
        assert_eq!(world.dispatches().len(), 0);
    }
}

#[test]
fn admission_refuses_what_the_profile_does_not_allow() {
    for (change, reason) in [
        (json!({"budget": {"max_steps": 11}}), TerminalReason::InvalidRequest),
        (json!({"tools": ["delete_everything"]}), TerminalReason::InvalidRequest),
        (json!({"deadline": 10}), TerminalReason::DeadlineExceeded),
    ] {
        let mut body = serde_json::to_value(request()).unwrap();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let mut world = World::new();
        world.request(serde_json::from_value(body).unwrap()).unwrap();
        assert_eq!(world.last_end().reason, reason, "{change}");
    }
}

#[test]
fn the_same_request_again_is_a_duplicate_and_another_is_a_conflict() {
    let mut world = World::admitted();
    assert_eq!(world.request(request()), Err(Ignored::Duplicate));
    let other = Request { goal: json!("refund order 8"), ..request() };
    assert_eq!(world.request(other), Err(Ignored::Conflict));
}

#[test]
fn a_request_older_than_the_horizon_or_from_the_future_is_never_run() {
    let mut world = World::new();
    world.now = Timestamp(5_000_000);
    let at = |ms| Request { requested_at: Some(Timestamp(ms)), deadline: None, ..request() };
    assert_eq!(world.request(at(3_999_999)), Err(Ignored::ExpiredRequest));
    assert_eq!(world.request(at(5_300_001)), Err(Ignored::FutureRequest));
    assert_eq!(world.request(at(4_000_000)).unwrap(), ["admitted"]);
    assert_eq!(world.request(at(4_000_000)), Err(Ignored::Duplicate));
}

#[test]
fn a_cancel_that_overtakes_its_request_is_kept() {
    let mut world = World::new();
    assert_eq!(world.cancel(), Err(Ignored::OvertakesRequest));
    world.state = world.state.clone().with_stub("ada".into(), "too late".into());
    assert_eq!(world.cancel(), Err(Ignored::Duplicate));
    assert_eq!(world.request(request()).unwrap(), ["admitted", "cancel_requested", "ended"]);
    assert_eq!(world.last_end().reason, TerminalReason::Cancelled);
}

#[test]
fn no_effect_is_claimed_after_the_cancel_and_one_in_flight_is_waited_for() {
    let mut world = World::admitted();
    let calls = vec![call("a", REFUND, json!({"order": 7})), call("b", REFUND, json!({"order": 8}))];
    world.plan(calls).unwrap();
    let dispatches = world.dispatches();
    world.claim(&dispatches[0]).unwrap();
    assert_eq!(world.cancel().unwrap(), ["cancel_requested", "call_settled"]);
    assert_eq!(world.claim(&dispatches[1]), Err(Ignored::Claim(ClaimRefusal::Revoked)));
    assert_eq!(world.cancel(), Err(Ignored::Duplicate));
    assert_eq!(world.settle(&dispatches[0], committed("r1")).unwrap(), ["call_settled", "ended"]);
    let end = world.last_end();
    assert_eq!((end.reason, end.effects_unresolved), (TerminalReason::Cancelled, false));
    assert!(end.effects.iter().any(|effect| effect.status == EffectStatus::Committed));
}

#[test]
fn the_grace_ends_a_cancelled_run_and_the_effect_is_still_reconciled() {
    let (mut world, dispatch) = refund_claimed();
    world.cancel().unwrap();
    assert_eq!(world.fire(TimerName::Grace).unwrap(), ["ended"]);
    assert!(world.last_end().effects_unresolved);
    let name = TimerName::Call(dispatch.call_id);
    assert_eq!(world.fire(name).unwrap(), ["effect_unknown", "probe_requested"]);
    let query = world.query();
    let certain = Answer::Certain { outcome: effect_committed("r1") };
    assert_eq!(world.say(&query, certain.clone()).unwrap(), ["effect_settled_late"]);
    assert_eq!(world.entry().status, EffectStatus::Committed);
    assert_eq!(world.say(&query, certain), Err(Ignored::Duplicate));
    assert_eq!(world.ends().len(), 1);
    assert_eq!(timers(&world.state), []);
}

#[test]
fn the_deadline_stops_every_phase() {
    let mut deciding = World::admitted();
    assert_eq!(deciding.fire(TimerName::Deadline).unwrap(), ["cancel_requested", "ended"]);
    assert_eq!(deciding.last_end().reason, TerminalReason::DeadlineExceeded);

    let (mut executing, dispatch) = refund_claimed();
    executing.now = Timestamp(2_000_000);
    assert_eq!(executing.input(Input::TimerFired(TimerName::Deadline)).unwrap(), ["cancel_requested"]);
    executing.settle(&dispatch, committed("r1")).unwrap();
    assert_eq!(executing.last_end().reason, TerminalReason::DeadlineExceeded);
}

#[test]
fn a_timer_that_fires_early_or_late_changes_nothing() {
    let mut world = World::admitted();
    assert_eq!(world.input(Input::TimerFired(TimerName::Decide)), Err(Ignored::NotYet));
    assert_eq!(world.input(Input::TimerFired(TimerName::Grace)), Err(Ignored::Stale));
}

#[test]
fn a_claim_is_granted_once_and_only_to_the_current_attempt() {
    let (mut world, dispatch) = refund_claimed();
    assert_eq!(world.claim(&dispatch), Err(Ignored::Claim(ClaimRefusal::Held)));
    world.now = world.now.plus_ms(1_001);
    assert_eq!(world.claim(&dispatch), Err(Ignored::Claim(ClaimRefusal::Expired)));
    let outcome = AttemptOutcome::Unknown { error: error(ErrorClass::OutcomeUnknown) };
    world.settle(&dispatch, outcome).unwrap();
    assert_eq!(world.claim(&dispatch), Err(Ignored::Claim(ClaimRefusal::Superseded)));
    let foreign = ToolCallDispatched { call_id: CallId(uuid::Uuid::nil()), ..dispatch };
    assert_eq!(world.claim(&foreign), Err(Ignored::Claim(ClaimRefusal::Superseded)));
}

#[test]
fn an_unknown_outcome_is_answered_by_the_owner_and_the_model_is_not_asked_meanwhile() {
    let (mut world, query) = refund_unknown();
    assert_eq!(world.turn().scope.step, Step(1));
    assert_eq!(world.entry().status, EffectStatus::Reconciling);
    let certain = Answer::Certain { outcome: effect_committed("r1") };
    assert_eq!(world.say(&query, certain).unwrap(), ["call_settled", "turn_committed"]);
    assert_eq!(world.turn().scope.step, Step(2));
    let entry = world.entry();
    assert_eq!((entry.status, entry.resolved_by), (EffectStatus::Committed, Some(ResolvedBy::Reconciler)));
}

#[test]
fn not_found_counts_only_after_the_settle_window() {
    let (mut world, query) = refund_unknown();
    assert_eq!(world.say(&query, Answer::NotApplied).unwrap(), ["effect_resolved"]);
    let name = TimerName::Call(query.call_id);
    let settled_at = query.lease_until.plus_ms(1_500);
    assert!(timers(&world.state).iter().any(|timer| timer.name == name && timer.due >= settled_at));
    assert_eq!(world.say(&query, Answer::NotApplied), Err(Ignored::Stale), "the same answer is applied once");
    assert_eq!(world.fire(name).unwrap(), ["probe_requested"]);
    let second = world.query();
    assert_eq!(world.say(&query, Answer::NotApplied), Err(Ignored::Stale), "an older probe does not count");
    assert_eq!(world.say(&second, Answer::NotApplied).unwrap(), ["effect_resolved", "call_released"]);
    let again = world.last_dispatch();
    assert_eq!(again.attempt, AttemptNumber(2));
    assert_eq!(again.effect.unwrap().key, query.effect_key, "the key is the same for every attempt");
}

#[test]
fn an_owner_that_cannot_say_suspends_the_run_and_a_person_resumes_it() {
    let (mut world, query) = refund_unknown();
    let why = "no reconcile endpoint".to_owned();
    let facts = world.say(&query, Answer::Unanswerable { why }).unwrap();
    assert_eq!(facts, ["effect_resolved", "reconciliation_required"]);
    let end = world.last_end();
    assert_eq!((end.reason, end.resumable, end.segment), (TerminalReason::ReconciliationRequired, true, Segment(1)));
    assert!(end.effects_unresolved);
    let resolve = Input::Control(Control::ResolveEffect {
        actor: "grace".into(),
        effect_key: query.effect_key.clone(),
        outcome: effect_committed("r1"),
        evidence: "bank statement 17".into(),
    });
    assert_eq!(world.input(resolve.clone()).unwrap(), ["call_settled", "turn_committed"]);
    assert_eq!(world.input(resolve), Err(Ignored::Duplicate));
    world.answer(json!("refunded")).unwrap();
    let end = world.last_end();
    assert_eq!((end.reason, end.segment), (TerminalReason::Completed, Segment(2)));
    assert!(matches!(world.entry().resolved_by, Some(ResolvedBy::Operator { .. })));
}

#[test]
fn a_suspended_run_can_still_be_cancelled_in_a_segment_of_its_own() {
    let (mut world, query) = refund_unknown();
    world.say(&query, Answer::Unanswerable { why: "no endpoint".into() }).unwrap();
    assert_eq!(world.cancel().unwrap(), ["cancel_requested", "ended"]);
    let end = world.last_end();
    assert_eq!((end.reason, end.segment, end.effects_unresolved), (TerminalReason::Cancelled, Segment(2), true));
}

#[test]
fn an_owner_that_stays_silent_is_asked_a_bounded_number_of_times() {
    let (mut world, query) = refund_unknown();
    let name = TimerName::Call(query.call_id);
    assert_eq!(world.fire(name).unwrap(), ["probe_requested"]);
    assert_eq!(world.fire(name).unwrap(), ["probe_requested"]);
    assert_eq!(world.fire(name).unwrap(), ["effect_resolved", "reconciliation_required"]);
}

#[test]
fn an_owner_that_does_not_enforce_the_key_cannot_say_not_applied() {
    let (mut world, query) = refund_unknown();
    let execution = world.state.execution_mut().unwrap();
    execution.plan.calls[0].contract.effect.as_mut().unwrap().dedupe = Dedupe::None;
    let facts = world.say(&query, Answer::NotApplied).unwrap();
    assert_eq!(facts, ["effect_resolved", "reconciliation_required"]);
}

#[test]
fn a_contradicting_word_is_recorded_as_a_conflict_and_changes_nothing_else() {
    let (mut world, dispatch) = refund_claimed();
    world.settle(&dispatch, committed("r1")).unwrap();
    assert_eq!(world.settle(&dispatch, committed("r2")).unwrap(), ["effect_conflict"]);
    assert_eq!(world.settle(&dispatch, committed("r2")), Err(Ignored::Duplicate));
    let entry = world.entry();
    assert!(entry.conflicting);
    assert_eq!(entry.outcome, Some(effect_committed("r1")));
}

#[test]
fn nothing_sent_is_retried_with_the_same_key_and_then_ends_the_call() {
    let (mut world, dispatch) = refund_claimed();
    let nothing = || AttemptOutcome::NothingSent { error: error(ErrorClass::Unavailable) };
    assert_eq!(world.settle(&dispatch, nothing()).unwrap(), ["attempt_failed"]);
    assert_eq!(world.entry().status, EffectStatus::Prepared);
    let name = TimerName::Call(dispatch.call_id);
    for attempt in 2..=3 {
        assert_eq!(world.fire(name).unwrap(), ["call_released"]);
        let again = world.last_dispatch();
        assert_eq!(again.attempt, AttemptNumber(attempt));
        assert_eq!(again.effect, dispatch.effect);
        world.claim(&again).unwrap();
        let facts = world.settle(&again, nothing()).unwrap();
        let expected: &[&str] =
            if attempt == 3 { &["attempt_failed", "call_settled", "turn_committed"] } else { &["attempt_failed"] };
        assert_eq!(facts, expected);
    }
}

#[test]
fn a_read_is_retried_on_a_transient_error_only() {
    let mut world = World::admitted();
    world.plan(vec![call("a", LOOKUP, json!({}))]).unwrap();
    let dispatch = world.last_dispatch();
    let failed = |class| AttemptOutcome::Failed { error: error(class) };
    assert_eq!(world.settle(&dispatch, failed(ErrorClass::Unavailable)).unwrap(), ["attempt_failed"]);
    assert_eq!(world.settle(&dispatch, failed(ErrorClass::Unavailable)), Err(Ignored::Stale));
    world.fire(TimerName::Call(dispatch.call_id)).unwrap();
    let second = world.last_dispatch();
    let facts = world.settle(&second, failed(ErrorClass::InvalidArguments)).unwrap();
    assert_eq!(facts, ["call_settled", "turn_committed"]);
}

#[test]
fn a_lost_read_is_a_timeout_and_a_lost_dispatch_is_released_again() {
    let mut read = World::admitted();
    read.plan(vec![call("a", LOOKUP, json!({}))]).unwrap();
    let name = TimerName::Call(read.last_dispatch().call_id);
    assert_eq!(read.fire(name).unwrap(), ["attempt_failed"]);
    assert_eq!(read.fire(name).unwrap(), ["call_released"]);

    let mut effect = World::admitted();
    effect.plan(vec![call("a", REFUND, json!({"order": 7}))]).unwrap();
    let name = TimerName::Call(effect.last_dispatch().call_id);
    for _ in 0..5 {
        assert_eq!(effect.fire(name).unwrap(), ["call_released"]);
    }
    assert_eq!(effect.fire(name).unwrap(), ["call_settled", "turn_committed"]);
    let Fact::TurnCommitted(turn) = &effect.events.last().unwrap().fact else { panic!("no turn") };
    assert!(matches!(&turn.results[0].outcome.result, CallResult::Error(e) if e.class == ErrorClass::Unavailable));
}

#[test]
fn the_same_change_proposed_again_gets_the_recorded_outcome() {
    let (mut world, dispatch) = refund_claimed();
    world.settle(&dispatch, committed("r1")).unwrap();
    let facts = world.plan(vec![call("b", REFUND, json!({"order": 7}))]).unwrap();
    assert_eq!(facts, ["turn_planned", "call_settled", "turn_committed"]);
    assert_eq!(world.dispatches().len(), 1);
    let mut other = call("c", REFUND, json!({"order": 7, "amount": 9}));
    other.contract.volatile.clear();
    world.plan(vec![other]).unwrap();
    let Fact::TurnCommitted(turn) = &world.events.last().unwrap().fact else { panic!("no turn") };
    assert!(matches!(&turn.results[0].outcome.result, CallResult::Error(e) if e.class == ErrorClass::Conflict));
    assert_eq!(world.dispatches().len(), 1);
}

#[test]
fn a_basis_that_the_store_does_not_have_proves_a_lost_commit() {
    let (mut world, dispatch) = refund_claimed();
    let mut ahead = settled(&dispatch, committed("r1"));
    ahead.scope.basis.version = Version(99);
    let expected = Err(Ignored::LostCommit(ahead.scope.basis));
    assert_eq!(world.input(Input::CallSettled(Box::new(ahead))), expected);
    let mut forked = settled(&dispatch, committed("r1"));
    world.state.hash_at = Some((forked.scope.basis.version, forked.scope.basis.hash));
    forked.scope.basis.hash = Digest::of("other", &[]);
    let expected = Err(Ignored::LostCommit(forked.scope.basis));
    assert_eq!(world.input(Input::CallSettled(Box::new(forked))), expected);
}

#[test]
fn retries_stop_where_the_tool_budget_does() {
    let mut world = World::admitted();
    let calls = (0..6).map(|i| call(&format!("c{i}"), LOOKUP, json!({"q": i}))).collect();
    world.plan(calls).unwrap();
    let dispatch = world.last_dispatch();
    let outcome = AttemptOutcome::Failed { error: error(ErrorClass::Unavailable) };
    assert_eq!(world.settle(&dispatch, outcome).unwrap(), ["call_settled"]);
}
