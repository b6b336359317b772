//! Transcripts and properties of the decider. Each transcript drives `handle`/`apply`/`emit` as the committer does.

mod budgets;
mod plans;
mod progress;
mod properties;
mod suspensions;
mod table;
mod transcripts;
mod world;
