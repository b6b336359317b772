//! The pure decider. All protocol logic lives here, with no I/O, no clock, no randomness and no async.
//!
//! [`handle`] says what happens or why nothing does, [`apply`] is the one transition table, [`emit`] says what the
//! outbox must carry because of a commit, [`timers`] what must wake the invocation later, and [`needs`] which ledger
//! entries a decision will look at.

mod approval;
mod budget;
mod decision;
mod effect;
mod event;
mod ids;
mod invocation;
mod json;
mod ledger;
mod message;
mod outcome;
mod plan;
mod progress;
mod request;
mod terminal;
mod tool;

pub use approval::*;
pub use budget::*;
pub use decision::*;
pub use effect::*;
pub use event::*;
pub use ids::*;
pub use invocation::*;
pub use json::*;
pub use ledger::*;
pub use message::*;
pub use outcome::*;
pub use plan::*;
pub use progress::*;
pub use request::*;
pub use terminal::*;
pub use tool::*;
