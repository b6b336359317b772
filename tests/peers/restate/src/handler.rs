//! The workload lookup-3 as a Restate handler: a durable step for each decision and each call; reads run side by side.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize)]
struct Request {
    id: String,
}

#[derive(Serialize, Deserialize, Clone)]
struct Call {
    call_id: String,
    tool: String,
    arguments: Value,
}

#[derive(Serialize, Deserialize, Clone)]
#[serde(tag = "kind")]
enum Decision {
    ToolCalls { calls: Vec<Call> },
    Final { answer: String },
}

/// The scripted model.
fn decide(id: &str, turn: u32) -> Decision {
    let call = |n: u32, tool: &str| Call {
        call_id: format!("{id}-{turn}-{n}"),
        tool: tool.to_owned(),
        arguments: json!({"q": n}),
    };
    match turn {
        1 => Decision::ToolCalls { calls: vec![call(1, "lookup"), call(2, "lookup")] },
        2 => Decision::ToolCalls { calls: vec![call(1, "incr")] },
        _ => Decision::Final { answer: "done".to_owned() },
    }
}

#[derive(Clone, Default)]
struct Agent {
    counter: Arc<AtomicU64>,
}

impl Agent {
    /// The tools, in the handler's own process.
    fn call(&self, call: &Call) -> Value {
        let n = if call.tool == "incr" { self.counter.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        json!({"call_id": call.call_id, "ok": true, "n": n})
    }
}

#[service]
impl Agent {
    #[handler]
    async fn run(&self, ctx: Context<'_>, Json(request): Json<Request>) -> Result<Json<Value>, HandlerError> {
        let (mut turn, mut calls_made) = (0, 0);
        loop {
            turn += 1;
            let id = request.id.clone();
            let Json(decision) = ctx.run(|| async move { Ok(Json(decide(&id, turn))) }).name("decide").await?;
            let calls = match decision {
                Decision::Final { answer } => {
                    return Ok(Json(json!({"answer": answer, "turns": turn, "calls": calls_made})));
                }
                Decision::ToolCalls { calls } => calls,
            };
            calls_made += calls.len();
            let steps = calls.into_iter().map(|call| {
                let agent = self.clone();
                let step = ctx.run(|| async move { Ok(Json(agent.call(&call))) }).name("call");
                // A step is a future only once it is asked to be one.
                async move { step.await }
            });
            futures::future::try_join_all(steps).await?;
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::args().nth(1).and_then(|text| text.parse::<SocketAddr>().ok());
    let address = address.expect("usage: handler HOST:PORT");
    let agent = Endpoint::builder().bind(Agent::default()).build();
    HttpServer::new(agent).listen_and_serve(address).await;
}
