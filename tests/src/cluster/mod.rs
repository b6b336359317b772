//! A whole Turnwright for the broker tests: real Kafka, real Redis and every service as a process of its own, on free
//! ports and in folders of its own. It starts, stops, kills and watches; what is right or wrong is for the tests to say.

mod bus;
mod duplicator;
mod edge;
mod error;
mod infra;
mod lag;
mod observe;
mod reader;
mod refunds;
mod run;
mod service;
mod spec;

pub use bus::{Producer, Request, kcat};
pub use duplicator::Duplicator;
pub use edge::{binary, inherited, new_id, unique};
pub use error::Error;
pub use infra::Kafka;
pub use observe::{Log, Observed};
pub use reader::{Reader, Start};
pub use run::Cluster;
pub use service::{Service, ServiceName};
pub use spec::{ClusterSpec, Files};
