//! The file format: a sentence of intent, then blocks of one command (`> …`, YAML) and the lines that it must give. `#`
//! opens a comment before a command.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{CallError, ErrorClass, FindingCode, ModelEvidence, Usage};

/// A transcript, as it stands in its file.
pub struct Transcript {
    pub intent: String,
    pub blocks: Vec<Block>,
}

pub struct Block {
    /// Lines that open with `#`, as they are.
    pub comments: Vec<String>,
    /// The command's own text, without `> `.
    pub command: String,
    pub expected: Vec<String>,
}

impl Transcript {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().peekable();
        let mut intent = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.is_empty() && !line.starts_with("> ")) {
            intent.push(line);
        }
        let (mut blocks, mut comments): (Vec<Block>, _) = (Vec::new(), Vec::new());
        for line in lines.filter(|line| !line.is_empty()) {
            if let Some(command) = line.strip_prefix("> ") {
                let comments = std::mem::take(&mut comments);
                blocks.push(Block { comments, command: command.to_owned(), expected: Vec::new() });
            } else if line.starts_with('#') {
                comments.push(line.to_owned());
            } else {
                let block = blocks.last_mut().ok_or_else(|| format!("`{line}` stands before the first command"))?;
                block.expected.push(line.to_owned());
            }
        }
        if !comments.is_empty() {
            return Err("a comment stands before no command".to_owned());
        }
        Ok(Self { intent: intent.join("\n"), blocks })
    }

    /// The text of the file, with these lines below each command.
    pub fn with_lines(&self, lines: &[Vec<String>]) -> String {
        let mut text = format!("{}\n", self.intent);
        for (block, lines) in self.blocks.iter().zip(lines) {
            text.push('\n');
            let command = format!("> {}", block.command);
            for line in block.comments.iter().chain([&command]).chain(lines) {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

/// What may happen. Calls are named by the ID that the model gave them; `a#1` is the first dispatch of `a`, or the first
/// question about it, where the newest is not meant.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Before the request: what differs from the usual profile and tools.
    Given(Given),
    /// Fields that differ from the usual request.
    Request(Map<String, Value>),
    Verdict(Judged),
    Claim(String),
    /// Asks whether a read's attempt may start, or go on.
    Lease(String),
    Settled(Map<String, Value>),
    Answered(Map<String, Value>),
    Cancel(String),
    Approve(Approval),
    Reject(Approval),
    Clarify {
        answer: Value,
        #[serde(default)]
        step: Option<u32>,
    },
    Resolve(Map<String, Value>),
    /// Waits for a timer and lets it fire.
    Timer(String),
    /// Lets a timer fire now, due or not.
    Fire(String),
    /// Milliseconds; a negative number is a clock that steps back.
    Wait(i64),
    /// Delivers the newest input again.
    Again,
    /// The store falls back to this version: what was said since is out there, and the store does not know of it.
    Restore(usize),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// Merged into the profile; `agent: none` takes it away.
    pub profile: Map<String, Value>,
    pub agent: Option<String>,
    /// Merged into the contracts, by tool.
    pub tools: Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Judged {
    /// The n-th turn that was asked for; the newest where it is absent.
    #[serde(default)]
    pub turn: Option<usize>,
    #[serde(default)]
    pub usage: Option<Usage>,
    #[serde(flatten)]
    pub judgement: Judgement,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    Final(Value),
    CannotContinue(String),
    /// `[name, tool, arguments]` each.
    Calls(Vec<(String, String, Value)>),
    RequestApproval(Vec<(String, String, Value)>),
    Clarification(String),
    Gated(Gated),
    Rejected(Vec<FindingCode>),
    DecisionFailed(String),
}

/// Valid, once a person approves it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gated {
    pub decision: Box<Judgement>,
    /// Which calls are gated, such as `calls[1]`.
    pub paths: Vec<String>,
    #[serde(default)]
    pub four_eyes: bool,
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

/// Who answers which proposal: the newest, the n-th, or with 0 one that nobody made.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Approval {
    Newest(String),
    Exact { by: String, proposal: usize },
}

/// What an attempt came to.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    Output(Value),
    /// By its receipt.
    Committed(String),
    Failed(Fault),
    NothingSent(Fault),
    Unknown,
}

/// What an owner, or a person, says.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answered {
    Committed(String),
    Rejected(Fault),
    NotApplied,
    Pending(u64),
    Unanswerable(String),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Fault {
    Class(ErrorClass),
    Whole(CallError),
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Class(class) => super::super::world::error(class),
            Fault::Whole(error) => error,
        }
    }
}

impl Judged {
    pub fn evidence(&self) -> ModelEvidence {
        let usual = super::super::world::evidence();
        ModelEvidence { usage: self.usage.unwrap_or(usual.usage), ..usual }
    }
}

impl Command {
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_yaml_ng::from_str(text).map_err(|error| error.to_string())?;
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
}
