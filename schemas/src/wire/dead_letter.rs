//! `dead-letters`: the envelope around a record that could never be handled.

use serde::{Deserialize, Serialize};

use super::scalars::{Bytes, Time};
use super::symbols::LetterCode;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLettered {
    pub code: LetterCode,
    pub field: String,
    pub message: String,
    pub attempts: u32,
    pub service: String,
    pub topic: String,
    pub partition: i64,
    pub offset: i64,
    pub timestamp: Time,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub value_length: i64,
    pub headers: Vec<Header>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub name: String,
    pub value: Bytes,
}
