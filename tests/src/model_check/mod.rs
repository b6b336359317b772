//! Model checking: everything that can happen in small worlds around the real core is looked at, not a sample of it.
//!
//! `handle`, `apply`, `emit`, `needs` and `timers` are the real ones. Around them the model has what may happen outside: a
//! network that loses, repeats and reorders, replicas that load and commit apart, executors and owners, people, time.

mod act;
mod answers;
mod facts;
mod history;
mod identity;
mod inputs;
mod invariants;
mod live;
mod model;
mod moves;
mod mutants;
mod names;
mod over;
mod owners;
mod run;
mod scenario;
mod scenarios;
mod world;

pub use mutants::Mutant;
pub use run::{Outcome, Violation, explore, hunt};
pub use scenario::Scenario;
pub use scenarios::{Size, UNREACHED, scenarios};
