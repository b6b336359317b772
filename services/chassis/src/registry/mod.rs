//! What operators declare in files: agents, tools, tenants and ingress. Read once at start, checked as a whole, every
//! problem reported with its file, key and fix.

mod agents;
mod ingress;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::Digest;
use serde::de::DeserializeOwned;

pub use agents::{Agent, AgentsFile, AnswerRule, Prices, ProviderConfig, Tenants};
pub use ingress::{Carries, ControlKind, Ingress, IngressFile, Key, SIGNED_WHERE_SHARED};
pub use tools::{Endpoint, ReconcileEndpoint, Tool, ToolKind, ToolsFile};

/// Everything declared, checked.
#[derive(Debug, Clone)]
pub struct Registry {
    pub agents: AgentsFile,
    pub tools: ToolsFile,
    pub ingress: IngressFile,
    /// The digest of the three files' text: what a verdict was based on.
    pub digest: Digest,
    /// Where the files are; a scenario's path is relative to it.
    pub directory: PathBuf,
}

/// What is wrong with the files, all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct RegistryProblems(pub Vec<String>);

impl Registry {
    /// Reads `agents.yaml`, `tools.yaml` and `ingress.yaml` of a directory.
    pub fn read(directory: &Path) -> Result<Arc<Registry>, RegistryProblems> {
        let mut problems = Vec::new();
        let mut texts = Vec::new();
        let agents = part::<AgentsFile>(directory, "agents.yaml", &mut texts, &mut problems);
        let tools = part::<ToolsFile>(directory, "tools.yaml", &mut texts, &mut problems);
        let ingress = part::<IngressFile>(directory, "ingress.yaml", &mut texts, &mut problems);
        let (Some(agents), Some(tools), Some(ingress)) = (agents, tools, ingress) else {
            return Err(RegistryProblems(problems));
        };
        agents.check(&tools, &mut problems);
        tools.check(&mut problems);
        ingress.check(&mut problems);
        if !problems.is_empty() {
            return Err(RegistryProblems(problems));
        }
        let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let digest = Digest::of("registry", &parts);
        Ok(Arc::new(Registry { agents, tools, ingress, digest, directory: directory.to_owned() }))
    }

    pub fn tool(&self, name: &protocol::ToolName) -> Option<&Tool> {
        self.tools.tools.iter().find(|tool| &tool.name == name)
    }

    pub fn agent(&self, name: &protocol::AgentName) -> Option<&Agent> {
        self.agents.agents.iter().find(|agent| &agent.name == name)
    }
}

fn part<T: DeserializeOwned>(
    directory: &Path,
    name: &str,
    texts: &mut Vec<String>,
    problems: &mut Vec<String>,
) -> Option<T> {
    let path = directory.join(name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            problems.push(format!("{}: {error}; `turnwright init` writes a commented file", path.display()));
            return None;
        }
    };
    let parsed = serde_yaml_ng::from_str(&text);
    texts.push(text);
    parsed.map_err(|error| problems.push(format!("{}: {error}", path.display()))).ok()
}
