//! Facts, plans and contracts from a seed.

use protocol::*;

use super::Dice;

/// How many kinds of fact [`Dice::fact`] makes: all of them.
pub const FACTS: usize = 23;

impl Dice {
    pub fn dispatched_effect(&mut self) -> DispatchedEffect {
        DispatchedEffect { key: EffectKey(self.digest().to_string()), request_fingerprint: self.digest() }
    }

    pub fn contract(&mut self) -> ToolContract {
        let effect = self.maybe(|dice| EffectContract {
            key: match dice.flag() {
                true => EffectKeyRule::PerInvocation,
                false => EffectKeyRule::Business(Template("refund:{order_id}".to_owned())),
            },
            owner: dice.name(),
            dedupe: dice.pick(&[Dedupe::Key, Dedupe::None]),
            query: dice.flag(),
            tombstone: dice.flag(),
            settle_ms: dice.count(),
            probe: ProbePolicy::default(),
        });
        ToolContract {
            tool: ToolName(self.name()),
            effect,
            reads: self.list(2, |dice| Template(dice.text())),
            writes: self.list(2, |dice| Template(dice.text())),
            timeout_ms: self.count(),
            retry: RetryPolicy { max_attempts: self.small(), base_ms: self.count(), cap_ms: self.count() },
            volatile: self.list(2, Self::name),
            polling: self.flag(),
            independent: self.flag(),
            required: self.flag(),
        }
    }

    pub fn decision(&mut self) -> AcceptedDecision {
        match self.below(5) {
            0 => AcceptedDecision::Final { answer: self.json(3) },
            1 => AcceptedDecision::CannotContinue { reason: self.text() },
            2 => AcceptedDecision::Clarification { question: self.text() },
            3 => AcceptedDecision::RequestApproval { calls: self.calls() },
            _ => AcceptedDecision::ToolCalls { calls: self.calls() },
        }
    }

    fn calls(&mut self) -> Vec<AcceptedCall> {
        self.list(3, |dice| AcceptedCall {
            call: ProposedCall { provider_call_id: dice.text(), tool: ToolName(dice.name()), arguments: dice.object() },
            contract: dice.contract(),
        })
    }

    pub fn proposal(&mut self) -> Proposal {
        Proposal {
            digest: self.digest(),
            calls: self.list(2, |dice| GatedCall {
                call_id: CallId(dice.uuid()),
                tool: ToolName(dice.name()),
                arguments: dice.object(),
                effect_key: dice.maybe(|dice| EffectKey(dice.digest().to_string())),
            }),
            reasons: self.reasons(),
            expires_at: self.time(),
            four_eyes: self.flag(),
            policy_digest: self.digest(),
        }
    }

    pub fn reason(&mut self) -> ApprovalReason {
        let position = self.below(4);
        ApprovalReason { path: format!("calls[{position}]"), policy: self.name(), message: self.text() }
    }

    pub fn reasons(&mut self) -> Vec<ApprovalReason> {
        let mut reasons = self.list(2, Self::reason);
        reasons.push(self.reason());
        reasons
    }

    fn plan(&mut self) -> Plan {
        let calls = self.list(3, |dice| PlannedCall {
            call_id: CallId(dice.uuid()),
            provider_call_id: dice.text(),
            tool: ToolName(dice.name()),
            arguments: dice.object(),
            contract: dice.contract(),
            effect: dice.maybe(Self::dispatched_effect),
            wave: dice.small(),
            after: dice.list(2, |dice| CallId(dice.uuid())),
        });
        Plan { calls }
    }

    fn outcome(&mut self) -> CallOutcome {
        CallOutcome {
            result: match self.flag() {
                true => CallResult::Output(self.json(3)),
                false => CallResult::Error(self.error()),
            },
            attempt_id: self.maybe(|dice| AttemptId(dice.uuid())),
            attempts: self.small(),
            effect_status: self.maybe(|dice| dice.pick(&[EffectStatus::Committed, EffectStatus::Rejected])),
            receipt: self.maybe(Self::receipt),
        }
    }

    fn resolved_by(&mut self) -> ResolvedBy {
        match self.below(3) {
            0 => ResolvedBy::Executor,
            1 => ResolvedBy::Reconciler,
            _ => ResolvedBy::Operator { actor: Actor(self.name()), evidence: self.text() },
        }
    }

    fn key(&mut self) -> EffectKey {
        EffectKey(self.digest().to_string())
    }

    /// The `kind`-th fact that the core has.
    pub fn fact(&mut self, kind: usize) -> Fact {
        let (call_id, attempt_id) = (CallId(self.uuid()), AttemptId(self.uuid()));
        let (attempt, probe, round) = (AttemptNumber(self.small()), Probe(self.small()), Round(self.small()));
        match kind {
            0 => {
                let request = self.request();
                Fact::Admitted(Box::new(Admitted {
                    invocation_id: request.invocation_id,
                    request_digest: request.digest(),
                    request,
                    requested_at: self.time(),
                    agent: AgentName(self.name()),
                    tools: self.list(3, |dice| ToolName(dice.name())),
                    budget: self.budget(),
                    timing: Timing::default(),
                    mixed_batches: self.pick(&[MixedBatches::Order, MixedBatches::Reject]),
                    progress: ProgressLimits {
                        no_state_delta: Limit::after(self.small()),
                        ..ProgressLimits::default()
                    },
                    profile_digest: self.digest(),
                }))
            }
            1 => Fact::TurnPlanned(Box::new(TurnPlanned {
                round,
                plan: self.plan(),
                mark: self.mark(),
                proposal_digest: self.digest(),
                evidence: self.evidence(),
                registry_digest: self.digest(),
                policy_digest: self.digest(),
            })),
            2 => {
                let (findings, evidence) = (self.list(3, Self::finding), self.evidence());
                Fact::DecisionRejected { round, findings, evidence, repair: self.flag() }
            }
            3 => Fact::WaveReleased {
                wave: self.small(),
                calls: self.list(3, |dice| CallId(dice.uuid())),
                epoch: Epoch(self.small().into()),
            },
            4 => {
                let reasons = [ReleaseReason::Retry, ReleaseReason::Unclaimed, ReleaseReason::NotApplied];
                Fact::CallReleased { call_id, attempt, why: self.pick(&reasons), epoch: Epoch(self.small().into()) }
            }
            5 => Fact::CallClaimed { call_id, attempt, attempt_id, effect_key: self.key(), lease_until: self.time() },
            6 => Fact::AttemptFailed { call_id, attempt, error: self.error(), retry_at: self.time() },
            7 => Fact::CallSettled { call_id, outcome: self.outcome(), by: self.maybe(Self::resolved_by) },
            8 => Fact::EffectUnknown { call_id, effect_key: self.key(), attempt_id, error: self.error() },
            9 => Fact::ProbeRequested { call_id, effect_key: self.key(), attempt_id, probe },
            10 => {
                let resolution = match self.below(3) {
                    0 => Resolution::NotApplied,
                    1 => Resolution::Pending { next_probe_at: self.time() },
                    _ => Resolution::Unanswerable { why: self.text() },
                };
                Fact::EffectResolved { call_id, effect_key: self.key(), attempt_id, probe, resolution }
            }
            11 => Fact::EffectConflict {
                effect_key: self.key(),
                recorded: EffectStatus::Committed,
                claimed: self.effect_outcome(),
                by: self.resolved_by(),
            },
            12 => Fact::TurnReissued { round, count: self.small() },
            13 => Fact::TurnCommitted(Box::new(TurnCommitted {
                round,
                decision: self.decision(),
                results: self.list(3, |dice| TurnResult {
                    call_id: CallId(dice.uuid()),
                    provider_call_id: dice.text(),
                    tool: ToolName(dice.name()),
                    outcome: dice.outcome(),
                }),
                evidence: self.evidence(),
                mark: self.maybe(Self::mark),
                spent: self.spent(),
                progress: TurnProgress {
                    results_digest: self.digest(),
                    new_results: self.small(),
                    goals_met: self.list(2, Self::name),
                    error_cycle: self.small(),
                    ..TurnProgress::default()
                },
            })),
            14 => {
                let reason = self.pick(&[TerminalReason::Cancelled, TerminalReason::DeadlineExceeded]);
                Fact::CancelRequested { reason, actor: self.maybe(|dice| Actor(dice.name())), detail: self.text() }
            }
            15 => Fact::ReconciliationRequired {
                segment: Segment(self.small()),
                effects: self.list(2, Self::key),
                detail: self.text(),
            },
            16 => Fact::Ended {
                segment: Segment(self.small()),
                reason: self.pick(&TerminalReason::ALL),
                answer: self.maybe(Self::json_not_null),
                detail: self.text(),
            },
            17 => Fact::ApprovalRequested(Box::new(ApprovalRequested {
                segment: Segment(self.small()),
                round,
                plan: self.plan(),
                mark: self.mark(),
                proposal_digest: self.digest(),
                reasons: self.reasons(),
                expires_at: self.time(),
                four_eyes: self.flag(),
                evidence: self.evidence(),
                registry_digest: self.digest(),
                policy_digest: self.digest(),
            })),
            18 => Fact::ApprovalGranted { proposal_digest: self.digest(), actor: Actor(self.name()) },
            19 => Fact::ApprovalRefused {
                proposal_digest: self.digest(),
                actor: self.maybe(|dice| Actor(dice.name())),
                why: self.pick(&[RefusalReason::Refused, RefusalReason::Expired]),
                detail: self.text(),
            },
            20 => {
                let (segment, question) = (Segment(self.small()), self.text());
                Fact::ClarificationRequested { segment, round, question, evidence: self.evidence() }
            }
            21 => Fact::ClarificationGiven { actor: Actor(self.name()), answer: self.json(3) },
            _ => {
                let (effect_key, outcome) = (self.key(), self.effect_outcome());
                Fact::EffectSettledLate { call_id, effect_key, outcome, by: self.resolved_by() }
            }
        }
    }
}
