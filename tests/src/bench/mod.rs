//! The benchmark: the workload *lookup-3* on real Kafka, real Redis and five service processes, in a closed loop. It checks
//! while it measures: every invocation ends `completed` once, and the effect's owner has applied one change for each.

mod clients;
mod cluster;
mod error;
mod handled;
mod load;
mod options;
mod peer;
mod process;
mod report;
mod run;
mod stages;

pub use error::Error;
pub use handled::Handled;
pub use options::{DEFAULT_PARTITIONS, Options};
pub use peer::compare;
pub use report::{Level, Report, Usage};
pub use run::run;
pub use stages::Hop;
