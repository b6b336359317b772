//! A committer without a store: one invocation, the messages it has emitted, and short ways to answer them.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::*;

pub const REFUND: &str = "refund";
pub const LOOKUP: &str = "lookup";

pub struct World {
    pub state: Invocation,
    pub events: Vec<Event>,
    pub commits: Vec<Vec<Event>>,
    pub out: Vec<Message>,
    pub now: Timestamp,
}

pub fn budget() -> Budget {
    Budget { max_steps: 4, max_tool_calls: 6, max_tokens: 1_000, max_cost_micros: 1_000, max_repeated_plan: 1 }
}

pub fn contract(tool: &str) -> ToolContract {
    let effect = (tool == REFUND).then(|| EffectContract {
        key: EffectKeyRule::Business(Template("refund:{order}".into())),
        owner: "payments".into(),
        dedupe: Dedupe::Key,
        query: true,
        tombstone: false,
        settle_ms: 500,
        probe: ProbePolicy { max_probes: 3, base_ms: 100, cap_ms: 1_000, ..ProbePolicy::default() },
    });
    ToolContract {
        tool: tool.into(),
        writes: if effect.is_some() { vec![Template("order:{order}".into())] } else { vec![] },
        reads: if tool == "read_order" { vec![Template("order:{order}".into())] } else { vec![] },
        effect,
        timeout_ms: 1_000,
        retry: RetryPolicy { max_attempts: 3, base_ms: 100, cap_ms: 1_000 },
        volatile: vec!["trace".into()],
        polling: false,
        independent: true,
        required: false,
    }
}

pub fn call(id: &str, tool: &str, arguments: Value) -> AcceptedCall {
    let call = ProposedCall { provider_call_id: id.into(), tool: tool.into(), arguments };
    AcceptedCall { call, contract: contract(tool) }
}

pub fn request() -> Request {
    serde_json::from_value(json!({
        "invocation_id": Uuid::from_u128(7), "tenant": "acme", "actor": "ada", "task_type": "refund",
        "agent": "refunds", "goal": "refund order 7", "deadline": 1_000_000,
    }))
    .unwrap()
}

pub fn profile() -> Profile {
    Profile {
        budget: budget(),
        ceiling: Budget { max_steps: 10, ..budget() },
        timing: Timing::default(),
        mixed_batches: MixedBatches::Order,
        progress: ProgressLimits::default(),
        tools: vec![LOOKUP.into(), REFUND.into(), "read_order".into()],
        digest: Digest::of("profile", &[]),
    }
}

impl World {
    pub fn new() -> Self {
        let request = request();
        let state = Invocation::absent(request.tenant, request.invocation_id);
        Self { state, events: vec![], commits: vec![], out: vec![], now: Timestamp(1_000) }
    }

    /// A run that has been admitted.
    pub fn admitted() -> Self {
        let mut world = Self::new();
        world.request(request()).unwrap();
        world
    }

    pub fn input(&mut self, input: Input) -> Result<Vec<&'static str>, Ignored> {
        let events = handle(&self.state, &input, self.now)?;
        let mut state = self.state.clone();
        for event in &events {
            assert!(event.is_authentic());
            state = apply(state, event).expect("handle yields only what apply takes");
        }
        self.state = state;
        let out: Vec<Message> = emit(&self.state, &events).into_iter().map(|outgoing| outgoing.message).collect();
        let lists_effects = out.iter().any(|message| matches!(message, Message::RunEnded(_)));
        assert_eq!(wants_whole_ledger(&events), lists_effects, "the whole ledger is loaded where it is told");
        self.out.extend(out);
        let names = events.iter().map(|event| event.fact.name()).collect();
        self.commits.push(events.clone());
        self.events.extend(events);
        Ok(names)
    }

    pub fn request(&mut self, request: Request) -> Result<Vec<&'static str>, Ignored> {
        let digest = request.digest();
        let requested_at = request.requested_at.unwrap_or(self.now);
        let profile = Some(profile());
        self.input(Input::Requested(Box::new(Requested {
            request,
            digest,
            requested_at,
            profile,
            horizon_ms: 1_000_000,
        })))
    }

    pub fn cancel(&mut self) -> Result<Vec<&'static str>, Ignored> {
        self.input(Input::Control(Control::Cancel { actor: "ada".into(), reason: "changed my mind".into() }))
    }

    pub fn fire(&mut self, name: TimerName) -> Result<Vec<&'static str>, Ignored> {
        let timer = timers(&self.state).into_iter().find(|timer| timer.name == name);
        self.now = self.now.max(timer.expect("the timer is set").due);
        self.input(Input::TimerFired(name))
    }

    pub fn turn(&self) -> TurnReady {
        let turns = self.out.iter().rev().find_map(|message| match message {
            Message::TurnReady(turn) => Some((**turn).clone()),
            _ => None,
        });
        turns.expect("a turn was asked for")
    }

    pub fn dispatches(&self) -> Vec<ToolCallDispatched> {
        let dispatches = self.out.iter().filter_map(|message| match message {
            Message::ToolCallDispatched(dispatch) => Some((**dispatch).clone()),
            _ => None,
        });
        dispatches.collect()
    }

    pub fn last_dispatch(&self) -> ToolCallDispatched {
        self.dispatches().pop().expect("a call was dispatched")
    }

    pub fn query(&self) -> EffectQueried {
        let queries = self.out.iter().rev().find_map(|message| match message {
            Message::EffectQueried(query) => Some((**query).clone()),
            _ => None,
        });
        queries.expect("an owner was asked")
    }

    pub fn ends(&self) -> Vec<RunEnded> {
        let ends = self.out.iter().filter_map(|message| match message {
            Message::RunEnded(ended) => Some((**ended).clone()),
            _ => None,
        });
        ends.collect()
    }

    pub fn last_end(&self) -> RunEnded {
        self.ends().pop().expect("a segment has ended")
    }

    pub fn judge(&mut self, judgement: Judgement) -> Result<Vec<&'static str>, Ignored> {
        let scope = self.turn().scope;
        let digest = Digest::of("registry", &[]);
        self.input(Input::Verdict(Box::new(Verdict {
            scope,
            judgement,
            registry_digest: digest,
            policy_digest: digest,
        })))
    }

    pub fn plan(&mut self, calls: Vec<AcceptedCall>) -> Result<Vec<&'static str>, Ignored> {
        let decision = AcceptedDecision::ToolCalls { calls };
        self.judge(Judgement::Accepted { decision, evidence: evidence() })
    }

    pub fn answer(&mut self, answer: Value) -> Result<Vec<&'static str>, Ignored> {
        let decision = AcceptedDecision::Final { answer };
        self.judge(Judgement::Accepted { decision, evidence: evidence() })
    }

    pub fn claim(&mut self, dispatch: &ToolCallDispatched) -> Result<Vec<&'static str>, Ignored> {
        self.input(Input::ClaimRequested(Box::new(dispatch.clone())))
    }

    pub fn settle(
        &mut self,
        dispatch: &ToolCallDispatched,
        outcome: AttemptOutcome,
    ) -> Result<Vec<&'static str>, Ignored> {
        self.input(Input::CallSettled(Box::new(settled(dispatch, outcome))))
    }

    pub fn say(&mut self, query: &EffectQueried, answer: Answer) -> Result<Vec<&'static str>, Ignored> {
        self.input(Input::EffectAnswered(Box::new(answered(query, answer))))
    }

    pub fn entry(&self) -> LedgerEntry {
        self.state.ledger.entries().next().expect("one effect").clone()
    }
}

pub fn settled(dispatch: &ToolCallDispatched, outcome: AttemptOutcome) -> ToolCallSettled {
    ToolCallSettled {
        scope: dispatch.scope.clone(),
        call_id: dispatch.call_id,
        attempt: dispatch.attempt,
        attempt_id: AttemptId::derive(dispatch.call_id, dispatch.attempt),
        effect_key: dispatch.effect.as_ref().map(|effect| effect.key.clone()),
        outcome,
    }
}

pub fn answered(query: &EffectQueried, answer: Answer) -> EffectAnswered {
    EffectAnswered {
        scope: query.scope.clone(),
        call_id: query.call_id,
        effect_key: query.effect_key.clone(),
        attempt_id: query.attempt_id,
        probe: query.probe,
        answer,
    }
}

pub fn evidence() -> ModelEvidence {
    ModelEvidence {
        response_id: "r".into(),
        model: "scripted".into(),
        usage: Usage { input_tokens: 10, output_tokens: 5, cost_micros: 7 },
        context_digest: Digest::of("context", &[]),
    }
}

pub fn receipt(id: &str) -> Receipt {
    Receipt { effect_id: id.into(), body_digest: Digest::of("body", &[id.as_bytes()]) }
}

pub fn ok(output: Value) -> AttemptOutcome {
    AttemptOutcome::Succeeded { output, receipt: None }
}

pub fn committed(id: &str) -> AttemptOutcome {
    AttemptOutcome::Succeeded { output: json!({"refund": id}), receipt: Some(receipt(id)) }
}

pub fn effect_committed(id: &str) -> EffectOutcome {
    EffectOutcome::Committed { receipt: Some(receipt(id)), output: json!({"refund": id}) }
}

pub fn error(class: ErrorClass) -> CallError {
    CallError::new(class, "it went wrong")
}
