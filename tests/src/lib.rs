//! In-process pipeline, simulation, crash and broker suites, benchmark and repository rules.

pub mod bench;
pub mod checker;
pub mod cluster;
pub mod model_check;
pub mod owner;
pub mod sim;
