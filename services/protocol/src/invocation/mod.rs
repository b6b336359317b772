//! One invocation: its bounded state, and the five functions over it.

mod admission;
mod apply;
mod calls;
mod claims;
mod draft;
mod effects;
mod emit;
mod handle;
mod needs;
mod rebuild;
mod state;
mod suspend;
mod timers;
mod turn;

#[cfg(test)]
mod tests;

pub use apply::{IllegalTransition, apply};
pub use claims::{ClaimRefusal, grants_claim, may_start_read};
pub use emit::{emit, wants_whole_ledger};
pub use handle::{Ignored, Input, Requested, handle, handle_and_apply};
pub use needs::{Needs, needs};
pub use rebuild::{Rebuilt, is_awaited, rebuild};
pub use state::*;
pub use timers::{Timer, TimerName, timers};
