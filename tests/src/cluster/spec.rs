//! What a test wants to run.

use std::path::{Path, PathBuf};

use super::Error;
use super::infra::root;

/// Where the operator's files come from.
#[derive(Debug, Clone)]
pub enum Files {
    /// A folder under `infra/examples`.
    Example(&'static str),
    /// The files themselves: name and text.
    Written(Vec<(&'static str, String)>),
}

#[derive(Debug, Clone)]
pub struct ClusterSpec {
    /// Processes of each service.
    pub replicas: usize,
    pub files: Files,
    /// Partitions of every topic; the plan's own number when absent. With one, all invocations share every partition.
    pub partitions: Option<u32>,
    /// Settings on top of the harness' own.
    pub env: Vec<(&'static str, String)>,
}

impl ClusterSpec {
    pub fn new(files: Files) -> Self {
        Self { replicas: 1, files, partitions: None, env: Vec::new() }
    }

    /// The demo's agent and tools.
    pub fn demo() -> Self {
        Self::new(Files::Example("demo"))
    }

    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    pub fn partitions(self, partitions: u32) -> Self {
        Self { partitions: Some(partitions), ..self }
    }

    pub fn env(mut self, name: &'static str, value: impl ToString) -> Self {
        self.env.push((name, value.to_string()));
        self
    }
}

impl Files {
    /// The folder that holds the files; written ones go below `place`.
    pub(super) fn directory(&self, place: &Path) -> Result<PathBuf, Error> {
        match self {
            Self::Example(name) => Ok(root().join("infra/examples").join(name)),
            Self::Written(files) => {
                let directory = place.join("config");
                let write = || {
                    std::fs::create_dir_all(directory.join("policies"))?;
                    files.iter().try_for_each(|(name, text)| std::fs::write(directory.join(name), text))
                };
                write().map_err(|error| Error::io("the operator's files", &error))?;
                Ok(directory)
            }
        }
    }
}

/// The plan of the topics, with that many partitions.
pub(super) fn topics_plan(partitions: Option<u32>) -> Result<String, Error> {
    let path = root().join("infra/topics.yaml");
    let text = std::fs::read_to_string(&path).map_err(|error| Error::io("infra/topics.yaml", &error))?;
    let Some(partitions) = partitions else { return Ok(text) };
    let line = "  partitions: 8\n";
    if text.matches(line).count() != 1 {
        return Err(Error::failed("infra/topics.yaml", "the default partitions are not where they were"));
    }
    Ok(text.replace(line, &format!("  partitions: {partitions}\n")))
}
