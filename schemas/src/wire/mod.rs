//! Plain structs that mirror `avro/*.avsc` field by field, and what of the protocol each one carries. Nothing else in
//! the crate knows both sides.

mod call;
mod dead_letter;
mod effect;
mod ended;
mod events;
mod parts;
mod request;
mod scalars;
mod symbols;
mod turn;

use protocol::InvocationId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{EncodeError, Limits, Rejection};

pub use dead_letter::{DeadLettered, Header};
pub use request::{BudgetRequested, ControlRequested, GoalPredicate, InvocationRequested};
pub use scalars::{Bytes, Json, Time, bounded, json_rejection};
pub use symbols::{ControlKind, ErrorClass, LetterCode, ResolvedOutcome, unrecognized};

/// A message of the protocol and its record on the wire.
pub trait Mapped: Sized {
    type Wire: Serialize + DeserializeOwned;

    /// The record; an error when the other side would have to refuse it.
    fn to_wire(&self, limits: &Limits) -> Result<Self::Wire, EncodeError>;

    /// The message; an error names the field.
    fn from_wire(wire: Self::Wire, limits: &Limits) -> Result<Self, Rejection>;

    /// The record's key.
    fn invocation_id(&self) -> InvocationId;

    /// The time of what the record says, for `ce_time`.
    fn time_ms(&self) -> Option<i64> {
        None
    }
}

#[cfg(test)]
mod tests;
