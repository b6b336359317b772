//! The in-process lookup tool.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chassis::Clock;
use chassis::registry::Tool;
use futures::executor::block_on;
use protocol::AttemptId;
use serde_json::{Value, json};
use turnwright_tool_executor::{Answered, Body, LookupTransport, ToolRequest, ToolTransport, Transported};

#[derive(Default)]
struct Slept(Mutex<Duration>);

#[async_trait]
impl Clock for Slept {
    fn elapsed(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        *self.0.lock().unwrap() += duration;
    }
}

fn answer(clock: &Arc<Slept>, arguments: &Value) -> Transported {
    let tool: Tool = serde_json::from_value(json!({
        "name": "profile", "arguments": {}, "max_output_bytes": 30,
        "run": {"kind": "lookup", "argument": "id", "delay_ms": 7,
                "rows": {"c-1": {"status": "active"}, "7": "seven", "large": "x".repeat(100)}},
    }))
    .unwrap();
    let request = ToolRequest {
        tool: &tool,
        arguments,
        idempotency_key: None,
        request_fingerprint: None,
        attempt_id: AttemptId(Default::default()),
        timeout: Duration::from_secs(1),
        traceparent: None,
    };
    block_on(LookupTransport::new(Arc::clone(clock) as Arc<dyn Clock>).call(&request))
}

#[test]
fn a_row_is_found_by_the_value_of_its_argument_after_the_delay() {
    let clock = Arc::new(Slept::default());
    let answered = |status, body: &str| Transported::Answered(Answered::new(status, body));
    assert_eq!(answer(&clock, &json!({"id": "c-1"})), answered(200, r#"{"status":"active"}"#));
    assert_eq!(answer(&clock, &json!({"id": 7})), answered(200, r#""seven""#));
    assert_eq!(answer(&clock, &json!({"id": "nobody"})), answered(404, ""));
    assert_eq!(answer(&clock, &json!({"id": null})), answered(400, ""));
    assert_eq!(answer(&clock, &json!({})), answered(400, ""));
    let large = Transported::Answered(Answered { body: Body::TooLarge, ..Answered::new(200, "") });
    assert_eq!(answer(&clock, &json!({"id": "large"})), large);
    assert_eq!(clock.elapsed(), Duration::from_millis(6 * 7));
}
