//! The agents and tools of every seed.

use chassis::registry::{Agent, AgentsFile, Carries, Ingress, IngressFile, ProviderConfig, Registry, Tool, ToolsFile};
use protocol::{Budget, Digest, MixedBatches, ProgressLimits, Timing};
use serde_json::json;

pub(super) const TENANT: &str = "acme";

pub(super) fn registry() -> Registry {
    let tools: ToolsFile = serde_json::from_value(json!({"tools": [
        tool("lookup", json!({"q": {}}), json!({})),
        tool("read_order", json!({"order": {}}), json!({"reads": ["order:{order}"]})),
        tool("refund", json!({"order": {}, "amount": {}, "refuse": {}}), json!({
            "writes": ["order:{order}"],
            "effect": {"key": "refund:{order}", "owner": "payments", "dedupe": "key", "query": true,
                       "settle_ms": 200, "probe": {"max_probes": 8, "base_ms": 50, "cap_ms": 2_000}},
            "run": {"kind": "http", "endpoint": {"url": "http://payments/refunds"},
                    "reconcile": {"url": "http://payments/refunds"}},
        })),
        // One attempt only: what becomes of it unknown and never came is closed.
        tool("credit", json!({"order": {}, "amount": {}}), json!({
            "writes": ["order:{order}"],
            "retry": {"max_attempts": 1},
            "effect": {"key": "per_invocation", "owner": "payments", "dedupe": "key", "query": true, "tombstone": true,
                       "settle_ms": 200, "probe": {"max_probes": 8, "base_ms": 50, "cap_ms": 2_000}},
            "run": {"kind": "http", "endpoint": {"url": "http://payments/credits"},
                    "reconcile": {"url": "http://payments/credits"}},
        })),
        tool("wire", json!({"to": {}}), json!({
            "writes": ["account:{to}"],
            "effect": {"key": "per_invocation", "owner": "bank", "dedupe": "none", "query": false},
            "run": {"kind": "http", "endpoint": {"url": "http://bank/wires"}},
        })),
    ]}))
    .expect("the simulated tools are well formed");
    let timing = Timing {
        decide_timeout_ms: 4_000,
        call_slack_ms: 800,
        max_reissues: 6,
        approval_ttl_ms: 5_000,
        ..Timing::default()
    };
    let names = tools.tools.iter().map(|tool: &Tool| tool.name.clone()).collect();
    let agent = Agent {
        name: "sim".into(),
        provider: ProviderConfig::Scripted { scenario: "none".to_owned() },
        model: "chance".to_owned(),
        system: String::new(),
        tools: names,
        budget: Budget { max_repeated_plan: 3, ..Budget::default() },
        timing,
        mixed_batches: MixedBatches::Order,
        progress: ProgressLimits::default(),
        prices: None,
        validators: Vec::new(),
    };
    let ingress = |carries| Ingress { carries, topic: None, tenants: vec![TENANT.into()], may: None, signed: vec![] };
    Registry {
        agents: AgentsFile { agents: vec![agent], tenants: Vec::new() },
        tools,
        ingress: IngressFile { ingress: vec![ingress(Carries::Invocations), ingress(Carries::Controls)], keys: vec![] },
        digest: Digest::of("sim-registry", &[]),
        directory: std::path::PathBuf::new(),
    }
}

fn tool(name: &str, properties: serde_json::Value, more: serde_json::Value) -> serde_json::Value {
    let mut tool = json!({
        "name": name,
        "arguments": {"type": "object", "properties": properties, "additionalProperties": false},
        "timeout_ms": 600,
        "retry": {"max_attempts": 3, "base_ms": 50, "cap_ms": 500},
        "run": {"kind": "http", "endpoint": {"url": "http://tools/call"}},
    });
    let fields = tool.as_object_mut().expect("a tool is an object");
    fields.extend(more.as_object().cloned().unwrap_or_default());
    tool
}
