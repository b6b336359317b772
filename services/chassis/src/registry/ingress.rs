//! Who is speaking (`ingress.yaml`): a tenant is proven by the topic a record arrives on, never by its payload (S4), and an
//! approver by a signature where the topic alone does not tell (S3).

use protocol::{Actor, Tenant};
use schemas::{DeadLetterCode, Inbound, PublicKey, Rejection, Signature, headers, is_key_id};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngressFile {
    pub ingress: Vec<Ingress>,
    /// Whose signatures count.
    #[serde(default)]
    pub keys: Vec<Key>,
}

/// A key that signs controls. To revoke it, take it out and start the committer again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Named by each signature, so that a person may have several, and change them.
    pub id: String,
    /// The person whose key it is: the only actor of its controls. Left out for a gateway that has proven the actor itself.
    #[serde(default)]
    pub actor: Option<Actor>,
    /// Whose runs it may speak of; never `*`.
    pub tenants: Vec<Tenant>,
    /// Ed25519, as `openssl pkey -pubout` writes it.
    pub public_key: PublicKey,
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
    /// The controls that need a signature here. Where tenants share the topic, [`SIGNED_WHERE_SHARED`] need one in any case.
    #[serde(default)]
    pub signed: Vec<ControlKind>,
}

/// What is never believed by its topic alone, where that topic proves more than one tenant.
pub const SIGNED_WHERE_SHARED: [ControlKind; 3] =
    [ControlKind::Approve, ControlKind::Reject, ControlKind::ResolveEffect];

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

impl ControlKind {
    const ALL: [Self; 5] = [Self::Cancel, Self::Approve, Self::Reject, Self::Clarify, Self::ResolveEffect];
}

impl IngressFile {
    pub(super) fn check(&self, problems: &mut Vec<String>) {
        for (i, entry) in self.ingress.iter().enumerate() {
            if entry.tenants.is_empty() {
                let message = "name the tenants that this topic proves, or `*` where every producer is trusted";
                problems.push(format!("ingress.yaml: ingress[{i}].tenants: {message}"));
            }
            let signs = ControlKind::ALL.iter().any(|kind| entry.must_be_signed(*kind) && entry.may_carry(*kind));
            if entry.carries == Carries::Invocations && !entry.signed.is_empty() {
                problems.push(format!("ingress.yaml: ingress[{i}].signed: only controls are signed; leave it out"));
            } else if entry.carries == Carries::Controls && signs && self.keys.is_empty() {
                let message = "controls of this topic need a signature (approve, reject and resolve_effect do where \
                               tenants share it): add the approvers' `keys`, or leave those kinds out of `may`";
                problems.push(format!("ingress.yaml: ingress[{i}].signed: {message}"));
            }
        }
        for (i, key) in self.keys.iter().enumerate() {
            let mut problem =
                |field: &str, message: &str| problems.push(format!("ingress.yaml: keys[{i}].{field}: {message}"));
            if !is_key_id(&key.id) {
                problem("id", "must be 1 to 64 letters, digits, `.`, `_` and `-`");
            }
            if self.keys[..i].iter().any(|other| other.id == key.id) {
                problem("id", "another key has it; a signature names its key by it");
            }
            if key.actor.as_ref().is_some_and(|actor| actor.as_str().is_empty()) {
                problem("actor", "name whose key it is, or leave it out for a gateway");
            }
            if key.tenants.is_empty() || key.tenants.iter().any(|tenant| tenant.as_str() == "*") {
                problem("tenants", "name the tenants of whose runs this key may speak, each by itself");
            }
        }
        for carries in [Carries::Invocations, Carries::Controls] {
            if !self.ingress.iter().any(|entry| entry.carries == carries) {
                problems.push(format!("ingress.yaml: ingress: no topic carries {carries:?}").to_lowercase());
            }
        }
    }
}

impl IngressFile {
    /// Whether a control may be believed: it is signed where it must be, and a signature that is there is that of a known
    /// key, whose owner is the control's actor and may speak of its tenant.
    ///
    /// # Errors
    /// `signature_required`, or `signature_invalid` with the field that does not fit.
    pub fn prove(
        &self,
        ingress: &Ingress,
        kind: ControlKind,
        (tenant, actor): (&Tenant, &Actor),
        record: &Inbound,
    ) -> Result<(), Rejection> {
        let Some(signature) = Signature::of(record)? else {
            if ingress.must_be_signed(kind) {
                let message = "this topic takes such a control with a signature only; see `turnwright approve --help`";
                return Err(Rejection::new(DeadLetterCode::SignatureRequired, headers::SIGNATURE, message));
            }
            return Ok(());
        };
        let invalid =
            |field: &str, message: &str| Err(Rejection::new(DeadLetterCode::SignatureInvalid, field, message));
        let Some(key) = self.keys.iter().find(|key| key.id == signature.key_id) else {
            return invalid(headers::SIGNATURE, "no key of that ID is known; see `keys` of ingress.yaml");
        };
        signature.verify(record, &key.public_key)?;
        if key.actor.as_ref().is_some_and(|owner| owner != actor) {
            return invalid("actor", "is not the owner of the key that signed");
        }
        if !key.tenants.contains(tenant) {
            return invalid("tenant", "is none of those that the key that signed may speak of");
        }
        Ok(())
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

    /// Whether that kind of control counts with a signature only.
    pub fn must_be_signed(&self, kind: ControlKind) -> bool {
        let shared = self.tenants.len() > 1 || self.tenants.iter().any(|tenant| tenant.as_str() == "*");
        self.signed.contains(&kind) || (shared && SIGNED_WHERE_SHARED.contains(&kind))
    }

    /// Whether this topic may carry that kind of control.
    pub fn may_carry(&self, kind: ControlKind) -> bool {
        self.may.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The public key of RFC 8032, 7.1, test 1.
    const KEY: &str = "|\n      -----BEGIN PUBLIC KEY-----\n      \
                       MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n      -----END PUBLIC KEY-----\n";

    fn problems(controls: &str, keys: &str) -> Vec<String> {
        let text = format!(
            "ingress:\n  - {{carries: invocations, tenants: [a]}}\n  - {{carries: controls, {controls}}}\n{}",
            keys.replace("KEY", KEY)
        );
        let mut problems = Vec::new();
        match serde_yaml_ng::from_str::<IngressFile>(&text) {
            Ok(file) => file.check(&mut problems),
            Err(error) => problems.push(error.to_string()),
        }
        problems
    }

    #[test]
    fn a_topic_that_tenants_share_needs_keys_unless_it_carries_nothing_that_is_signed() {
        let one = "keys:\n  - id: ann-1\n    actor: ann\n    tenants: [a]\n    public_key: KEY";
        for (controls, keys) in [
            ("tenants: [a]", ""),
            ("tenants: [a, b], may: [cancel, clarify]", ""),
            ("tenants: [a, b]", one),
            ("tenants: [a], signed: [approve]", one),
        ] {
            assert_eq!(problems(controls, keys), Vec::<String>::new(), "{controls}");
        }
        for controls in ["tenants: [a, b]", "tenants: ['*']", "tenants: [a], signed: [cancel]"] {
            let found = problems(controls, "");
            assert!(found.len() == 1 && found[0].contains("ingress[1].signed"), "{controls}: {found:?}");
        }
    }

    #[test]
    fn keys_that_cannot_be_used_are_named() {
        let key = |id: &str, tenants: &str, public: &str| {
            format!("keys:\n  - id: {id}\n    tenants: {tenants}\n    public_key: {public}")
        };
        let twice = key("a", "[a]", "KEY") + "  - id: a\n    tenants: [a]\n    public_key: KEY";
        for (keys, said) in [
            (key("'a b'", "[a]", "KEY"), "keys[0].id"),
            (key("a", "[]", "KEY"), "keys[0].tenants"),
            (key("a", "['*']", "KEY"), "keys[0].tenants"),
            (key("a", "[a]", "abc"), "keys[0]: not the PEM of an Ed25519 public key"),
            (twice, "keys[1].id: another key has it"),
        ] {
            let found = problems("tenants: [a]", &keys);
            assert!(found.len() == 1 && found[0].contains(said), "{keys}: {found:?}");
        }
    }
}
