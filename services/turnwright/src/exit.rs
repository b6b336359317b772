//! Exit codes: one per class of terminal reason, so that a script can act without reading text.

use protocol::TerminalReason;

pub const COMPLETED: u8 = 0;
/// Anything that is none of the others: no broker, no answer in time, an I/O error.
pub const OTHER: u8 = 1;
/// A flag, a setting or a file that cannot be used.
pub const USAGE: u8 = 2;
/// The run waits for a person and can go on.
pub const RESUMABLE: u8 = 10;
/// The run was stopped: by a budget, a deadline, a cancel, or for want of progress.
pub const STOPPED: u8 = 20;
/// The run failed.
pub const FAILED: u8 = 30;
/// What happened is not known for certain: look before asking again.
pub const UNCERTAIN: u8 = 40;

/// What `--help` says about them.
pub const HELP: &str = "Exit codes of --wait:
   0  completed
   1  no answer in time, or Kafka or the store does not answer
   2  a flag, a setting or a file cannot be used
  10  resumable: approval_required, clarification_required, reconciliation_required
  20  stopped: cancelled, deadline_exceeded, no_progress, max_steps or another budget
  30  failed: model_error, invalid_decision, tool_unavailable, permission_denied, invalid_request, cannot_continue;
      or the request was refused and is in dead-letters
  40  uncertain: checkpoint_failed, or ended with effects whose outcome is not known";

/// The exit code of a terminal event. Unresolved effects outweigh every final reason: asking again may repeat them.
pub fn of(reason: TerminalReason, effects_unresolved: bool) -> u8 {
    use TerminalReason as Reason;
    match reason {
        Reason::ApprovalRequired | Reason::ClarificationRequired | Reason::ReconciliationRequired => RESUMABLE,
        _ if effects_unresolved => UNCERTAIN,
        Reason::Completed => COMPLETED,
        Reason::Cancelled
        | Reason::DeadlineExceeded
        | Reason::MaxSteps
        | Reason::ToolBudgetExhausted
        | Reason::TokenBudgetExhausted
        | Reason::CostBudgetExhausted
        | Reason::NoProgress => STOPPED,
        Reason::CannotContinue
        | Reason::InvalidDecision
        | Reason::PermissionDenied
        | Reason::ModelError
        | Reason::ToolUnavailable
        | Reason::InvalidRequest => FAILED,
        Reason::CheckpointFailed => UNCERTAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_the_code_of_its_class() {
        let expected = [
            ("completed", 0),
            ("cannot_continue", 30),
            ("cancelled", 20),
            ("deadline_exceeded", 20),
            ("max_steps", 20),
            ("tool_budget_exhausted", 20),
            ("token_budget_exhausted", 20),
            ("cost_budget_exhausted", 20),
            ("no_progress", 20),
            ("invalid_decision", 30),
            ("permission_denied", 30),
            ("model_error", 30),
            ("tool_unavailable", 30),
            ("checkpoint_failed", 40),
            ("invalid_request", 30),
            ("approval_required", 10),
            ("clarification_required", 10),
            ("reconciliation_required", 10),
        ];
        let found = TerminalReason::ALL.map(|reason| (reason.as_str(), of(reason, false)));
        assert_eq!(found, expected);
    }

    #[test]
    fn unresolved_effects_make_an_end_uncertain_but_a_suspension_stays_resumable() {
        assert_eq!(of(TerminalReason::Cancelled, true), UNCERTAIN);
        assert_eq!(of(TerminalReason::Completed, true), UNCERTAIN);
        assert_eq!(of(TerminalReason::ReconciliationRequired, true), RESUMABLE);
    }
}
