//! Transcripts and properties of the decider. Each transcript drives `handle`/`apply`/`emit` as the committer does.

mod properties;
mod suspensions;
mod transcripts;
mod world;
