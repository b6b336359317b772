//! The tool-executor: it claims an effect's attempt (or checks a read's lease), calls the tool under timeout and
//! cancellation, and reports one result per dispatch. It decides nothing about retries and settles nothing by itself.

mod claims;
mod classify;
mod handler;
mod http;
mod labels;
mod lease;
mod lookup;
pub mod names;
mod transport;

pub use classify::{CallKind, classify};
pub use handler::{DEFAULT_POLL_INTERVAL, ExecutorHandler};
pub use http::{Error, HttpTransport};
pub use lookup::LookupTransport;
pub use transport::{Answered, Body, RegistryTransport, ToolRequest, ToolTransport, Transported};
