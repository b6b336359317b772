//! The scenario file: runs chosen by goal, their steps, and what each answers.

use protocol::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::places;

/// A checked scenario.
#[derive(Debug)]
pub(super) struct Scenario {
    runs: Vec<ScriptedRun>,
}

#[derive(Debug)]
pub(super) struct ScriptedRun {
    /// Its place in the file.
    pub position: usize,
    /// A part of the goal's text; absent for the run that fits every goal.
    part: Option<String>,
    pub steps: Vec<ScriptedStep>,
}

#[derive(Debug)]
pub(super) struct ScriptedStep {
    pub step: u32,
    pub round: u32,
    pub answer: Answer,
    pub delay_ms: u64,
    pub fail: Option<Fail>,
    pub usage: Usage,
}

#[derive(Debug)]
pub(super) enum Answer {
    /// The union in its JSON form, with places to fill.
    Decision(Value),
    Text(String),
    None(NoDecision),
}

/// Fails the first `times` requests for the step.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fail {
    pub times: u32,
    pub error: FailureKind,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureKind {
    Transient,
    Final,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NoDecision {
    Refused,
    Empty,
    CutOff,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    runs: Vec<FileRun>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRun {
    #[serde(default, rename = "match")]
    part: Option<String>,
    steps: Vec<FileStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileStep {
    step: u32,
    #[serde(default)]
    round: u32,
    #[serde(default)]
    decision: Option<Value>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    no_decision: Option<NoDecision>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    fail: Option<Fail>,
    #[serde(default)]
    usage: FileUsage,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileUsage {
    input_tokens: u64,
    output_tokens: u64,
    cost_micros: u64,
}

impl Scenario {
    /// Reads a scenario. The error lists everything that is wrong with it: file, key and fix.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<String>> {
        let parsed: File = serde_yaml_ng::from_str(text).map_err(|error| vec![format!("{file}: {error}")])?;
        let mut problems = Vec::new();
        if parsed.runs.is_empty() {
            problems.push(format!("{file}: runs: must hold at least one run"));
        }
        let mut runs: Vec<ScriptedRun> = Vec::new();
        for (position, run) in parsed.runs.into_iter().enumerate() {
            let at = format!("{file}: runs[{position}]");
            if runs.iter().any(|before| before.part.is_none()) {
                problems.push(format!("{at}: is never reached; move the run without `match` to the end"));
            }
            if run.part.as_ref().is_some_and(String::is_empty) {
                problems.push(format!("{at}.match: fits every goal; leave it out, or name a part of the goal"));
            }
            let mut steps: Vec<ScriptedStep> = Vec::new();
            for (i, step) in run.steps.into_iter().enumerate() {
                let at = format!("{at}.steps[{i}]");
                if let Some(step) = checked(&at, step, &mut problems) {
                    if steps.iter().any(|other| (other.step, other.round) == (step.step, step.round)) {
                        problems.push(format!("{at}: step {}, round {} stands twice", step.step, step.round));
                    }
                    steps.push(step);
                }
            }
            runs.push(ScriptedRun { position, part: run.part, steps });
        }
        if problems.is_empty() { Ok(Self { runs }) } else { Err(problems) }
    }

    /// The first run that fits a goal.
    pub fn run(&self, goal: &Value) -> Option<&ScriptedRun> {
        let text = match goal {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => goal.to_string(),
        };
        self.runs.iter().find(|run| run.part.as_ref().is_none_or(|part| text.contains(part)))
    }
}

fn checked(at: &str, step: FileStep, problems: &mut Vec<String>) -> Option<ScriptedStep> {
    if step.step == 0 {
        problems.push(format!("{at}.step: counts from 1"));
    }
    let answers =
        [step.decision.map(Answer::Decision), step.text.map(Answer::Text), step.no_decision.map(Answer::None)];
    let mut answers: Vec<Answer> = answers.into_iter().flatten().collect();
    if answers.len() != 1 {
        let message = "must have exactly one of `decision`, `text`, `no_decision`";
        problems.push(format!("{at}: {message}; it has {}", answers.len()));
    }
    let answer = answers.pop()?;
    if let Answer::Decision(decision) = &answer {
        if !decision.is_object() {
            problems.push(format!("{at}.decision: must be a decision, such as {{kind: final, answer: done}}"));
        }
        places::check(decision, &format!("{at}.decision"), problems);
    }
    let usage = Usage {
        input_tokens: step.usage.input_tokens,
        output_tokens: step.usage.output_tokens,
        cost_micros: step.usage.cost_micros,
    };
    Some(ScriptedStep { step: step.step, round: step.round, answer, delay_ms: step.delay_ms, fail: step.fail, usage })
}
