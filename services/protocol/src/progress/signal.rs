//! What the event of a turn and the end of a run say about progress.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// A signal of no progress. Closed; findings and configuration use these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The same plan in a row, more often than `max_repeated_plan` allows.
    RepeatedPlan,
    /// A plan that the run has come back to, with the results that it had before.
    EvidenceRepeats,
    /// Turns in a row without a committed effect or a new result.
    NoStateDelta,
    /// Turns in a row without a newly met goal predicate, while one is unmet.
    UnmetGoalPredicates,
    /// A tool that fails in the same way, use after use.
    ErrorCycle,
}

impl Signal {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RepeatedPlan => "repeated_plan",
            Self::EvidenceRepeats => "evidence_repeats",
            Self::NoStateDelta => "no_state_delta",
            Self::UnmetGoalPredicates => "unmet_goal_predicates",
            Self::ErrorCycle => "error_cycle",
        }
    }
}

/// What a turn has moved, and where every signal stands after it: part of the turn's event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnProgress {
    /// Over the results without identities and volatile fields: equal where nothing else was learned.
    pub results_digest: Digest,
    /// Effects that were committed in this turn; a recorded outcome that was given again is none.
    pub effects_committed: u32,
    /// Results that none of the remembered ones equals.
    pub new_results: u32,
    /// Names of the goal predicates that were met in this turn.
    pub goals_met: Vec<String>,
    /// How often in a row this turn's plan has repeated the one before.
    pub repeated_plan: u32,
    /// How often the run has come back to this turn's plan, inside the window, and got the same results.
    pub evidence_repeats: u32,
    /// Turns in a row without a committed effect or a new result.
    pub no_state_delta: u32,
    /// Turns in a row without a newly met goal predicate, while one is unmet.
    pub unmet_goal_predicates: u32,
    /// Uses in a row of the tool that has failed longest with one class of error.
    pub error_cycle: u32,
}
