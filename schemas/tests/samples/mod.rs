//! Messages of every kind, made from a seed: equal seeds give equal messages.
#![allow(dead_code, reason = "each test binary uses a part of the samples")]

mod facts;
mod requests;

use protocol::*;
use serde_json::{Map, Value};
use turnwright_schemas::{Codec, CodecConfig, ControlRecord, Inbound, Outbound, PublicWire};
use uuid::Uuid;

pub use facts::FACTS;

pub fn codec(public: PublicWire) -> Codec {
    Codec::new(CodecConfig { public, ..CodecConfig::default() })
}

/// The record as its reader gets it.
pub fn arrived(record: Outbound) -> Inbound {
    Inbound {
        topic: record.topic.name("turnwright"),
        partition: 3,
        offset: 42,
        timestamp_ms: 1_733_061_586_000,
        key: Some(record.key),
        value: Some(record.value),
        headers: record.headers,
    }
}

pub struct Dice(pub u64);

impl Dice {
    /// SplitMix64.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    pub fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()].clone()
    }

    pub fn small(&mut self) -> u32 {
        let shift = self.below(32);
        (self.roll() as u32) >> shift
    }

    /// What fits Avro's long.
    pub fn count(&mut self) -> u64 {
        let shift = 1 + self.below(62);
        (self.roll() >> 11) >> shift
    }

    pub fn time(&mut self) -> Timestamp {
        match self.below(8) {
            0 => Timestamp(((self.roll() >> 10) as i64) - (1 << 53) + 1),
            _ => Timestamp(1_700_000_000_000 + self.below(100_000_000_000) as i64),
        }
    }

    pub fn text(&mut self) -> String {
        let alphabet = ['a', 'Z', '7', '-', '"', '\\', '{', '[', 'é', '漢', '\u{1F600}', '\n', ' '];
        (0..self.below(12)).map(|_| self.pick(&alphabet)).collect()
    }

    pub fn name(&mut self) -> String {
        let number = self.below(1_000);
        format!("name-{number}")
    }

    pub fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.roll(), self.roll())
    }

    pub fn digest(&mut self) -> Digest {
        Digest::of("sample", &[&self.roll().to_be_bytes()])
    }

    pub fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.flag() { Some(make(self)) } else { None }
    }

    pub fn list<T>(&mut self, most: u64, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    pub fn json(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.flag()),
            2 => Value::from(self.roll() >> 11),
            3 => Value::from(-((self.roll() >> 11) as i64)),
            4 => Value::from(f64::from_bits(self.roll())),
            5 => Value::from(self.text()),
            6 => Value::Array(self.list(3, |dice| dice.json(depth - 1))),
            _ => Value::Object(self.list(3, |dice| (dice.text(), dice.json(depth - 1))).into_iter().collect()),
        }
    }

    pub fn object(&mut self) -> Value {
        Value::Object(self.list(4, |dice| (dice.name(), dice.json(3))).into_iter().collect::<Map<_, _>>())
    }

    /// What stays apart from "absent" in JSON too.
    pub fn json_not_null(&mut self) -> Value {
        match self.json(3) {
            Value::Null => Value::Bool(true),
            value => value,
        }
    }

    pub fn basis(&mut self) -> Basis {
        Basis { version: Version(self.count()), hash: self.digest() }
    }

    pub fn scope(&mut self) -> Scope {
        Scope {
            tenant: Tenant(self.name()),
            invocation_id: InvocationId(self.uuid()),
            task_type: TaskType(self.name()),
            step: Step(self.small()),
            round: Round(self.small()),
            basis: self.basis(),
        }
    }

    pub fn budget(&mut self) -> Budget {
        Budget {
            max_steps: self.small(),
            max_tool_calls: self.small(),
            max_tokens: self.count(),
            max_cost_micros: self.count(),
            max_repeated_plan: self.small(),
        }
    }

    pub fn usage(&mut self) -> Usage {
        Usage { input_tokens: self.count(), output_tokens: self.count(), cost_micros: self.count() }
    }

    pub fn spent(&mut self) -> Spent {
        Spent { steps: self.small(), tool_calls: self.small(), usage: self.usage() }
    }

    pub fn mark(&mut self) -> PlanMark {
        PlanMark { fingerprint: self.digest(), streak: self.small() }
    }

    pub fn evidence(&mut self) -> ModelEvidence {
        ModelEvidence {
            response_id: self.text(),
            model: self.name(),
            usage: self.usage(),
            context_digest: self.digest(),
        }
    }

    pub fn receipt(&mut self) -> Receipt {
        Receipt { effect_id: self.text(), body_digest: self.digest() }
    }

    pub fn error(&mut self) -> CallError {
        let classes =
            [ErrorClass::Timeout, ErrorClass::Unavailable, ErrorClass::BusinessRejected, ErrorClass::Internal];
        let mut error = CallError::new(self.pick(&classes), self.text());
        error.retry_after_ms = self.maybe(Self::count);
        error
    }

    pub fn finding(&mut self) -> Finding {
        let code = self.pick(&[FindingCode::Malformed, FindingCode::UnknownTool, FindingCode::NoDecision]);
        Finding::new(code, self.text(), self.text())
    }

    pub fn effect_outcome(&mut self) -> EffectOutcome {
        match self.flag() {
            true => EffectOutcome::Committed { receipt: self.maybe(Self::receipt), output: self.json(3) },
            false => EffectOutcome::Rejected { error: self.error() },
        }
    }

    pub fn turn_ready(&mut self) -> TurnReady {
        TurnReady {
            scope: self.scope(),
            actor: Actor(self.text()),
            agent: AgentName(self.name()),
            tools: self.list(3, |dice| ToolName(dice.name())),
            budget: self.budget(),
            spent: self.spent(),
            deadline: self.time(),
            last_plan: self.maybe(Self::mark),
            output_schema: self.maybe(Self::object),
            profile_digest: self.digest(),
        }
    }

    pub fn decision_proposed(&mut self) -> DecisionProposed {
        let answer = match self.flag() {
            true => ModelAnswer::Proposed { body: self.text(), evidence: self.evidence() },
            false => ModelAnswer::Failed { message: self.text() },
        };
        DecisionProposed { turn: self.turn_ready(), answer }
    }

    pub fn verdict(&mut self) -> Verdict {
        let judgement = match self.below(4) {
            0 => Judgement::Accepted { decision: self.decision(), evidence: self.evidence() },
            1 => Judgement::Rejected { findings: self.list(3, Self::finding), evidence: self.evidence() },
            2 => Judgement::ApprovalRequired {
                decision: self.decision(),
                reasons: self.reasons(),
                four_eyes: self.flag(),
                ttl_ms: self.maybe(Self::count),
                evidence: self.evidence(),
            },
            _ => Judgement::DecisionFailed { message: self.text() },
        };
        Verdict { scope: self.scope(), judgement, registry_digest: self.digest(), policy_digest: self.digest() }
    }

    pub fn tool_call_dispatched(&mut self) -> ToolCallDispatched {
        ToolCallDispatched {
            scope: self.scope(),
            actor: Actor(self.name()),
            call_id: CallId(self.uuid()),
            attempt: AttemptNumber(self.small()),
            tool: ToolName(self.name()),
            arguments: self.object(),
            effect: self.maybe(Self::dispatched_effect),
            epoch: Epoch(self.count()),
            timeout_ms: self.count(),
        }
    }

    pub fn tool_call_settled(&mut self) -> ToolCallSettled {
        let outcome = match self.below(4) {
            0 => AttemptOutcome::Succeeded { output: self.json(3), receipt: self.maybe(Self::receipt) },
            1 => AttemptOutcome::Failed { error: self.error() },
            2 => AttemptOutcome::NothingSent { error: self.error() },
            _ => AttemptOutcome::Unknown { error: self.error() },
        };
        ToolCallSettled {
            scope: self.scope(),
            call_id: CallId(self.uuid()),
            attempt: AttemptNumber(self.small()),
            attempt_id: AttemptId(self.uuid()),
            effect_key: self.maybe(|dice| EffectKey(dice.digest().to_string())),
            outcome,
        }
    }

    pub fn effect_queried(&mut self) -> EffectQueried {
        EffectQueried {
            scope: self.scope(),
            call_id: CallId(self.uuid()),
            effect_key: EffectKey(self.digest().to_string()),
            attempt_id: AttemptId(self.uuid()),
            probe: Probe(self.small()),
            tool: ToolName(self.name()),
            owner: self.text(),
            request_fingerprint: self.digest(),
            unknown_since: self.time(),
            lease_until: self.time(),
            seal: self.flag(),
        }
    }

    pub fn effect_answered(&mut self) -> EffectAnswered {
        let answer = match self.below(4) {
            0 => Answer::Certain { outcome: self.effect_outcome() },
            1 => Answer::NotApplied,
            2 => Answer::Pending { retry_after_ms: self.count() },
            _ => Answer::Unanswerable { why: self.text() },
        };
        EffectAnswered {
            scope: self.scope(),
            call_id: CallId(self.uuid()),
            effect_key: EffectKey(self.digest().to_string()),
            attempt_id: AttemptId(self.uuid()),
            probe: Probe(self.small()),
            answer,
        }
    }

    pub fn run_ended(&mut self) -> RunEnded {
        let statuses = [EffectStatus::Prepared, EffectStatus::Committed, EffectStatus::OutcomeUnknown];
        RunEnded {
            scope: self.scope(),
            actor: Actor(self.name()),
            agent: AgentName(self.name()),
            segment: Segment(self.small()),
            reason: self.pick(&TerminalReason::ALL),
            resumable: self.flag(),
            answer: self.maybe(Self::json_not_null),
            proposal: self.maybe(Self::proposal),
            question: self.maybe(Self::text),
            detail: self.text(),
            effects: self.list(2, |dice| EffectSummary {
                key: EffectKey(dice.digest().to_string()),
                tool: ToolName(dice.name()),
                owner: dice.name(),
                status: dice.pick(&statuses),
                receipt: dice.maybe(Self::receipt),
                not_applied_at: dice.maybe(Self::time),
            }),
            effects_unresolved: self.flag(),
            spent: self.spent(),
            requested_at: self.time(),
            ended_at: self.time(),
        }
    }

    pub fn events_committed(&mut self) -> EventsCommitted {
        let count = 1 + self.below(3);
        let events = (0..count).map(|_| self.event()).collect();
        EventsCommitted { scope: self.scope(), events }
    }

    pub fn event(&mut self) -> Event {
        let kind = usize::try_from(self.below(FACTS as u64)).unwrap();
        let fact = self.fact(kind);
        Event::seal(Version(self.count()), self.digest(), Step(self.small()), self.time(), fact)
    }

    pub fn control(&mut self) -> ControlRecord {
        let actor = Actor(self.name());
        let control = match self.below(5) {
            0 => Control::Cancel { actor, reason: self.text() },
            1 => Control::Approve { actor, proposal_digest: self.digest() },
            2 => Control::Reject { actor, proposal_digest: self.digest(), reason: self.text() },
            3 => {
                let step = self.maybe(|dice| Step(dice.small().max(1)));
                Control::Clarify { actor, answer: self.json_not_null(), step }
            }
            _ => {
                let mut outcome = self.effect_outcome();
                if let EffectOutcome::Committed { receipt: Some(receipt), .. } = &mut outcome {
                    receipt.effect_id = self.name();
                }
                if let EffectOutcome::Rejected { error } = &mut outcome {
                    error.retry_after_ms = None;
                }
                let effect_key = EffectKey(self.digest().to_string());
                Control::ResolveEffect { actor, effect_key, outcome, evidence: self.name() }
            }
        };
        ControlRecord { tenant: Tenant(self.name()), invocation_id: InvocationId(self.uuid()), control }
    }
}
