//! The store on Redis 7 or Valkey, alone or as a cluster: one script call, one round trip, for whatever must be atomic.

mod commit;
mod config;
mod connection;
mod durability;
mod error;
mod keys;
mod load;
mod reply;
mod retention;
mod script;
mod store;

pub use config::RedisConfig;
pub use store::RedisStore;
