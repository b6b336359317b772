//! Progress (M12): a fold over finished turns, bounded by its window, from which deterministic signals say that a run
//! gets nowhere. They stop a plan before anything of it runs; an answer, or giving up, is never stopped.
//!
//! A plan that calls polling tools only is exempt from every signal, and leaves none standing that was not: what it
//! brings that is new still counts as progress. In a mixed plan a polling call is exempt from the error cycle.

mod evidence;
mod limits;
mod predicate;
mod signal;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use evidence::{PlanMark, fingerprint};
pub use limits::{Limit, MAX_WINDOW, ProgressLimits};
pub use predicate::{
    GoalPredicate, MAX_EQUALS_BYTES, MAX_GOAL_PREDICATES, MAX_POINTER_BYTES, check_goal_predicates, is_pointer,
};
pub use signal::{Signal, TurnProgress};

use crate::{
    AcceptedCall, AcceptedDecision, CallResult, Digest, EffectStatus, ErrorClass, Finding, FindingCode, Plan,
    ToolContract, ToolName, TurnResult,
};

/// The most results that are remembered, whatever the window: it bounds the snapshot.
const MAX_EVIDENCE: usize = 64;
/// The most tools whose errors are counted at a time.
const MAX_ERROR_STREAKS: usize = 32;

/// A run's progress so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub limits: ProgressLimits,
    pub last_plan: Option<PlanMark>,
    goals: Vec<Goal>,
    /// The newest plans that ran, the oldest first. One that directly repeats itself stands once, with its newest
    /// results.
    window: Vec<Ran>,
    /// Distinct results, the one seen last at the end.
    evidence: Vec<Digest>,
    no_state_delta: u32,
    unmet_goal_predicates: u32,
    errors: Vec<ErrorStreak>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Goal {
    predicate: GoalPredicate,
    met: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Ran {
    fingerprint: Digest,
    results: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ErrorStreak {
    tool: ToolName,
    class: ErrorClass,
    uses: u32,
}

impl Progress {
    /// A run that has done nothing yet.
    pub fn new(limits: ProgressLimits, predicates: &[GoalPredicate]) -> Self {
        let goals = predicates.iter().map(|predicate| Goal { predicate: predicate.clone(), met: false });
        Self {
            limits,
            last_plan: None,
            goals: goals.collect(),
            window: Vec::new(),
            evidence: Vec::new(),
            no_state_delta: 0,
            unmet_goal_predicates: 0,
            errors: Vec::new(),
        }
    }

    /// The goal predicates that no turn has met yet.
    pub fn unmet(&self) -> impl Iterator<Item = &GoalPredicate> {
        self.goals.iter().filter(|goal| !goal.met).map(|goal| &goal.predicate)
    }

    /// The mark of a plan, were it to run next.
    pub fn mark(&self, plan: &Plan, fingerprint: Digest) -> PlanMark {
        let streak = match self.last_plan {
            Some(last) if last.fingerprint == fingerprint && !is_polling(plan) => last.streak.saturating_add(1),
            Some(_) | None => 1,
        };
        PlanMark { fingerprint, streak }
    }

    /// Every signal that keeps this plan from running, as findings; none, and it may.
    pub fn findings(&self, plan: &Plan, mark: PlanMark, max_repeated_plan: u32) -> Vec<Finding> {
        let mut findings = Vec::new();
        if is_polling(plan) {
            return findings;
        }
        let mut stop = |signal: Signal, path: String, why: String| {
            let message = format!("{}: {why}", signal.as_str());
            findings.push(Finding::new(FindingCode::NoProgress, path, message));
        };
        let calls = || "calls".to_owned();
        let (limits, streak) = (&self.limits, mark.streak);
        if streak > max_repeated_plan.saturating_add(1) {
            let why =
                format!("the same plan came {streak} times in a row, and may follow itself {max_repeated_plan} times");
            stop(Signal::RepeatedPlan, calls(), why);
        }
        let repeats = self.repeats(mark.fingerprint);
        if streak == 1 && limits.evidence_repeats.is_reached_by(repeats) {
            let why =
                format!("the run has come back to this plan {repeats} times, and each time its results were the same");
            stop(Signal::EvidenceRepeats, calls(), why);
        }
        let turns = self.no_state_delta;
        if limits.no_state_delta.is_reached_by(turns) {
            let why = format!("{turns} turns in a row committed no effect and brought no new result");
            stop(Signal::NoStateDelta, calls(), why);
        }
        let turns = self.unmet_goal_predicates;
        if limits.unmet_goal_predicates.is_reached_by(turns) {
            let names: Vec<&str> = self.unmet().map(|predicate| predicate.name.as_str()).collect();
            let why = format!("{turns} turns in a row met no goal predicate, and unmet are {}", names.join(", "));
            stop(Signal::UnmetGoalPredicates, calls(), why);
        }
        for (i, call) in plan.calls.iter().enumerate().filter(|(_, call)| !call.contract.polling) {
            let repeated =
                |streak: &&ErrorStreak| streak.tool == call.tool && limits.error_cycle.is_reached_by(streak.uses);
            if let Some(ErrorStreak { tool, class, uses }) = self.errors.iter().find(repeated) {
                let class = serde_json::json!(class);
                let why = format!("`{tool}` has failed {uses} times in a row with {class}");
                stop(Signal::ErrorCycle, format!("calls[{i}]"), why);
            }
        }
        findings
    }

    /// How often the window comes back to a plan with the results that it had last.
    fn repeats(&self, fingerprint: Digest) -> u32 {
        let Some(last) = self.window.iter().rev().find(|ran| ran.fingerprint == fingerprint) else {
            return 0;
        };
        let same = self.window.iter().filter(|ran| *ran == last).count();
        u32::try_from(same.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// The progress after a turn, and what its event says of it. A proposal that was refused or that expired is a plan
    /// like any other, with the errors of its calls.
    pub fn after(
        &self,
        mark: Option<PlanMark>,
        decision: &AcceptedDecision,
        results: &[TurnResult],
    ) -> (Self, TurnProgress) {
        let (mut next, mut turn) = (self.clone(), TurnProgress::default());
        let results = judged(decision.calls(), results);
        let evidence: Vec<Digest> =
            results.iter().map(|(result, contract)| evidence::evidence(contract, result)).collect();
        turn.results_digest = evidence::of_results(evidence.clone());
        if let Some(mark) = mark {
            next.take(mark, &results, &evidence, &mut turn);
        }
        if let AcceptedDecision::Clarification { .. } = decision {
            // What a person has answered is new.
            next.no_state_delta = 0;
            next.unmet_goal_predicates = 0;
        }
        turn.no_state_delta = next.no_state_delta;
        turn.unmet_goal_predicates = next.unmet_goal_predicates;
        turn.error_cycle = next.errors.iter().map(|streak| streak.uses).max().unwrap_or(0);
        (next, turn)
    }

    fn take(&mut self, mark: PlanMark, results: &[Judged<'_>], evidence: &[Digest], turn: &mut TurnProgress) {
        let polling = results.iter().all(|(_, contract)| contract.polling);
        self.last_plan = Some(mark);
        turn.new_results = evidence.iter().map(|digest| u32::from(self.learn(*digest))).sum();
        turn.effects_committed = results.iter().map(|(result, _)| u32::from(has_committed(result))).sum();
        turn.goals_met = self.meet(results);
        let moved = turn.new_results > 0 || turn.effects_committed > 0;
        self.no_state_delta = count(self.no_state_delta, moved, polling);
        let met = !turn.goals_met.is_empty() || self.unmet().next().is_none();
        self.unmet_goal_predicates = count(self.unmet_goal_predicates, met, polling);
        self.count_errors(results);
        if !polling {
            self.remember(mark, turn.results_digest);
            turn.repeated_plan = mark.streak.saturating_sub(1);
            turn.evidence_repeats = self.repeats(mark.fingerprint);
        }
    }

    /// Whether a result is new; it counts as seen just now.
    fn learn(&mut self, digest: Digest) -> bool {
        let before = self.evidence.len();
        self.evidence.retain(|known| *known != digest);
        let is_new = self.evidence.len() == before;
        if before == MAX_EVIDENCE && is_new {
            self.evidence.remove(0);
        }
        self.evidence.push(digest);
        is_new
    }

    fn meet(&mut self, results: &[Judged<'_>]) -> Vec<String> {
        let mut names = Vec::new();
        for goal in self.goals.iter_mut().filter(|goal| !goal.met) {
            goal.met = results.iter().any(|(result, _)| goal.predicate.is_met_by(result));
            if goal.met {
                names.push(goal.predicate.name.clone());
            }
        }
        names
    }

    /// A tool's streak goes on while each use of it fails with that class and none succeeds; other tools do not matter.
    fn count_errors(&mut self, results: &[Judged<'_>]) {
        let used = results.iter().filter(|(_, contract)| !contract.polling).map(|(result, _)| *result);
        let used: Vec<&TurnResult> = used.filter(|result| was_tried(result)).collect();
        let failed: Vec<(&ToolName, ErrorClass)> = used
            .iter()
            .filter_map(|result| Some((&result.tool, error_class(result)?)))
            .filter(|(tool, _)| !used.iter().any(|other| other.tool == **tool && other.outcome.succeeded()))
            .collect();
        let goes_on = |streak: &ErrorStreak| failed.contains(&(&streak.tool, streak.class));
        self.errors.retain(|streak| goes_on(streak) || !used.iter().any(|result| result.tool == streak.tool));
        for (i, (tool, class)) in failed.iter().enumerate() {
            if failed[..i].contains(&(*tool, *class)) {
                continue;
            }
            let is_it = |streak: &ErrorStreak| (&streak.tool, streak.class) == (*tool, *class);
            let known = self.errors.iter().position(is_it).map(|at| self.errors.remove(at));
            let uses = known.map_or(0, |streak| streak.uses).saturating_add(1);
            self.errors.push(ErrorStreak { tool: (*tool).clone(), class: *class, uses });
        }
        let over = self.errors.len().saturating_sub(MAX_ERROR_STREAKS);
        self.errors.drain(..over);
    }

    fn remember(&mut self, mark: PlanMark, results: Digest) {
        if mark.streak > 1 {
            self.window.pop_if(|last| last.fingerprint == mark.fingerprint);
        }
        self.window.push(Ran { fingerprint: mark.fingerprint, results });
        let most = usize::try_from(self.limits.window).unwrap_or(usize::MAX);
        let over = self.window.len().saturating_sub(most);
        self.window.drain(..over);
    }
}

/// A plan of polling and paging calls only: exempt by declaration.
fn is_polling(plan: &Plan) -> bool {
    plan.calls.iter().all(|call| call.contract.polling)
}

/// A result, with what its tool declares.
type Judged<'t> = (&'t TurnResult, &'t ToolContract);

/// The results of a batch, by the provider's Call ID (M9).
fn judged<'t>(calls: &'t [AcceptedCall], results: &'t [TurnResult]) -> Vec<Judged<'t>> {
    let contract = |id: &str| calls.iter().find(|call| call.call.provider_call_id == id).map(|call| &call.contract);
    results.iter().filter_map(|result| Some((result, contract(&result.provider_call_id)?))).collect()
}

/// A count of turns in a row: over when something moved, and left alone by an exempt turn.
fn count(before: u32, moved: bool, exempt: bool) -> u32 {
    match (moved, exempt) {
        (true, _) => 0,
        (false, true) => before,
        (false, false) => before.saturating_add(1),
    }
}

/// Committed by an attempt of this turn. A recorded outcome that is given again has made no attempt.
fn has_committed(result: &TurnResult) -> bool {
    result.outcome.effect_status == Some(EffectStatus::Committed) && result.outcome.attempts > 0
}

fn error_class(result: &TurnResult) -> Option<ErrorClass> {
    match &result.outcome.result {
        CallResult::Output(_) => None,
        CallResult::Error(error) => Some(error.class),
    }
}

/// A call that was skipped or cancelled says nothing of its tool.
fn was_tried(result: &TurnResult) -> bool {
    !matches!(error_class(result), Some(ErrorClass::Skipped | ErrorClass::Cancelled))
}
