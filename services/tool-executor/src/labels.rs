//! How errors and outcomes are named outside: to the chassis as a failure, to metrics as labels.

use chassis::Failure;
use protocol::{AttemptOutcome, CallError, ErrorClass};
use schemas::{DeadLetterCode, Rejection};
use store::{DecideError, Refusal};

pub(crate) fn decide_failure(error: DecideError) -> Failure {
    match error {
        DecideError::Store(error) => store_failure(error),
        // Contention is no fault of the record, and must not count it towards the dead letters.
        DecideError::Contended(_) => Failure::Unavailable(error.to_string()),
        DecideError::Unencodable(_) => {
            Failure::Reject(Rejection::new(DeadLetterCode::Oversize, "", format!("the claim cannot be made: {error}")))
        }
        DecideError::Bug(_) => Failure::Retry(error.to_string()),
    }
}

pub(crate) fn store_failure(error: store::Error) -> Failure {
    match error {
        store::Error::Retryable(_) => Failure::Unavailable(error.to_string()),
        store::Error::Corrupt(_) | store::Error::Refused(_) => Failure::Retry(error.to_string()),
    }
}

/// Why nothing was claimed, as a metric label.
pub(crate) fn reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Ignored(ignored) => ignored.as_str(),
        Refusal::Kept => "kept",
        Refusal::OverQuota => "over_quota",
    }
}

/// An outcome and its error's class, as metric labels.
pub(crate) fn labels(outcome: &AttemptOutcome) -> (&'static str, &'static str) {
    let class = |error: &CallError| match error.class {
        ErrorClass::InvalidArguments => "invalid_arguments",
        ErrorClass::Unauthorized => "unauthorized",
        ErrorClass::NotFound => "not_found",
        ErrorClass::Conflict => "conflict",
        ErrorClass::BusinessRejected => "business_rejected",
        ErrorClass::RateLimited => "rate_limited",
        ErrorClass::Timeout => "timeout",
        ErrorClass::Unavailable => "unavailable",
        ErrorClass::OutcomeUnknown => "outcome_unknown",
        ErrorClass::Cancelled => "cancelled",
        ErrorClass::Skipped => "skipped",
        ErrorClass::OutputInvalid => "output_invalid",
        ErrorClass::OutputTooLarge => "output_too_large",
        ErrorClass::Internal => "internal",
    };
    match outcome {
        AttemptOutcome::Succeeded { .. } => ("succeeded", "none"),
        AttemptOutcome::Failed { error } => ("failed", class(error)),
        AttemptOutcome::NothingSent { error } => ("nothing_sent", class(error)),
        AttemptOutcome::Unknown { error } => ("unknown", class(error)),
    }
}
