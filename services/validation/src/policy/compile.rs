//! Policy files, compiled and checked as a whole: every problem is reported with its file and policy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cedar_policy::ffi::DetailedError;
use cedar_policy::{Policy as CedarPolicy, PolicyId, PolicySet, Schema, ValidationMode, Validator};
use protocol::{Digest, ToolName};

use super::entities::KnownEntities;
use super::files::SCHEMA;
use super::{Approval, PolicyFiles, request};

/// What is wrong with the policy files, all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct PolicyProblems(pub Vec<String>);

/// The operator's policies, ready to judge calls.
#[derive(Debug)]
pub struct Policy {
    /// The digest of the files this was compiled from.
    pub digest: Digest,
    /// Every policy that is no gate.
    pub(super) rules: PolicySet,
    /// The gates, which say nothing of what is allowed.
    pub(super) gates: PolicySet,
    /// The terms of each gate.
    pub(super) approvals: BTreeMap<String, Approval>,
    pub(super) entities: KnownEntities,
}

impl Policy {
    /// Reads and compiles the policy files of a configuration directory.
    pub fn read(directory: &Path) -> Result<Self, PolicyProblems> {
        Self::compile(&PolicyFiles::read(directory)?)
    }

    /// Whether policies know a class of tools by this name, so that no tool may have it.
    pub fn names_a_class(tool: &ToolName) -> bool {
        request::names_a_class(tool)
    }

    /// Compiles policy files.
    pub fn compile(files: &PolicyFiles) -> Result<Self, PolicyProblems> {
        let mut problems = Vec::new();
        let policies = parse(files, &mut problems);
        let mut approvals = BTreeMap::new();
        let (mut rules, mut gates) = (Vec::new(), Vec::new());
        for (place, policy) in &policies {
            match Approval::of(policy) {
                Ok(None) => rules.push(policy.clone()),
                Ok(Some(approval)) => {
                    approvals.insert(policy.id().to_string(), approval);
                    gates.push(policy.clone());
                }
                Err(wrong) => problems.extend(wrong.into_iter().map(|why| format!("{place}: {why}"))),
            }
        }
        let schema = files.schema.as_deref().and_then(|text| schema(text, &mut problems));
        let named = policies.iter().flat_map(|(_, policy)| policy.entity_literals());
        let entities = KnownEntities::read(files.entities.as_deref(), named, &mut problems);
        let mut set = |policies: Vec<CedarPolicy>| {
            PolicySet::from_policies(policies)
                .map_err(|error| problems.push(format!("policies: {error}")))
                .unwrap_or_default()
        };
        let (rules, gates) = (set(rules), set(gates));
        if let Some(schema) = schema {
            let validator = Validator::new(schema);
            for set in [&rules, &gates] {
                let found = validator.validate(set, ValidationMode::Strict);
                problems.extend(found.validation_errors().map(|error| format!("policies: {error}")));
                // Such as a policy that can never apply: a name in it is misspelt.
                problems.extend(found.validation_warnings().map(|warning| format!("policies: {warning}")));
            }
        }
        match problems.is_empty() {
            true => Ok(Self { digest: files.digest(), rules, gates, approvals, entities }),
            false => Err(PolicyProblems(problems)),
        }
    }
}

/// The policies with their places and names: `@id`, or else file and number.
fn parse(files: &PolicyFiles, problems: &mut Vec<String>) -> Vec<(String, CedarPolicy)> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for (file, text) in &files.policies {
        let set: PolicySet = match text.parse() {
            Ok(set) => set,
            Err(error) => {
                problems.extend(parse_errors(file, text, &error));
                continue;
            }
        };
        if set.num_of_templates() > 0 {
            problems
                .push(format!("{file}: a policy with `?principal` or `?resource` is a template, and nothing fills it"));
        }
        let stem = file.rsplit('/').next().and_then(|name| name.strip_suffix(".cedar")).unwrap_or(file);
        for (i, policy) in set.policies().enumerate() {
            let given = policy.annotation("id").filter(|id| !id.is_empty());
            let name = given.map_or_else(|| format!("{stem}#{}", i + 1), str::to_owned);
            if !names.insert(name.clone()) {
                problems.push(format!("{file}: two policies are called `{name}`; give each its own `@id`"));
                continue;
            }
            found.push((format!("{file}: {name}"), policy.new_id(PolicyId::new(&name))));
        }
    }
    found
}

/// Each syntax error with its line.
fn parse_errors(file: &str, text: &str, errors: &cedar_policy::ParseErrors) -> Vec<String> {
    let line = |error: &DetailedError| {
        let offset = error.source_locations.first().map_or(0, |label| label.loc.start);
        text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    };
    let errors = errors.iter().map(DetailedError::from);
    errors.map(|error| format!("{file}:{}: {}", line(&error), error.message)).collect()
}

fn schema(text: &str, problems: &mut Vec<String>) -> Option<Schema> {
    match Schema::from_cedarschema_str(text) {
        Ok((schema, _)) => Some(schema),
        Err(error) => {
            problems.push(format!("{SCHEMA}: {error}"));
            None
        }
    }
}
