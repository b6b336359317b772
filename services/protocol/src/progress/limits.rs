//! How long a run may go on without progress, as its agent profile says.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// The widest window of plans that is remembered.
pub const MAX_WINDOW: u32 = 32;

/// What each signal of no progress may come to before the next plan is stopped. Copied into `Admitted`, so that a change
/// of settings moves no run. How often a plan may follow itself is a budget: `max_repeated_plan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgressLimits {
    /// How many plans back a plan is looked for, from 2 to [`MAX_WINDOW`]: half of it is the longest loop that is seen.
    pub window: u32,
    /// How often a run may come back to a plan of the window and get the same results.
    pub evidence_repeats: Limit,
    /// How many turns in a row may commit no effect and bring no result that is new.
    pub no_state_delta: Limit,
    /// How many turns in a row may meet no further goal predicate while one is unmet. How far away a goal is differs from
    /// task to task, so that only a profile can know it.
    pub unmet_goal_predicates: Limit,
    /// How many uses of a tool in a row may fail with the same class of error, whatever is done in between.
    pub error_cycle: Limit,
}

impl Default for ProgressLimits {
    fn default() -> Self {
        Self {
            window: 8,
            evidence_repeats: Limit::after(1),
            no_state_delta: Limit::after(6),
            unmet_goal_predicates: Limit::Off,
            error_cycle: Limit::after(4),
        }
    }
}

impl ProgressLimits {
    /// What is wrong with them, by field.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let fits = (2..=MAX_WINDOW).contains(&self.window);
        (!fits).then(|| ("window", format!("must be a number of plans from 2 to {MAX_WINDOW}")))
    }
}

/// A count that stops a run when it is reached, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Limit {
    Off,
    After(NonZeroU32),
}

impl Limit {
    /// Reached at `count`; [`Limit::Off`] for zero, which nothing could satisfy.
    pub fn after(count: u32) -> Self {
        NonZeroU32::new(count).map_or(Self::Off, Self::After)
    }

    pub fn is_reached_by(self, count: u32) -> bool {
        match self {
            Self::Off => false,
            Self::After(limit) => count >= limit.get(),
        }
    }
}

/// A limit as it stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Count(u32),
    Word(String),
}

impl TryFrom<Written> for Limit {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        match written {
            Written::Count(count) => NonZeroU32::new(count).map(Self::After),
            Written::Word(word) => (word == "off").then_some(Self::Off),
        }
        .ok_or("a limit must be a whole number from 1, or `off`")
    }
}

impl From<Limit> for Written {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Off => Self::Word("off".to_owned()),
            Limit::After(count) => Self::Count(count.get()),
        }
    }
}
