//! `invocations`: requests, as callers send them.

use protocol::{Actor, AgentName, BudgetRequest, EventId, Request, TaskType, Tenant, ToolName};
use uuid::Uuid;

use super::fields::{Fields, MAX_EXACT};
use super::ingress::{Raw, identify};
use super::{Codec, EncodeError, Place, WireFormat};
use crate::wire::{BudgetRequested, GoalPredicate, InvocationRequested, Json, Time};
use crate::{DeadLetterCode, Inbound, Limits, Outbound, Rejection, Topic};

impl Codec {
    /// The request of a record; the rejection names the field and says what it must be.
    pub fn decode_request(&self, record: &Inbound) -> Result<Request, Rejection> {
        let wire = match self.raw(Topic::Invocations, record)? {
            Raw::Avro(wire) => wire,
            Raw::Json(fields) => from_json(fields)?,
        };
        let request = from_wire(wire, record, &self.limits)?;
        let invalid =
            |error: protocol::FieldError| Rejection::new(DeadLetterCode::InvalidRequest, error.field, error.message);
        request.check().map_err(invalid)?;
        Ok(request)
    }

    /// The record of a request, for those who produce one. Its `ce_id` follows from its content.
    pub fn encode_request(&self, request: &Request, format: WireFormat) -> Result<Outbound, EncodeError> {
        let value = match format {
            WireFormat::Json => self.write(Topic::Invocations, format, request)?,
            WireFormat::Avro => self.write(Topic::Invocations, format, &to_wire(request, &self.limits)?)?,
        };
        let subject = request.invocation_id;
        let event_id = EventId(Uuid::new_v5(&subject.0, format!("request/{}", request.digest()).as_bytes()));
        let time_ms = request.requested_at.map(|time| time.0);
        Ok(self.outbound(Place { topic: Topic::Invocations, format, subject, event_id, time_ms }, value))
    }
}

fn from_json(mut fields: Fields) -> Result<InvocationRequested, Rejection> {
    let missing_goal =
        || Rejection::new(DeadLetterCode::Malformed, "goal", "is required: what is to be done, as text or JSON");
    let budget = match fields.object("budget")? {
        None => BudgetRequested::default(),
        Some(mut budget) => {
            let requested = BudgetRequested {
                max_steps: budget.whole("max_steps")?,
                max_tool_calls: budget.whole("max_tool_calls")?,
                max_tokens: budget.whole("max_tokens")?,
                max_cost_micros: budget.whole("max_cost_micros")?,
                max_repeated_plan: budget.whole("max_repeated_plan")?,
            };
            budget.finish()?;
            requested
        }
    };
    let wire = InvocationRequested {
        invocation_id: fields.optional_text("invocation_id")?,
        tenant: fields.text("tenant")?,
        actor: fields.text("actor")?,
        task_type: fields.text("task_type")?,
        agent: fields.text("agent")?,
        goal: fields.json("goal").ok_or_else(missing_goal)?,
        tools: fields.texts("tools")?,
        budget,
        deadline: fields.time("deadline")?,
        output_schema: fields.json("output_schema"),
        goal_predicates: predicates(&mut fields)?,
        labels: fields.labels("labels")?,
        requested_at: fields.time("requested_at")?,
    };
    fields.finish()?;
    Ok(wire)
}

fn predicates(fields: &mut Fields) -> Result<Vec<GoalPredicate>, Rejection> {
    let predicate = |mut fields: Fields| {
        let predicate = GoalPredicate {
            name: fields.text("name")?,
            tool: fields.text("tool")?,
            pointer: fields.optional_text("pointer")?.unwrap_or_default(),
            equals: fields.json("equals"),
            exists: fields.flag("exists")?,
        };
        fields.finish()?;
        Ok(predicate)
    };
    fields.objects("goal_predicates")?.into_iter().map(predicate).collect()
}

fn goals(wire: Vec<GoalPredicate>, limits: &Limits) -> Result<Vec<protocol::GoalPredicate>, Rejection> {
    let goal = |(i, wire): (usize, GoalPredicate)| {
        let at = format!("goal_predicates[{i}].equals");
        Ok(protocol::GoalPredicate {
            name: wire.name,
            tool: ToolName(wire.tool),
            pointer: wire.pointer,
            equals: wire.equals.map(|value| value.value(&at, limits.outside())).transpose()?,
            exists: wire.exists,
        })
    };
    wire.into_iter().enumerate().map(goal).collect()
}

fn from_wire(wire: InvocationRequested, record: &Inbound, limits: &Limits) -> Result<Request, Rejection> {
    let json = |field: &str, json: Option<Json>| json.map(|json| json.value(field, limits.outside())).transpose();
    Ok(Request {
        invocation_id: identify(record, wire.invocation_id.as_deref())?,
        tenant: Tenant(wire.tenant),
        actor: Actor(wire.actor),
        task_type: TaskType(wire.task_type),
        agent: AgentName(wire.agent),
        goal: wire.goal.value("goal", limits.outside())?,
        tools: wire.tools.map(|tools| tools.into_iter().map(ToolName).collect()),
        budget: budget(&wire.budget)?,
        deadline: wire.deadline.map(|time| time.0),
        output_schema: json("output_schema", wire.output_schema)?,
        goal_predicates: goals(wire.goal_predicates, limits)?,
        labels: wire.labels,
        requested_at: wire.requested_at.map(|time| time.0),
    })
}

fn budget(wire: &BudgetRequested) -> Result<BudgetRequest, Rejection> {
    Ok(BudgetRequest {
        max_steps: count("max_steps", wire.max_steps)?,
        max_tool_calls: count("max_tool_calls", wire.max_tool_calls)?,
        max_tokens: amount("max_tokens", wire.max_tokens)?,
        max_cost_micros: amount("max_cost_micros", wire.max_cost_micros)?,
        max_repeated_plan: count("max_repeated_plan", wire.max_repeated_plan)?,
    })
}

fn count(name: &str, value: Option<i64>) -> Result<Option<u32>, Rejection> {
    let refuse = |_| out_of_range(name, i64::from(u32::MAX));
    value.map(|value| u32::try_from(value).map_err(refuse)).transpose()
}

fn amount(name: &str, value: Option<i64>) -> Result<Option<u64>, Rejection> {
    let refuse = || out_of_range(name, MAX_EXACT);
    let exact = |value: i64| u64::try_from(value).ok().filter(|_| value <= MAX_EXACT).ok_or_else(refuse);
    value.map(exact).transpose()
}

fn out_of_range(name: &str, most: i64) -> Rejection {
    let message = format!("must be a whole number from 0 to {most}");
    Rejection::new(DeadLetterCode::InvalidRequest, format!("budget.{name}"), message)
}

fn to_wire(request: &Request, limits: &Limits) -> Result<InvocationRequested, EncodeError> {
    let json = |field: &str, value: Option<&serde_json::Value>| {
        value.map(|value| Json::of(field, value, limits.outside())).transpose()
    };
    let goal = |goal: &protocol::GoalPredicate| {
        Ok(GoalPredicate {
            name: goal.name.clone(),
            tool: goal.tool.0.clone(),
            pointer: goal.pointer.clone(),
            equals: json("goal_predicates[].equals", goal.equals.as_ref())?,
            exists: goal.exists,
        })
    };
    let whole = |value: Option<u64>| value.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
    let tools = request.tools.as_ref();
    Ok(InvocationRequested {
        invocation_id: Some(request.invocation_id.to_string()),
        tenant: request.tenant.0.clone(),
        actor: request.actor.0.clone(),
        task_type: request.task_type.0.clone(),
        agent: request.agent.0.clone(),
        goal: Json::of("goal", &request.goal, limits.outside())?,
        tools: tools.map(|tools| tools.iter().map(|tool| tool.0.clone()).collect()),
        budget: BudgetRequested {
            max_steps: request.budget.max_steps.map(i64::from),
            max_tool_calls: request.budget.max_tool_calls.map(i64::from),
            max_tokens: whole(request.budget.max_tokens),
            max_cost_micros: whole(request.budget.max_cost_micros),
            max_repeated_plan: request.budget.max_repeated_plan.map(i64::from),
        },
        deadline: request.deadline.map(Time),
        output_schema: json("output_schema", request.output_schema.as_ref())?,
        goal_predicates: request.goal_predicates.iter().map(goal).collect::<Result<_, _>>()?,
        labels: request.labels.clone(),
        requested_at: request.requested_at.map(Time),
    })
}
