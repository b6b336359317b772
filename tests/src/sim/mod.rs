//! The whole pipeline in one thread under a seeded scheduler: real handlers, virtual time, an in-memory bus, store, model
//! and owner, with crashes, duplicates, delays and lost replies. Equal seeds give equal runs.

mod bus;
mod executor;
mod model;
mod mutants;
mod owner;
mod pipeline;
mod process;
mod run;
mod services;
mod store;
mod tools;
mod world;

pub use bus::{Published, SimBus};
pub use executor::{Executor, ProcessId};
pub use model::SimModel;
pub use owner::{Application, SimOwner};
pub use pipeline::{Edges, Pipeline, Seen};
pub use process::SimClock;
pub use run::{Mutant, Report, Setup, run_seed};
pub use store::{CommitLog, SimStore};
pub use world::{Faults, World};
