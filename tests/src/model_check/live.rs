//! What no message moves, timers must: if every message of a run is lost from now on, the run still ends, or waits for a
//! person (I4, I18).

use protocol::{Input, Invocation, Phase, Stage, Suspension, Timer, handle_and_apply};

/// More timers than any run of a scenario has ever before it.
const PATIENCE: usize = 64;

/// Whether timers alone bring the run to its end, or to a person.
pub fn ends_by(timers: impl Fn(&Invocation) -> Vec<Timer>, state: &Invocation) -> bool {
    let mut state = state.clone();
    for _ in 0..PATIENCE {
        let Some(timer) = timers(&state).into_iter().min_by_key(|timer| timer.due) else {
            return waits_for_nobody_else(&state);
        };
        match handle_and_apply(&state, &Input::TimerFired(timer.name), timer.due) {
            Ok((_, next)) => state = next,
            Err(_) => return false,
        }
    }
    false
}

fn waits_for_nobody_else(state: &Invocation) -> bool {
    match state.phase() {
        None | Some(Phase::Suspended(Suspension::Clarification(_) | Suspension::Operator(_))) => true,
        Some(Phase::Deciding(_) | Phase::Executing(_) | Phase::Suspended(Suspension::Approval(_))) => false,
        Some(Phase::Cancelling(_)) => false,
        Some(Phase::Ended(ended)) => {
            let mut calls = ended.execution.iter().flat_map(|execution| &execution.calls);
            !calls.any(|call| matches!(call.stage, Stage::Claimed(_) | Stage::Unknown(_)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::super::model::Checked;
    use super::super::names::{Cause, Letter};
    use super::super::scenario::Scenario;
    use super::*;

    #[test]
    fn a_run_that_nothing_wakes_is_found() {
        let checked = Checked::new(Scenario::new("one", ""), None);
        let admitted = checked.committed(&History::absent(), Cause::Letter(Letter::Request), 0).unwrap();
        assert!(ends_by(protocol::timers, &admitted.state));
        assert!(!ends_by(|_| Vec::new(), &admitted.state));
    }
}
