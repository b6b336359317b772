//! Admission: a request becomes a run, ends at once with a typed reason, or is recognised as one that was seen before.

use super::draft::Draft;
use super::{Ignored, Invocation, Phase, Requested, Stub};
use crate::{
    Actor, Admitted, Budget, Digest, Fact, MAX_FUTURE_MS, MixedBatches, Profile, ProgressLimits, Request,
    TerminalReason, Timing,
};

pub(super) fn requested(draft: &mut Draft, requested: &Requested) -> Result<(), Ignored> {
    let Requested { request, digest, requested_at, profile, horizon_ms } = requested;
    let (digest, requested_at) = (*digest, *requested_at);
    if let Some(run) = &draft.state.run {
        return Err(if run.request_digest == digest { Ignored::Duplicate } else { Ignored::Conflict });
    }
    if draft.now.ms_since(requested_at) > *horizon_ms {
        return Err(Ignored::ExpiredRequest);
    }
    if requested_at.ms_since(draft.now) > MAX_FUTURE_MS {
        return Err(Ignored::FutureRequest);
    }
    let stub = draft.state.stub.clone();
    let (terms, problem) = terms(request, profile.as_ref());
    draft.push(Fact::Admitted(Box::new(Admitted {
        invocation_id: request.invocation_id,
        request: request.clone(),
        request_digest: digest,
        requested_at,
        agent: request.agent.clone(),
        tools: terms.tools,
        budget: terms.budget,
        timing: terms.timing,
        mixed_batches: terms.mixed_batches,
        progress: terms.progress,
        profile_digest: terms.profile_digest,
    })))?;
    if let Some(Stub { actor, detail }) = stub {
        return super::calls::stop(draft, TerminalReason::Cancelled, Some(actor), detail);
    }
    if let Some(problem) = problem {
        return draft.end(TerminalReason::InvalidRequest, None, problem);
    }
    if request.deadline.is_some_and(|deadline| draft.now >= deadline) {
        return draft.end(TerminalReason::DeadlineExceeded, None, "the deadline had passed when the request came");
    }
    Ok(())
}

struct Terms {
    tools: Vec<crate::ToolName>,
    budget: Budget,
    timing: Timing,
    mixed_batches: MixedBatches,
    progress: ProgressLimits,
    profile_digest: Digest,
}

/// What the run may do, and what is wrong with the request, if anything: an unknown agent, a tool outside the profile,
/// a budget over the ceiling, a goal that nothing can meet.
fn terms(request: &Request, profile: Option<&Profile>) -> (Terms, Option<String>) {
    let Some(profile) = profile else {
        let terms = Terms {
            tools: Vec::new(),
            budget: Budget::default(),
            timing: Timing::default(),
            mixed_batches: MixedBatches::default(),
            progress: ProgressLimits::default(),
            profile_digest: Digest::default(),
        };
        return (terms, Some(format!("agent: no agent `{}` is configured for this tenant", request.agent)));
    };
    let mut problem = None;
    let budget = request.budget.resolve(&profile.budget, &profile.ceiling).unwrap_or_else(|message| {
        problem = Some(message);
        profile.budget
    });
    let tools = match &request.tools {
        None => profile.tools.clone(),
        Some(asked) => {
            if let Some(tool) = asked.iter().find(|tool| !profile.tools.contains(tool)) {
                problem.get_or_insert(format!("tools: `{tool}` is not among the tools of agent `{}`", request.agent));
            }
            asked.iter().filter(|tool| profile.tools.contains(tool)).cloned().collect()
        }
    };
    // No output of another tool will ever be seen.
    if let Some((i, wanted)) =
        request.goal_predicates.iter().enumerate().find(|(_, wanted)| !tools.contains(&wanted.tool))
    {
        let message = format!("goal_predicates[{i}].tool: `{}` is not among the tools of this run", wanted.tool);
        problem.get_or_insert(message);
    }
    let Profile { timing, mixed_batches, progress, digest: profile_digest, .. } = *profile;
    (Terms { tools, budget, timing, mixed_batches, progress, profile_digest }, problem)
}

impl Invocation {
    /// The absent invocation with a Cancel that overtook its request: version 0, stored only if nothing is.
    pub fn with_stub(mut self, actor: Actor, detail: String) -> Self {
        debug_assert!(self.run.is_none());
        self.stub = Some(Stub { actor, detail });
        self
    }

    /// Whether the run is over.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase(), Some(Phase::Ended(_)))
    }
}
