//! Who may do what (M7): Cedar policies of the operator, denied by default. A policy with `@approval` is a gate: what the
//! rest allows, it makes wait for a person. Policies see names and arguments, never a model's prose (S1).

mod approval;
mod compile;
mod entities;
mod files;
mod request;
mod ruling;

pub use approval::Approval;
pub use compile::{Policy, PolicyProblems};
pub use files::{PolicyFiles, example};
pub use request::{Access, Caller};
pub use ruling::{Broken, Gate, Outcome, Permission, Ruling, Touched};
