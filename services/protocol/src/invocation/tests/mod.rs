//! Transcripts and properties of the decider, which drive `handle`/`apply`/`emit` as the committer does; and what neither
//! can reach.

mod bounds;
mod budgets;
mod overtaken;
mod patience;
mod plans;
mod progress;
mod properties;
mod rebuild;
mod replay;
mod table;
mod tampered;
mod tombstones;
mod world;
