//! The policy files of a configuration directory: `policies/*.cedar`, and beside them, if there, `entities.json` and
//! `policies/schema.cedarschema`.

use std::io::ErrorKind;
use std::path::Path;

use protocol::Digest;

use super::PolicyProblems;

/// The text of the files, by name, not yet compiled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyFiles {
    /// `policies/*.cedar`, sorted by name.
    pub policies: Vec<(String, String)>,
    /// `entities.json`: what is known of actors, objects and groups.
    pub entities: Option<String>,
    /// `policies/schema.cedarschema`: what the policies are validated against.
    pub schema: Option<String>,
}

const FOLDER: &str = "policies";
const ENDING: &str = ".cedar";
pub(super) const ENTITIES: &str = "entities.json";
pub(super) const SCHEMA: &str = "policies/schema.cedarschema";

/// A policy that allows a tenant everything: what a directory without one is told to write.
pub fn example(tenant: &str) -> String {
    format!("permit(principal in Tenant::{tenant:?}, action, resource);")
}

impl PolicyFiles {
    /// One policy file, for a configuration that has no directory.
    pub fn of(text: &str) -> Self {
        Self { policies: vec![("policies/main.cedar".to_owned(), text.to_owned())], ..Self::default() }
    }

    /// Reads the files. A directory without a policy file is a problem: nothing would be allowed, and nobody would have
    /// said so.
    pub fn read(directory: &Path) -> Result<Self, PolicyProblems> {
        let mut problems = Vec::new();
        let mut optional = |name: &str| match std::fs::read_to_string(directory.join(name)) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                problems.push(format!("{}: {error}", directory.join(name).display()));
                None
            }
        };
        let (entities, schema) = (optional(ENTITIES), optional(SCHEMA));
        let folder = directory.join(FOLDER);
        let policies = match policies(&folder) {
            Ok(policies) if policies.is_empty() => {
                let fix = "without a policy nothing is allowed, and without a file nobody has said so";
                let write = example("your-tenant");
                problems.push(format!(
                    "{}: no `*.cedar` file; {fix}; write one, such as {FOLDER}/main.cedar with `{write}`, or start from the \
                     commented one of `turnwright init`",
                    folder.display()
                ));
                policies
            }
            Ok(policies) => policies,
            Err(error) => {
                problems.push(format!("{}: {error}", folder.display()));
                Vec::new()
            }
        };
        match problems.is_empty() {
            true => Ok(Self { policies, entities, schema }),
            false => Err(PolicyProblems(problems)),
        }
    }

    /// The digest of every file's name and text: what a verdict was based on.
    pub fn digest(&self) -> Digest {
        let optional = [(ENTITIES, &self.entities), (SCHEMA, &self.schema)];
        let optional = optional.iter().filter_map(|(name, text)| Some((*name, text.as_ref()?.as_str())));
        let policies = self.policies.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let parts: Vec<&[u8]> =
            policies.chain(optional).flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]).collect();
        Digest::of("policy", &parts)
    }
}

fn policies(folder: &Path) -> Result<Vec<(String, String)>, std::io::Error> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.ends_with(ENDING) && !name.starts_with('.') {
            files.push((format!("{FOLDER}/{name}"), std::fs::read_to_string(&path)?));
        }
    }
    files.sort();
    Ok(files)
}
