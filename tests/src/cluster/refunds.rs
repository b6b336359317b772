//! The operator's files of a small agent with an effect: it reads a profile, refunds the order that its goal names at an
//! owner that a test runs, and answers with the owner's receipt.

use std::net::SocketAddr;

use super::Files;

const AGENTS: &str = "
agents:
  - name: refunds
    provider: {kind: scripted, scenario: scenario.yaml}
    model: scripted
    tools: [profile, refund]
    budget: {max_steps: 4, max_tool_calls: 4, max_tokens: 10000, max_cost_micros: 10000, max_repeated_plan: 1}
    # Patience in numbers, not in length: what is lost is asked for again soon, and no outage of a test ends a run.
    timing: {max_runtime_ms: 300000, decide_timeout_ms: 5000, max_reissues: 50, max_rereleases: 50}
";

const POLICY: &str = "permit(principal in Tenant::\"tests\", action, resource);";

const INGRESS: &str = "
ingress:
  - {carries: invocations, tenants: [tests]}
  - {carries: controls, tenants: [tests]}
";

const SCENARIO: &str = "
runs:
  - steps:
      - step: 1
        decision: {kind: tool_calls, calls: [{call_id: c1, tool_name: profile, arguments: {customer: ada}}]}
      - step: 2
        decision: {kind: tool_calls, calls: [{call_id: c2, tool_name: refund, arguments: {order: '{goal.order}', amount: 80}}]}
      - step: 3
        decision: {kind: final, answer: 'profile={c1.output.status}; receipt={c2.output.effect_id}'}
";

const TOOLS: &str = "
tools:
  - name: profile
    arguments: {type: object, required: [customer], properties: {customer: {type: string}}}
    reads: ['customer:{customer}']
    timeout_ms: 2000
    retry: {max_attempts: 50, cap_ms: 1000}
    run: {kind: lookup, argument: customer, rows: {ada: {status: active}}}
  - name: refund
    arguments:
      {type: object, required: [order, amount], properties: {order: {type: string}, amount: {type: integer}}}
    # An owner that honours the key and can be asked: every unknown outcome can be found out.
    effect: {key: per_invocation, owner: payments, dedupe: key, query: true}
    writes: ['order:{order}']
    timeout_ms: 2000
    run:
      kind: http
      endpoint: {url: 'http://OWNER/refund'}
      reconcile: {url: 'http://OWNER/effects'}
";

impl Files {
    /// Tenant `tests`, agent `refunds`; the goal is `{\"order\": …}`.
    pub fn refunds(owner: SocketAddr) -> Self {
        Self::Written(vec![
            ("agents.yaml", AGENTS.to_owned()),
            ("ingress.yaml", INGRESS.to_owned()),
            ("policies/main.cedar", POLICY.to_owned()),
            ("scenario.yaml", SCENARIO.to_owned()),
            ("tools.yaml", TOOLS.replace("OWNER", &owner.to_string())),
        ])
    }
}
