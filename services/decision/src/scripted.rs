//! A provider that answers from a scenario file: the same decisions, delays and failures in every run. It keeps nothing
//! between requests, so that a restart changes nothing.

mod places;
mod scenario;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::Clock;
use chassis::registry::{ProviderConfig, Registry};
use protocol::{AgentName, DECISION_SCHEMA_VERSION};
use serde_json::Value;
use uuid::Uuid;

use self::scenario::{Answer, FailureKind, NoDecision, Scenario, ScriptedStep};
use crate::{ModelProvider, ModelReply, ModelRequest, ProviderError, Said};

/// What is wrong with the scenario files, all of it: file, key and fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ScenarioProblems(pub Vec<String>);

/// Answers for every agent whose provider is `scripted`.
pub struct ScriptedProvider {
    /// The scenario of each agent, and the name of its file.
    scenarios: BTreeMap<AgentName, (String, Arc<Scenario>)>,
    clock: Arc<dyn Clock>,
}

impl ScriptedProvider {
    /// Reads the scenario file of every scripted agent, relative to the registry's directory.
    pub fn read(registry: &Registry, clock: Arc<dyn Clock>) -> Result<Self, ScenarioProblems> {
        let (mut provider, mut problems) = (Self { scenarios: BTreeMap::new(), clock }, Vec::new());
        for (i, agent) in registry.agents.agents.iter().enumerate() {
            let ProviderConfig::Scripted { scenario } = &agent.provider;
            match std::fs::read_to_string(registry.directory.join(scenario)) {
                Ok(text) => match provider.add(agent.name.clone(), scenario, &text) {
                    Ok(()) => {}
                    Err(ScenarioProblems(more)) => problems.extend(more),
                },
                Err(error) => {
                    let at = format!("agents.yaml: agents[{i}].provider.scenario");
                    problems
                        .push(format!("{at}: `{scenario}`: {error}; name a file in {}", registry.directory.display()));
                }
            }
        }
        problems.dedup();
        if problems.is_empty() { Ok(provider) } else { Err(ScenarioProblems(problems)) }
    }

    /// A provider for one agent, from the text of a scenario; `file` names it in messages.
    pub fn from_text(
        agent: AgentName,
        file: &str,
        text: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ScenarioProblems> {
        let mut provider = Self { scenarios: BTreeMap::new(), clock };
        provider.add(agent, file, text).map(|()| provider)
    }

    fn add(&mut self, agent: AgentName, file: &str, text: &str) -> Result<(), ScenarioProblems> {
        let scenario = Scenario::parse(file, text).map_err(ScenarioProblems)?;
        self.scenarios.insert(agent, (file.to_owned(), Arc::new(scenario)));
        Ok(())
    }

    fn step(&self, request: &ModelRequest) -> Result<(&str, &ScriptedStep), ProviderError> {
        let unknown = || ProviderError::permanent(format!("no scenario is configured for agent `{}`", request.agent));
        let (file, scenario) = self.scenarios.get(&request.agent).ok_or_else(unknown)?;
        let run = scenario.run(&request.context.goal).ok_or_else(|| {
            ProviderError::permanent(format!("{file}: no run matches the goal; add one without `match` at the end"))
        })?;
        let (step, round) = (request.step, request.round);
        let missing = || {
            let message = format!("{file}: runs[{}] has no decision for step {step}, round {round}", run.position);
            ProviderError::permanent(format!("{message}; add `- step: {step}` with `round: {round}`"))
        };
        run.steps
            .iter()
            .find(|s| (s.step, s.round) == (step.0, round.0))
            .map(|s| (file.as_str(), s))
            .ok_or_else(missing)
    }
}

#[async_trait]
impl ModelProvider for ScriptedProvider {
    async fn decide(&self, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
        let (file, step) = self.step(request)?;
        if step.delay_ms > 0 {
            self.clock.sleep(Duration::from_millis(step.delay_ms)).await;
        }
        if let Some(fail) = step.fail.filter(|fail| request.attempt <= fail.times) {
            let message = format!("{file}: step {}, round {} fails as scripted", step.step, step.round);
            return Err(match fail.error {
                FailureKind::Transient => ProviderError::transient(message),
                FailureKind::Final => ProviderError::permanent(message),
            });
        }
        let said = match &step.answer {
            Answer::Decision(decision) => {
                let filled = places::fill(decision, &request.context).map_err(|why| {
                    let at = format!("{file}: step {}, round {}", step.step, step.round);
                    ProviderError::permanent(format!("{at}: decision: {why}"))
                })?;
                Said::Decision(versioned(filled).to_string())
            }
            Answer::Text(text) => Said::Decision(text.clone()),
            Answer::None(NoDecision::Refused) => Said::Refused,
            Answer::None(NoDecision::Empty) => Said::Empty,
            Answer::None(NoDecision::CutOff) => Said::CutOff,
        };
        let name = format!("response/{}/{}", request.step, request.round);
        let response_id = format!("scripted-{}", Uuid::new_v5(&request.invocation_id.0, name.as_bytes()));
        Ok(ModelReply { said, response_id, model: request.model.clone(), usage: step.usage })
    }
}

/// A scenario leaves the version out unless it is about the version.
fn versioned(mut decision: Value) -> Value {
    if let Value::Object(object) = &mut decision {
        object.entry("schema_version").or_insert_with(|| DECISION_SCHEMA_VERSION.into());
    }
    decision
}
