//! What the transcripts together must show. A fact, a reason, a phase or an input that is new and in no transcript fails
//! here.

use std::collections::BTreeSet;

use super::{TRANSCRIPTS, play, read};
use crate::{Fact, Ignored, TerminalReason};

/// A closed list of labels, and a match that does not compile when a variant is missing in it.
macro_rules! closed {
    ($list:ident, $type:ty: $($pattern:pat => $label:literal),* $(,)?) => {
        const $list: &[&str] = &[$($label),*];
        const _: fn(&$type) -> &'static str = |value| match value {
            $($pattern => $label),*
        };
    };
}

closed!(FACTS, Fact:
    Fact::Admitted(_) => "admitted",
    Fact::TurnPlanned(_) => "turn_planned",
    Fact::DecisionRejected { .. } => "decision_rejected",
    Fact::ApprovalRequested(_) => "approval_requested",
    Fact::ApprovalGranted { .. } => "approval_granted",
    Fact::ApprovalRefused { .. } => "approval_refused",
    Fact::ClarificationRequested { .. } => "clarification_requested",
    Fact::ClarificationGiven { .. } => "clarification_given",
    Fact::WaveReleased { .. } => "wave_released",
    Fact::CallReleased { .. } => "call_released",
    Fact::CallClaimed { .. } => "call_claimed",
    Fact::AttemptFailed { .. } => "attempt_failed",
    Fact::CallSettled { .. } => "call_settled",
    Fact::EffectUnknown { .. } => "effect_unknown",
    Fact::ProbeRequested { .. } => "probe_requested",
    Fact::EffectResolved { .. } => "effect_resolved",
    Fact::EffectConflict { .. } => "effect_conflict",
    Fact::TurnReissued { .. } => "turn_reissued",
    Fact::TurnCommitted(_) => "turn_committed",
    Fact::CancelRequested { .. } => "cancel_requested",
    Fact::ReconciliationRequired { .. } => "reconciliation_required",
    Fact::Ended { .. } => "ended",
    Fact::EffectSettledLate { .. } => "effect_settled_late",
);

closed!(REASONS, Ignored:
    Ignored::Duplicate => "duplicate",
    Ignored::Conflict => "conflict",
    Ignored::ExpiredRequest => "expired_request",
    Ignored::FutureRequest => "future_request",
    Ignored::Stale => "stale",
    Ignored::NotYet => "not_yet",
    Ignored::UnknownInvocation => "unknown_invocation",
    Ignored::OvertakesRequest => "overtakes_request",
    Ignored::NoApprovalWaiting => "no_approval_waiting",
    Ignored::WrongProposal => "wrong_proposal",
    Ignored::ApprovalExpired => "approval_expired",
    Ignored::SelfApproval => "self_approval",
    Ignored::NoQuestionWaiting => "no_question_waiting",
    Ignored::WrongQuestion => "wrong_question",
    Ignored::RepeatedAnswer => "repeated_answer",
    Ignored::LostCommit(_) => "lost_commit",
    Ignored::Claim(crate::ClaimRefusal::Settled) => "claim_settled",
    Ignored::Claim(crate::ClaimRefusal::Superseded) => "claim_superseded",
    Ignored::Claim(crate::ClaimRefusal::Held) => "claim_held",
    Ignored::Claim(crate::ClaimRefusal::Expired) => "claim_expired",
    Ignored::Claim(crate::ClaimRefusal::Revoked) => "claim_revoked",
    Ignored::Claim(crate::ClaimRefusal::StaleEpoch) => "stale_epoch",
    Ignored::Frozen => "frozen",
    Ignored::NotLoaded(_) => "not_loaded",
    Ignored::Refused(_) => "refused",
);

/// The store says the first, and raises the epoch of the second; the others are bugs, and the stage fails on them.
const NOT_OF_THE_CORE: [&str; 4] = ["frozen", "stale_epoch", "not_loaded", "refused"];

/// Ends that only another part can bring about.
const NOT_REACHED: [(&str, &str); 1] = [("checkpoint_failed", "the rebuild of a store ends a run so")];

const PHASES: [&str; 8] = [
    "absent",
    "deciding",
    "executing",
    "suspended/approval",
    "suspended/clarification",
    "suspended/operator",
    "cancelling",
    "ended",
];
const INPUTS: [&str; 15] = [
    "request",
    "verdict",
    "claim",
    "settled",
    "answered",
    "cancel",
    "approve",
    "reject",
    "clarify",
    "resolve",
    "deadline",
    "decide timer",
    "call timer",
    "approval expiry",
    "grace",
];

#[test]
fn every_fact_reason_and_cell_of_the_table_stands_in_some_transcript() {
    let mut seen = BTreeSet::new();
    for name in TRANSCRIPTS {
        let (_, transcript) = read(name);
        let (_, stage) = play(&transcript).unwrap_or_else(|error| panic!("{name}.txt: {error}"));
        seen.extend(stage.seen);
    }
    let reasons = REASONS.iter().filter(|reason| !NOT_OF_THE_CORE.contains(reason)).map(|reason| (*reason).to_owned());
    let ends = TerminalReason::ALL.map(TerminalReason::as_str);
    let ends = ends.into_iter().filter(|end| !NOT_REACHED.iter().any(|(name, _)| name == end)).map(str::to_owned);
    let cells = PHASES.iter().flat_map(|phase| INPUTS.iter().map(move |input| format!("{phase} × {input}")));
    let wanted = FACTS.iter().map(|fact| (*fact).to_owned()).chain(reasons).chain(ends).chain(cells);
    let missing: Vec<String> = wanted.filter(|wanted| !seen.contains(wanted)).collect();
    assert!(missing.is_empty(), "no transcript shows:\n  {}", missing.join("\n  "));
    for (reason, why) in NOT_REACHED {
        assert!(!seen.contains(reason), "`{reason}` is reached after all: {why}");
    }
}
