//! The scenarios. Together they reach every end that the core knows.

use protocol::TerminalReason::{
    Cancelled, CannotContinue, ClarificationRequired, Completed, CostBudgetExhausted, DeadlineExceeded,
    InvalidDecision, InvalidRequest, MaxSteps, ModelError, NoProgress, PermissionDenied, ReconciliationRequired,
    TokenBudgetExhausted, ToolBudgetExhausted, ToolUnavailable,
};
use protocol::{Budget, FindingCode, TerminalReason};
use serde_json::json;

use super::answers::{
    at_a_price, calls, finish, gated, give_up, invalid, once, order, question, required, unreachable_model,
};
use super::model::Situation;
use super::scenario::{Faults, Scenario};

/// How much of each world is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Size {
    /// Seconds: for every `make test`.
    Small,
    /// Minutes.
    Full,
}

/// The ends that no scenario reaches, and why.
pub const UNREACHED: [(TerminalReason, &str); 1] =
    [(TerminalReason::CheckpointFailed, "the core never ends a run so: a lost commit freezes it")];

/// Every scenario at that size.
pub fn scenarios(size: Size) -> Vec<Scenario> {
    let mut scenarios = vec![
        two_calls(size),
        two_attempts(size),
        late_answers(size),
        by_hand(size),
        approvals(size),
        questions(),
        reads(size),
        repairs(size),
        budgets(size),
        deadline(size),
        active_time(),
        unknown_agent(),
    ];
    if size == Size::Full {
        scenarios.push(two_effects());
    }
    scenarios
}

fn two_calls(size: Size) -> Scenario {
    let is_full = size == Size::Full;
    let conflict = is_full.then_some(Situation::Conflict);
    let meets = [Situation::StopMeetsRequest, Situation::Reconciled, Situation::EndedOpen];
    Scenario {
        turns: vec![vec![once(calls(&[("refund", order(1)), ("read_order", order(1))]))], vec![finish()]],
        cancel: true,
        faults: Faults { crash: 1, unknown: u8::from(is_full), ..Faults::default() },
        racing: if is_full { 2 } else { 1 },
        executors: 2,
        reasons: vec![Completed, Cancelled],
        meets: meets.into_iter().chain(conflict).collect(),
        ..Scenario::new(
            "two-calls",
            "an effect and a read that waits for it, on two replicas, under a crash, a cancel and an unknown outcome",
        )
    }
}

fn two_attempts(size: Size) -> Scenario {
    Scenario {
        name: "two-attempts",
        purpose: "the same calls, each tried a second time where that is safe",
        turns: vec![vec![calls(&[("refund", order(1)), ("read_order", order(1))])], vec![finish()]],
        racing: 0,
        executors: 1,
        meets: vec![Situation::StopMeetsRequest, Situation::Reconciled, Situation::SecondAttempt],
        ..two_calls(size)
    }
}

fn late_answers(size: Size) -> Scenario {
    let turn = calls(&[("refund", order(1))]);
    Scenario {
        turns: vec![vec![turn], vec![finish()]],
        cancel: size == Size::Full,
        rejects: true,
        faults: Faults { unknown: 1, unsent: 1, pending: 1, ..Faults::default() },
        reasons: vec![Completed],
        meets: vec![Situation::Reconciled, Situation::SecondAttempt],
        ..Scenario::new(
            "late-answers",
            "an effect that is refused, cannot be sent or is pending at its owner, whose answers come late",
        )
    }
}

fn by_hand(size: Size) -> Scenario {
    let is_full = size == Size::Full;
    Scenario {
        turns: vec![vec![calls(&[("wire", order(1)), ("lookup", order(2))])], vec![finish()]],
        cancel: is_full,
        faults: Faults { crash: u8::from(is_full), unknown: u8::from(is_full), ..Faults::default() },
        racing: usize::from(is_full),
        reasons: vec![Completed, ReconciliationRequired],
        meets: vec![Situation::SettledByHand],
        ..Scenario::new(
            "by-hand",
            "an effect whose owner enforces no key, and a read: a person settles what nobody knows",
        )
    }
}

fn two_effects() -> Scenario {
    Scenario {
        turns: vec![vec![once(calls(&[("refund", order(1)), ("refund", order(2))]))], vec![finish()]],
        reasons: vec![Completed],
        meets: vec![Situation::Reconciled],
        ..Scenario::new("two-effects", "two effects side by side, each with an unknown outcome of its own")
    }
}

fn approvals(size: Size) -> Scenario {
    Scenario {
        turns: vec![
            vec![once(gated(&[("refund", order(1)), ("lookup", order(1))], false))],
            vec![once(gated(&[("lookup", order(2))], true)), finish()],
            vec![finish()],
        ],
        cancel: size == Size::Full,
        reasons: vec![Completed, TerminalReason::ApprovalRequired],
        ..Scenario::new("approvals", "proposals that are granted, refused or expire, with words on the one before")
    }
}

fn questions() -> Scenario {
    Scenario {
        turns: vec![vec![question(), finish()]],
        cancel: true,
        racing: 2,
        reasons: vec![Completed, MaxSteps, Cancelled, ClarificationRequired],
        ..Scenario::new("questions", "questions that people answer, late, twice, and without naming which")
    }
}

fn reads(size: Size) -> Scenario {
    let is_full = size == Size::Full;
    let turn = required(calls(&[("lookup", json!({"q": 1})), ("lookup", json!({"q": 2}))]));
    Scenario {
        turns: vec![vec![if is_full { turn } else { once(turn) }], vec![finish()]],
        cancel: is_full,
        faults: Faults { transient: if is_full { 2 } else { 1 }, crash: u8::from(is_full), ..Faults::default() },
        racing: 2,
        reasons: vec![Completed, ToolUnavailable],
        meets: vec![Situation::Conflict],
        ..Scenario::new("reads", "two reads side by side that fail and are tried again, until one stays unavailable")
    }
}

fn repairs(size: Size) -> Scenario {
    let refused = invalid(FindingCode::Unauthorized);
    let turn = vec![calls(&[("lookup", json!({}))]), invalid(FindingCode::UnknownTool), refused.clone()];
    Scenario {
        turns: vec![turn],
        repairs: vec![finish(), give_up(), invalid(FindingCode::UnknownTool), refused, unreachable_model()],
        reissues: Some(1),
        cancel: true,
        racing: if size == Size::Full { 2 } else { 0 },
        reasons: vec![Completed, Cancelled, CannotContinue, InvalidDecision, PermissionDenied, ModelError],
        ..Scenario::new("repairs", "decisions that do not validate, and a model that is late or cannot be reached")
    }
}

fn budgets(size: Size) -> Scenario {
    let lookup = |n: u64| calls(&[("lookup", order(n))]);
    let turn = |n| vec![lookup(n), lookup(1), at_a_price(lookup(n), 60, 7), at_a_price(lookup(n), 15, 60)];
    Scenario {
        turns: vec![turn(1), turn(2), turn(3)],
        budget: Budget { max_steps: 3, max_tool_calls: 3, max_tokens: 100, max_cost_micros: 100, max_repeated_plan: 1 },
        faults: Faults { transient: 2, ..Faults::default() },
        racing: if size == Size::Full { 2 } else { 0 },
        reasons: vec![MaxSteps, TokenBudgetExhausted, CostBudgetExhausted, ToolBudgetExhausted, NoProgress],
        ..Scenario::new("budgets", "turns at different prices and plans that repeat, until something is used up")
    }
}

fn deadline(size: Size) -> Scenario {
    Scenario {
        turns: vec![vec![once(calls(&[("refund", order(1)), ("read_order", order(1))]))], vec![finish()]],
        deadline: Some(3),
        rereleases: 1,
        faults: Faults { unknown: 1, ..Faults::default() },
        racing: if size == Size::Full { 2 } else { 0 },
        executors: 2,
        reasons: vec![Completed, DeadlineExceeded],
        meets: vec![Situation::StopMeetsRequest, Situation::EndedOpen],
        ..Scenario::new("deadline", "an effect and a read that waits for it, overtaken by the deadline at any place")
    }
}

fn active_time() -> Scenario {
    Scenario {
        turns: vec![vec![question()], vec![gated(&[("lookup", order(1))], false)], vec![finish()]],
        max_runtime: Some(2),
        reissues: Some(3),
        racing: 2,
        reasons: vec![Completed, DeadlineExceeded],
        ..Scenario::new("active-time", "time that runs while the run is active, and not while it waits for a person")
    }
}

fn unknown_agent() -> Scenario {
    Scenario {
        known_agent: false,
        cancel: true,
        racing: 2,
        reasons: vec![InvalidRequest, Cancelled],
        ..Scenario::new("unknown-agent", "a request that cannot be admitted, and a cancel that overtakes it")
    }
}
