//! Who is speaking (`ingress.yaml`): a tenant is proven by the topic a record arrives on, never by its payload (S4).

use protocol::Tenant;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngressFile {
    pub ingress: Vec<Ingress>,
}

/// One input topic, and who may speak on it. Kafka ACLs guard the topic itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    pub carries: Carries,
    /// The full topic name; the standard topic when left out.
    #[serde(default)]
    pub topic: Option<String>,
    /// The tenants this topic proves. `*` stands for any: only where every producer is trusted.
    pub tenants: Vec<Tenant>,
    /// The controls that may arrive here; all, when left out.
    #[serde(default)]
    pub may: Option<Vec<ControlKind>>,
}

/// What an input topic carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carries {
    Invocations,
    Controls,
}

/// The kinds of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlKind {
    Cancel,
    Approve,
    Reject,
    Clarify,
    ResolveEffect,
}

impl IngressFile {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        for (i, entry) in self.ingress.iter().enumerate() {
            if entry.tenants.is_empty() {
                let message = "name the tenants that this topic proves, or `*` where every producer is trusted";
                problems.push(format!("ingress.yaml: ingress[{i}].tenants: {message}"));
            }
        }
        for carries in [Carries::Invocations, Carries::Controls] {
            if !self.ingress.iter().any(|entry| entry.carries == carries) {
                problems.push(format!("ingress.yaml: ingress: no topic carries {carries:?}").to_lowercase());
            }
        }
    }
}

impl Ingress {
    /// The topic's full name.
    pub fn topic_name(&self, prefix: &str) -> String {
        let standard = match self.carries {
            Carries::Invocations => schemas::Topic::Invocations,
            Carries::Controls => schemas::Topic::Controls,
        };
        self.topic.clone().unwrap_or_else(|| standard.name(prefix))
    }

    /// Whether a record of this topic may speak for that tenant.
    pub fn proves(&self, tenant: &Tenant) -> bool {
        self.tenants.iter().any(|proven| proven == tenant || proven.as_str() == "*")
    }

    /// Whether this topic may carry that kind of control.
    pub fn may_carry(&self, kind: ControlKind) -> bool {
        self.may.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }
}
