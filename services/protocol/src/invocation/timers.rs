//! `timers`: everything that must wake an invocation later. A timer that is no longer named here is dropped by the
//! commit that made it so.

use std::fmt;
use std::str::FromStr;

use super::{Invocation, Phase, Stage, Suspension};
use crate::{CallId, Timestamp};

/// One timer per thing that waits; what it does when it fires is decided by where that thing stands then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerName {
    /// The deadline, or the end of the active time.
    Deadline,
    /// The model's answer is overdue.
    Decide,
    /// The proposal that waits for its approval expires.
    Approval,
    /// A call's attempt, retry or probe is due.
    Call(CallId),
    /// A stopped run waits no longer.
    Grace,
}

/// A timer to have, and when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    pub name: TimerName,
    pub due: Timestamp,
}

impl fmt::Display for TimerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("deadline"),
            Self::Decide => f.write_str("decide"),
            Self::Approval => f.write_str("approval"),
            Self::Call(call_id) => write!(f, "call/{call_id}"),
            Self::Grace => f.write_str("grace"),
        }
    }
}

/// A stored timer whose name this build does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no timer")]
pub struct UnknownTimer(pub String);

impl FromStr for TimerName {
    type Err = UnknownTimer;

    fn from_str(text: &str) -> Result<Self, UnknownTimer> {
        match text {
            "deadline" => Ok(Self::Deadline),
            "decide" => Ok(Self::Decide),
            "approval" => Ok(Self::Approval),
            "grace" => Ok(Self::Grace),
            _ => {
                let call_id = text.strip_prefix("call/").and_then(|id| id.parse().ok());
                call_id.map(Self::Call).ok_or_else(|| UnknownTimer(text.to_owned()))
            }
        }
    }
}

/// The timers this state wants.
pub fn timers(invocation: &Invocation) -> Vec<Timer> {
    let mut wanted = Vec::new();
    let Some(run) = invocation.run.as_deref() else {
        return wanted;
    };
    match &run.phase {
        Phase::Deciding(deciding) => {
            let due = deciding.asked_at.plus_ms(run.timing.decide_timeout_ms);
            wanted.push(Timer { name: TimerName::Decide, due });
        }
        Phase::Cancelling(cancelling) => wanted.push(Timer { name: TimerName::Grace, due: cancelling.grace_until }),
        Phase::Suspended(Suspension::Approval(pending)) => {
            wanted.push(Timer { name: TimerName::Approval, due: pending.requested.expires_at });
        }
        Phase::Executing(_)
        | Phase::Suspended(Suspension::Clarification(_) | Suspension::Operator(_))
        | Phase::Ended(_) => {}
    }
    let over = matches!(run.phase, Phase::Cancelling(_) | Phase::Ended(_));
    if let Some(due) = run.ends_at().filter(|_| !over) {
        wanted.push(Timer { name: TimerName::Deadline, due });
    }
    let Some(execution) = invocation.execution() else {
        return wanted;
    };
    let slack = run.timing.call_slack_ms;
    for (planned, state) in execution.plan.calls.iter().zip(&execution.calls) {
        let timeout = planned.contract.timeout_ms;
        let due = match &state.stage {
            Stage::Released { at, .. } => Some(at.plus_ms(timeout).plus_ms(slack)),
            Stage::Backoff { due, .. } if !over => Some(*due),
            Stage::Claimed(claim) => Some(claim.lease_until.plus_ms(timeout).plus_ms(slack)),
            Stage::Unknown(unknown) => {
                Some(unknown.next_probe_at.unwrap_or_else(|| unknown.probed_at.plus_ms(timeout).plus_ms(slack)))
            }
            Stage::Backoff { .. } | Stage::Waiting | Stage::Unanswerable { .. } | Stage::Settled(_) => None,
        };
        wanted.extend(due.map(|due| Timer { name: TimerName::Call(planned.call_id), due }));
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_name_reads_back_and_no_other_text_does() {
        for (name, text) in [
            (TimerName::Deadline, "deadline"),
            (TimerName::Decide, "decide"),
            (TimerName::Approval, "approval"),
            (TimerName::Call(CallId(uuid::Uuid::from_u128(7))), "call/00000000-0000-0000-0000-000000000007"),
            (TimerName::Grace, "grace"),
        ] {
            assert_eq!((name.to_string().as_str(), text.parse()), (text, Ok(name)));
        }
        for text in ["", "call", "call/", "call/7", "Grace"] {
            assert_eq!(text.parse::<TimerName>(), Err(UnknownTimer(text.to_owned())));
        }
    }
}
