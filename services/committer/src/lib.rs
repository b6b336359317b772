//! Folds every input of an invocation into its committed events, and relays the outbox: the fast path answers with what
//! a commit must say, the sweeper publishes what a crash left behind.

mod config;
mod handler;
mod ingest;
mod leases;
mod rebuild;
mod relay;
mod republish;
mod retention;
mod sweeper;
mod timers;

pub use config::CommitterConfig;
pub use handler::CommitterHandler;
pub use leases::Leases;
pub use rebuild::{Compared, Rebuilder, Rebuilds};
pub use relay::{OutboxEncoder, outbound};
pub use republish::ClusterWatch;
pub use retention::Expiry;
pub use sweeper::{Flush, Sweeper};
pub use timers::Timers;

/// The decider of a committer, which remembers what it has committed last: most inputs of a run come to the process that
/// has committed the one before.
pub fn remembering(decider: store::Decider, clock: std::sync::Arc<dyn chassis::Clock>) -> store::Decider {
    decider.remembering(store::REMEMBERED_BYTES, std::sync::Arc::new(move || clock.elapsed()))
}
