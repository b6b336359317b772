//! `needs`: which ledger entries, and which event's hash, `handle` will look at.

use super::{Input, Invocation, Phase, Suspension, TimerName};
use crate::{AcceptedDecision, Control, EffectKey, Judgement, Plan, Version};

/// What must be loaded beside the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    pub effects: Vec<EffectKey>,
    /// The hash of the event at this version is compared with the input's basis.
    pub hash_at: Option<Version>,
}

/// What `handle` will look at for this input. Ask it of the absent invocation before the first load, and again of what
/// was loaded: a running plan adds its own keys.
pub fn needs(invocation: &Invocation, input: &Input) -> Needs {
    let mut effects = match invocation.phase() {
        Some(Phase::Deciding(_) | Phase::Suspended(Suspension::Clarification(_))) | None => Vec::new(),
        Some(Phase::Suspended(Suspension::Approval(pending))) => pending.requested.plan.effect_keys(),
        Some(
            Phase::Executing(_) | Phase::Suspended(Suspension::Operator(_)) | Phase::Cancelling(_) | Phase::Ended(_),
        ) => invocation.execution().map(|execution| execution.plan.effect_keys()).unwrap_or_default(),
    };
    match input {
        Input::Requested(_) => {}
        Input::Control(
            Control::Cancel { .. } | Control::Approve { .. } | Control::Reject { .. } | Control::Clarify { .. },
        ) => {}
        Input::Control(Control::ResolveEffect { effect_key, .. }) => effects.push(effect_key.clone()),
        Input::CallSettled(settled) => effects.extend(settled.effect_key.clone()),
        Input::EffectAnswered(answered) => effects.push(answered.effect_key.clone()),
        Input::ClaimRequested(dispatch) => effects.extend(dispatch.effect.as_ref().map(|effect| effect.key.clone())),
        Input::Verdict(verdict) => {
            if let Judgement::Accepted { decision: AcceptedDecision::ToolCalls { calls }, .. } = &verdict.judgement {
                let place = invocation.place(verdict.scope.step, verdict.scope.round);
                effects.extend(Plan::build(place, calls).map(|plan| plan.effect_keys()).unwrap_or_default());
            }
        }
        Input::TimerFired(
            TimerName::Deadline | TimerName::Decide | TimerName::Approval | TimerName::Grace | TimerName::Call(_),
        ) => {}
    }
    effects.sort();
    effects.dedup();
    Needs { effects, hash_at: input.scope().map(|scope| scope.basis.version) }
}
