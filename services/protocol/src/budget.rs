//! Budgets in code (M6): steps, tool calls, tokens, cost, repeated plans, and the times that bound a run.

use serde::{Deserialize, Serialize};

use crate::{Digest, MixedBatches, ProgressLimits, TerminalReason, ToolName};

/// What a run may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    pub max_steps: u32,
    pub max_tool_calls: u32,
    pub max_tokens: u64,
    /// Millionths of the profile's currency.
    pub max_cost_micros: u64,
    /// How often in a row an equal plan may follow itself.
    pub max_repeated_plan: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_steps: 16,
            max_tool_calls: 32,
            max_tokens: 200_000,
            max_cost_micros: 1_000_000,
            max_repeated_plan: 1,
        }
    }
}

/// The budgets a request names; the rest are the profile's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_repeated_plan: Option<u32>,
}

impl BudgetRequest {
    /// The request's budgets, the missing ones from `profile`; an error names the first that exceeds `ceiling`.
    pub fn resolve(&self, profile: &Budget, ceiling: &Budget) -> Result<Budget, String> {
        let budget = Budget {
            max_steps: self.max_steps.unwrap_or(profile.max_steps),
            max_tool_calls: self.max_tool_calls.unwrap_or(profile.max_tool_calls),
            max_tokens: self.max_tokens.unwrap_or(profile.max_tokens),
            max_cost_micros: self.max_cost_micros.unwrap_or(profile.max_cost_micros),
            max_repeated_plan: self.max_repeated_plan.unwrap_or(profile.max_repeated_plan),
        };
        let pairs = [
            ("max_steps", u64::from(budget.max_steps), u64::from(ceiling.max_steps)),
            ("max_tool_calls", u64::from(budget.max_tool_calls), u64::from(ceiling.max_tool_calls)),
            ("max_tokens", budget.max_tokens, ceiling.max_tokens),
            ("max_cost_micros", budget.max_cost_micros, ceiling.max_cost_micros),
            ("max_repeated_plan", u64::from(budget.max_repeated_plan), u64::from(ceiling.max_repeated_plan)),
        ];
        match pairs.into_iter().find(|(_, asked, most)| asked > most) {
            Some((name, asked, most)) => Err(format!("budget.{name} is {asked}, and the tenant's ceiling is {most}")),
            None => Ok(budget),
        }
    }
}

impl Budget {
    /// Tokens or cost beyond what the run may spend: nothing that was proposed for them may run.
    pub fn exceeded_by(&self, usage: &Usage) -> Option<(TerminalReason, String)> {
        self.compare(usage, |spent, most| spent > most)
    }

    /// No tokens or no money left: the model is not asked again. A model that costs nothing may be asked for nothing.
    pub fn used_up_by(&self, usage: &Usage) -> Option<(TerminalReason, String)> {
        self.compare(usage, |spent, most| spent > 0 && spent >= most)
    }

    fn compare(&self, usage: &Usage, is_over: impl Fn(u64, u64) -> bool) -> Option<(TerminalReason, String)> {
        let said = |spent: u64, unit: &str, most: u64| format!("{spent} {unit} are spent, and {most} is the budget");
        let (tokens, cost) = (usage.tokens(), usage.cost_micros);
        if is_over(tokens, self.max_tokens) {
            let detail = said(tokens, "tokens", self.max_tokens);
            return Some((TerminalReason::TokenBudgetExhausted, detail));
        }
        if is_over(cost, self.max_cost_micros) {
            let detail = said(cost, "micros", self.max_cost_micros);
            return Some((TerminalReason::CostBudgetExhausted, detail));
        }
        None
    }
}

/// Tokens and cost, of one answer or summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros: u64,
}

impl Usage {
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Sum; saturates.
    pub fn plus(&self, other: &Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }
}

/// What a run has spent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Turns committed.
    pub steps: u32,
    /// Attempts of calls. One is reserved for each call when it is planned, and given back when the call settles without
    /// ever having been released; every further attempt counts again, unless it takes the place of one that nobody
    /// started.
    pub tool_calls: u32,
    pub usage: Usage,
}

/// The times that bound a run. Copied into `Admitted`, so that a change of settings moves no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Active time of the whole run; does not run while it is suspended.
    pub max_runtime_ms: u64,
    /// How long a decision may take before the same turn is asked for again.
    pub decide_timeout_ms: u64,
    /// How often the same turn is asked for again before `model_error`.
    pub max_reissues: u32,
    /// Added to a call's timeout before its timer fires: transport, queues and clocks.
    pub call_slack_ms: u64,
    /// How often a call that nobody started is released again before it ends `unavailable`.
    pub max_rereleases: u32,
    /// How long a proposal may wait for its approval, where the policy that gates it says nothing.
    pub approval_ttl_ms: u64,
    /// How long a cancelled run waits for what is in flight.
    pub cancel_grace_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            max_runtime_ms: 15 * 60 * 1_000,
            decide_timeout_ms: 60_000,
            max_reissues: 3,
            call_slack_ms: 5_000,
            max_rereleases: 5,
            approval_ttl_ms: 24 * 60 * 60 * 1_000,
            cancel_grace_ms: 10_000,
        }
    }
}

/// What the committer's configuration says of an agent and a tenant, as far as admission needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub budget: Budget,
    pub ceiling: Budget,
    pub timing: Timing,
    pub mixed_batches: MixedBatches,
    pub progress: ProgressLimits,
    /// The tools this agent may use.
    pub tools: Vec<ToolName>,
    /// The digest of the profile's own text.
    pub digest: Digest,
}
