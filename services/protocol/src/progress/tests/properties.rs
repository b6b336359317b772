//! Random turns.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::AttemptNumber;

fn turns() -> impl Strategy<Value = Vec<Vec<(u8, u8, u8)>>> {
    prop::collection::vec(prop::collection::vec((0..5_u8, 0..3_u8, 0..6_u8), 1..4), 1..80)
}

fn drawn(turn: &[(u8, u8, u8)]) -> (Vec<AcceptedCall>, Vec<CallOutcome>) {
    let tools = ["a", "b", "c", "poll", "poll_page"];
    let calls = turn.iter().enumerate().map(|(i, (tool, n, _))| {
        let mut call = call(tools[usize::from(*tool)], json!({"n": n}));
        call.call.provider_call_id = AttemptNumber(u32::try_from(i).unwrap()).to_string();
        call
    });
    let outcomes = turn.iter().map(|(_, _, said)| match said {
        0 => failure(ErrorClass::Conflict),
        1 => failure(ErrorClass::Skipped),
        2 => CallOutcome { effect_status: Some(EffectStatus::Committed), ..output(json!(0)) },
        said => output(json!(said)),
    });
    (calls.collect(), outcomes.collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(500), ..ProptestConfig::default() })]

    /// Whatever happens: the state stays within its bounds and reads back as it was stored, an exempt plan is never
    /// stopped, limits that are off stop nothing, and a signal stops a plan only where its limit is reached.
    #[test]
    fn progress_is_bounded_and_stops_nothing_without_a_limit(turns in turns(), limit in 1..5_u32) {
        let goals = [goal("g", "a", json!({"equals": 4}))];
        let window = 4;
        let one = Limit::after(limit);
        let limits = ProgressLimits {
            window, evidence_repeats: one, no_state_delta: one, unmet_goal_predicates: one, error_cycle: one,
        };
        let (mut strict, mut lax) = (Run(Progress::new(limits, &goals)), Run(Progress::new(only(|_| {}), &goals)));
        let mut last = TurnProgress::default();
        for turn in &turns {
            let (calls, outcomes) = drawn(turn);
            prop_assert_eq!(lax.stopped_by(&calls, u32::MAX), [""; 0]);
            let stopped = strict.stopped_by(&calls, u32::MAX);
            if calls.iter().all(|call| call.contract.polling) {
                prop_assert_eq!(&stopped, &[""; 0]);
            } else {
                let stands = |signal: &str| stopped.iter().any(|name| name == signal);
                prop_assert_eq!(stands("no_state_delta"), last.no_state_delta >= limit);
                prop_assert_eq!(stands("unmet_goal_predicates"), last.unmet_goal_predicates >= limit);
                prop_assert!(!stands("error_cycle") || last.error_cycle >= limit);
            }
            last = strict.turn(&calls, &outcomes);
            lax.turn(&calls, &outcomes);
            prop_assert!(last.evidence_repeats < window && strict.0.window.len() <= 4);
            prop_assert!(strict.0.evidence.len() <= MAX_EVIDENCE && strict.0.errors.len() <= MAX_ERROR_STREAKS);
            prop_assert!(last.new_results == 0 || last.no_state_delta == 0);
            let stored = serde_json::to_vec(&strict.0).unwrap();
            prop_assert_eq!(&serde_json::from_slice::<Progress>(&stored).unwrap(), &strict.0);
        }
    }
}
