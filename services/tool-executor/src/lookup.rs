//! The in-process `lookup` tool: answers from its rows in the registry and needs no service.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::Clock;
use chassis::registry::ToolKind;
use protocol::ErrorClass;
use serde_json::Value;

use crate::{Answered, Body, ToolRequest, ToolTransport, Transported};

/// Answers as an HTTP service would: 200 with the row, 404 for an unknown one, 400 for an argument that names none.
pub struct LookupTransport {
    clock: Arc<dyn Clock>,
}

impl LookupTransport {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

#[async_trait]
impl ToolTransport for LookupTransport {
    async fn call(&self, request: &ToolRequest<'_>) -> Transported {
        let ToolKind::Lookup { argument, rows, delay_ms } = &request.tool.run else {
            return Transported::NothingSent { class: ErrorClass::Internal, why: "it is not a lookup tool" };
        };
        if *delay_ms > 0 {
            self.clock.sleep(Duration::from_millis(*delay_ms)).await;
        }
        let row = match request.arguments.get(argument) {
            Some(Value::String(name)) => rows.get(name),
            Some(Value::Number(number)) => rows.get(&number.to_string()),
            Some(Value::Bool(flag)) => rows.get(&flag.to_string()),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => {
                return Transported::Answered(Answered::new(400, []));
            }
        };
        let Some(row) = row else {
            return Transported::Answered(Answered::new(404, []));
        };
        let text = row.to_string().into_bytes();
        let body = if text.len() > request.tool.max_output_bytes { Body::TooLarge } else { Body::Whole(text) };
        Transported::Answered(Answered { body, ..Answered::new(200, []) })
    }
}
