//! Requests from a seed.

use std::collections::BTreeMap;

use protocol::*;
use serde_json::Value;

use super::Dice;

impl Dice {
    /// One that passes its own check.
    pub fn request(&mut self) -> Request {
        Request {
            invocation_id: InvocationId(self.uuid()),
            tenant: Tenant(self.name()),
            actor: Actor(self.name()),
            task_type: TaskType(self.name()),
            agent: AgentName(self.name()),
            goal: match self.json_not_null() {
                Value::String(text) => Value::String(format!("do {text}")),
                goal => goal,
            },
            tools: self.maybe(|dice| dice.list(3, |dice| ToolName(dice.name()))),
            budget: BudgetRequest {
                max_steps: self.maybe(|dice| dice.small().max(1)),
                max_tool_calls: self.maybe(Self::small),
                max_tokens: self.maybe(|dice| dice.below(1 << 53)),
                max_cost_micros: self.maybe(|dice| dice.below(1 << 53)),
                max_repeated_plan: self.maybe(Self::small),
            },
            deadline: self.maybe(Self::time),
            output_schema: self.maybe(Self::object),
            goal_predicates: self.goals(),
            labels: self.list(3, |dice| (dice.name(), dice.name())).into_iter().collect::<BTreeMap<_, _>>(),
            requested_at: self.maybe(Self::time),
        }
    }

    fn goals(&mut self) -> Vec<GoalPredicate> {
        let count = self.below(4);
        let goal = |i| {
            let exists = self.maybe(Self::flag);
            let equals = exists.is_none().then(|| match self.json(1) {
                Value::Null => Value::Bool(true),
                value => value,
            });
            let pointer = self.pick(&["", "/a~1b/0"]).to_owned();
            GoalPredicate { name: format!("goal-{i}"), tool: ToolName(self.name()), pointer, equals, exists }
        };
        (0..count).map(goal).collect()
    }
}
