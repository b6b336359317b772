//! The handler over a real decider and an in-memory store, a fake tool, a fake bus and a virtual clock.

mod clock;
mod effects;
mod reads;
mod support;
