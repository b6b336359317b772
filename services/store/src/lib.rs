//! Load and commit: one trait, Redis and in-memory. What is stored is opaque here.

mod acknowledged;
mod address;
mod api;
mod convert;
mod decide;
mod loading;
mod memory;
mod rebuild;
mod recent;
mod redis;
mod remember;
mod stats;
mod well_formed;

pub use crate::redis::{RedisConfig, RedisStore};
pub use address::shard_of;
pub use api::*;
pub use convert::{ends_commit, read_event};
pub use decide::*;
pub use memory::{Image, MemoryStore, Settled};
pub use rebuild::{Outbox, Rebuild};
pub use recent::Recent;
pub use remember::REMEMBERED_BYTES;
pub use stats::Stats;
