//! Judges untrusted decisions against the registry, schemas, budgets and plan rules. It keeps no state and reads no store:
//! the turn's basis travels in the message, and the committer decides again with authority.

mod answer;
mod calls;
mod cost;
mod handler;
mod judge;
mod limits;
mod schema;

pub use handler::ValidationHandler;
pub use judge::Judge;
pub use limits::DecisionLimits;
pub use schema::SchemaProblems;

#[cfg(test)]
mod tests;
