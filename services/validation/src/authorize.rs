//! Authorization of every call of a batch (M7), in words that a model may see: policies by name, never by text.

use protocol::{AcceptedCall, ApprovalReason, Finding, FindingCode, TurnReady};

use crate::policy::{Approval, Caller, Outcome, Policy, Touched};
use crate::schema::bounded;

/// A gate that applies to a call.
pub(crate) struct Gated {
    /// The call's place in the decision.
    path: String,
    policy: String,
    pub approval: Approval,
}

impl Gated {
    pub fn into_reason(self) -> ApprovalReason {
        ApprovalReason { path: self.path, policy: self.policy, message: self.approval.reason }
    }
}

/// The longest part of an object's name that is repeated, in bytes.
const MAX_OBJECT_BYTES: usize = 200;

/// Every denial, one finding for each thing that may not be touched; and the gates that apply. A call whose tool or
/// arguments are wrong (`found`) touches nothing that could be named, and is judged once they are right.
pub(crate) fn judge(
    turn: &TurnReady,
    calls: &[AcceptedCall],
    found: &[Finding],
    policy: &Policy,
) -> (Vec<Finding>, Vec<Gated>) {
    let caller =
        Caller { tenant: &turn.scope.tenant, actor: &turn.actor, agent: &turn.agent, task_type: &turn.scope.task_type };
    let (mut denied, mut gated) = (Vec::new(), Vec::<Gated>::new());
    for (ordinal, accepted) in calls.iter().enumerate() {
        let path = format!("calls[{ordinal}]");
        let inside = format!("{path}.");
        if found.iter().any(|finding| finding.path.starts_with(&inside)) {
            continue;
        }
        // A resource that cannot be named is the plan's finding.
        let Ok(ruling) = policy.rule(&caller, &accepted.contract, &accepted.call.arguments) else { continue };
        for touched in ruling.touched {
            let what = what(accepted, &touched);
            match touched.outcome {
                Outcome::Allowed { .. } => {}
                Outcome::Gated { gates, .. } => {
                    // One gate over several objects is one reason.
                    let known = |policy: &str| gated.iter().any(|one| one.path == path && one.policy == policy);
                    let new: Vec<_> = gates.into_iter().filter(|gate| !known(&gate.policy)).collect();
                    gated.extend(new.into_iter().map(|gate| Gated {
                        path: path.clone(),
                        policy: gate.policy,
                        approval: gate.approval,
                    }));
                }
                Outcome::Denied { by, broken } => {
                    let named = |names: Vec<String>| format!("`{}`", names.join("`, `"));
                    let why = match (by.is_empty(), broken.is_empty()) {
                        (false, _) => format!("is denied by {}", named(by)),
                        (true, false) => {
                            let broken = named(broken.into_iter().map(|broken| broken.policy).collect());
                            format!("is denied, because {broken} cannot be evaluated for it")
                        }
                        (true, true) => "is denied: no policy permits it".to_owned(),
                    };
                    denied.push(Finding::new(FindingCode::Unauthorized, path.clone(), format!("{what} {why}")));
                }
            }
        }
    }
    (denied, gated)
}

fn what(accepted: &AcceptedCall, touched: &Touched) -> String {
    let tool = &accepted.contract.tool;
    match &touched.object {
        Some(object) => {
            format!("`{tool}`, to {} `{}`,", touched.access.as_str(), bounded(object, MAX_OBJECT_BYTES))
        }
        None => format!("`{tool}`"),
    }
}
