//! Judges untrusted decisions against the registry, schemas, policies, budgets and plan rules. It keeps no state and reads
//! no store: the turn's basis travels in the message, and the committer decides again with authority.

mod answer;
mod authorize;
mod calls;
mod cost;
mod handler;
mod judge;
mod limits;
pub mod policy;
mod reload;
mod schema;

pub use handler::ValidationHandler;
pub use judge::Judge;
pub use limits::DecisionLimits;
pub use reload::{Reload, Unusable};
pub use schema::SchemaProblems;

#[cfg(test)]
mod tests;
