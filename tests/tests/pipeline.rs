//! The whole pipeline in one process, with virtual time and without faults: what goes in by topic, what comes out by topic.
//! Every handler is the real one; the model follows a scenario, and tools and owners do what the test says.

#[path = "pipeline/budgets.rs"]
mod budgets;
#[path = "pipeline/effects.rs"]
mod effects;
#[path = "pipeline/ends.rs"]
mod ends;
#[path = "pipeline/ingress.rs"]
mod ingress;
#[path = "pipeline/people.rs"]
mod people;
#[path = "pipeline/progress.rs"]
mod progress;
#[path = "pipeline/replay.rs"]
mod replay;
#[path = "pipeline/rollback.rs"]
mod rollback;
#[path = "pipeline/stage.rs"]
mod stage;
#[path = "pipeline/turns.rs"]
mod turns;
