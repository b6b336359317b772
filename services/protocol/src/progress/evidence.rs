//! Digests of what a turn asked for and of what it learned. Identities are left out, and so is what a tool declares
//! volatile: two digests are equal where nothing differs that means anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AcceptedCall, CallResult, Digest, ToolContract, TurnResult, canonical};

/// A plan's fingerprint and its streak: 1 where it first stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanMark {
    pub fingerprint: Digest,
    pub streak: u32,
}

/// The fingerprint of a batch: over (tool, canonical arguments) sorted, Call IDs and volatile fields left out.
pub fn fingerprint(calls: &[AcceptedCall]) -> Digest {
    let mark = |accepted: &AcceptedCall| {
        let arguments = lasting(&accepted.contract, &accepted.call.arguments);
        Digest::of("call", &[accepted.call.tool.as_str().as_bytes(), &arguments])
    };
    of_sorted("fingerprint", calls.iter().map(mark).collect())
}

/// What one result says: its tool, and its output without volatile fields or its class of error.
pub(super) fn evidence(contract: &ToolContract, result: &TurnResult) -> Digest {
    let (kind, said) = match &result.outcome.result {
        CallResult::Output(output) => ("output", lasting(contract, output)),
        CallResult::Error(error) => ("error", canonical(&serde_json::json!(error.class))),
    };
    Digest::of("evidence", &[result.tool.as_str().as_bytes(), kind.as_bytes(), &said])
}

/// What a turn has learned, in whatever order its calls stood.
pub(super) fn of_results(evidence: Vec<Digest>) -> Digest {
    of_sorted("results", evidence)
}

fn of_sorted(domain: &str, mut digests: Vec<Digest>) -> Digest {
    digests.sort_unstable();
    Digest::of(domain, &digests.iter().map(|digest| digest.0.as_slice()).collect::<Vec<_>>())
}

/// The canonical form of a value without the fields that its tool declares volatile.
fn lasting(contract: &ToolContract, value: &Value) -> Vec<u8> {
    match value {
        Value::Object(object) => {
            let lasting = object.iter().filter(|(name, _)| !contract.volatile.contains(name));
            canonical(&lasting.collect::<BTreeMap<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => canonical(value),
    }
}
