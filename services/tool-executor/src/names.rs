//! The executor's own metrics, beside the chassis'.

/// Attempts that ran, by `outcome` and error `class`.
pub const CALLS: &str = "turnwright.calls";
/// Seconds from the start of an attempt's lease to its outcome, by `outcome`.
pub const CALL_SECONDS: &str = "turnwright.call.duration";
/// Calls that were aborted because their lease was revoked.
pub const ABORTED: &str = "turnwright.calls_aborted";
/// Version conflicts met while claiming.
pub const CLAIM_CONFLICTS: &str = "turnwright.claim_conflicts";
/// Claims whose `events` record was not acknowledged beside the call and is left to the sweeper.
pub const LEFT_TO_SWEEPER: &str = "turnwright.claims_left_to_sweeper";
/// Polls of a running call's invocation that the store did not answer.
pub const POLL_FAILURES: &str = "turnwright.lease_poll_failures";
/// Results that no record could hold and that were replaced by a bounded one.
pub const RESULTS_REPLACED: &str = "turnwright.results_replaced";
