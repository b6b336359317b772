//! The reconciler (M20): it asks the service that owns an effect, by Effect Key, what became of an attempt of unknown
//! outcome, and reports its answer. It keeps nothing but which owners are down, never sleeps and decides nothing: when to ask again, how often,
//! and whether "not found" counts yet is the core's business.

mod answer;
mod breaker;
mod handler;
mod http;
pub mod names;
mod owner;

pub use answer::answer;
pub use breaker::BreakerConfig;
pub use handler::ReconcilerHandler;
pub use http::{Error, HttpOwner};
pub use owner::{OwnerQuery, OwnerReply, Question, Verb};
