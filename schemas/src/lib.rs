//! The wire crate: Avro schemas, topics, codecs and the translation between wire records and the protocol.

mod avro;
mod codec;
pub mod headers;
mod history;
mod limits;
mod record;
mod registry;
mod rejection;
mod signature;
mod stored;
mod topics;
mod wire;

pub use codec::*;
pub use limits::*;
pub use record::*;
pub use registry::{RegistryError, subject};
pub use rejection::*;
pub use signature::{KeyError, PublicKey, Signature, SigningKey, is_key_id};
pub use stored::NotARecord;
pub use topics::*;
