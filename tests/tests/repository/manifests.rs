//! The import table: which crate may know which, read from the manifests. Arrows point down only.

use super::files;

/// A crate's manifest, as far as the rules need it.
#[derive(Debug)]
pub struct Manifest {
    /// Its folder, from the root.
    pub path: String,
    text: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug)]
struct Dependency {
    name: String,
    /// Needed by its tests only.
    for_tests: bool,
}

/// Per crate, which of ours it may import. `turnwright` and `tests` may import everything, and nothing imports them.
const INTERNAL: [(&str, &[&str]); 11] = [
    ("services/protocol", &[]),
    ("schemas", &["protocol"]),
    ("services/store", &["protocol"]),
    ("services/chassis", &["schemas", "protocol"]),
    ("services/committer", SERVICE),
    ("services/decision", SERVICE),
    ("services/validation", SERVICE),
    ("services/tool-executor", SERVICE),
    ("services/reconciler", SERVICE),
    ("services/turnwright", OURS),
    ("tests", OURS),
];

const SERVICE: &[&str] = &["chassis", "store", "schemas", "protocol"];
const OURS: &[&str] =
    &["protocol", "schemas", "store", "chassis", "committer", "decision", "validation", "tool-executor", "reconciler"];

/// Libraries that reach outside, and who may: a broker, a store, a socket or a clock comes in through one crate.
const EDGES: [(&str, &[&str]); 17] = [
    ("rdkafka", &["services/chassis", "services/turnwright", "tests"]),
    ("redis", &["services/store", "services/turnwright", "tests"]),
    ("apache-avro", &["schemas"]),
    ("schema_registry_converter", &["schemas"]),
    ("backoff", &["services/chassis"]),
    ("opentelemetry", &["services/chassis"]),
    ("opentelemetry_sdk", &["services/chassis"]),
    ("opentelemetry-otlp", &["services/chassis"]),
    ("opentelemetry-prometheus", &["services/chassis"]),
    ("prometheus", &["services/chassis"]),
    ("tracing-subscriber", &["services/chassis"]),
    ("tokio", &["services/chassis", "services/store", "services/turnwright", "tests"]),
    ("axum", &["services/chassis", "tests"]),
    ("clap", &["services/chassis", "services/turnwright", "tests"]),
    ("reqwest", &["services/tool-executor", "services/reconciler", "tests"]),
    ("jsonschema", &["services/validation"]),
    ("rand", &["tests"]),
];

/// What the core may use.
const CORE: [&str; 6] = ["serde", "serde_json", "uuid", "sha2", "serde_json_canonicalizer", "thiserror"];

impl Manifest {
    /// The manifests of every crate that is there, whether the workspace names it or not.
    pub fn all() -> Vec<Manifest> {
        let manifests = files::text_files().into_iter().filter(|file| file.path.ends_with("/Cargo.toml"));
        let read = |file: files::SourceFile| Self::parse(file.path.trim_end_matches("/Cargo.toml"), &file.text);
        manifests.map(read).filter(|manifest| !manifest.stands_alone()).collect()
    }

    pub fn parse(path: &str, text: &str) -> Self {
        let mut dependencies = Vec::new();
        // In a table of dependencies: whether it is for tests.
        let mut table = None;
        for line in text.lines().map(str::trim) {
            if let Some(heading) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
                let heading = heading.trim_matches('[');
                let place = heading.find("dependencies");
                let for_tests = heading.contains("dev-dependencies");
                table = place.map(|_| for_tests);
                // `[dependencies.name]`
                if let Some((_, name)) = place.and_then(|at| heading[at..].split_once('.')) {
                    dependencies.push(Dependency { name: name.trim_matches('"').to_owned(), for_tests });
                    table = None;
                }
            } else if let Some(for_tests) = table
                && !line.starts_with('#')
                && let Some((key, value)) = line.split_once('=')
                && !key.trim_start().is_empty()
                && key.chars().all(|c| c.is_ascii_alphanumeric() || " -_.\"".contains(c))
            {
                let key = key.trim().trim_matches('"').split('.').next().unwrap_or_default();
                let renamed = value.split_once("package = \"").and_then(|(_, rest)| rest.split('"').next());
                dependencies.push(Dependency { name: renamed.unwrap_or(key).to_owned(), for_tests });
            }
        }
        Self { path: path.to_owned(), text: text.to_owned(), dependencies }
    }

    /// Whether it is a workspace of its own, such as an example to copy: none of ours.
    fn stands_alone(&self) -> bool {
        self.text.lines().any(|line| line.trim() == "[workspace]")
    }
}

fn is_ours(name: &str) -> bool {
    OURS.contains(&name) || name.starts_with("turnwright")
}

/// Edges that are not in the table.
pub fn edges(manifests: &[Manifest]) -> Vec<String> {
    let mut problems = Vec::new();
    for manifest in manifests {
        let path = &manifest.path;
        let Some((_, allowed)) = INTERNAL.iter().find(|(known, _)| known == path) else {
            problems.push(format!("{path} is not in the import table"));
            continue;
        };
        for Dependency { name, for_tests } in &manifest.dependencies {
            let ours = name.strip_prefix("turnwright-").unwrap_or(name);
            if is_ours(name) && !allowed.contains(&ours) {
                problems.push(format!("{path} may not import {name}"));
            }
            let edge = EDGES.iter().find(|(edge, _)| edge == name);
            if !for_tests && edge.is_some_and(|(_, may)| !may.contains(&path.as_str())) {
                problems.push(format!("{path} may not use {name}: it comes in through another crate"));
            }
        }
    }
    problems
}

/// What the core uses beyond its list.
pub fn core(manifests: &[Manifest]) -> Vec<String> {
    let core = manifests.iter().filter(|manifest| manifest.path == "services/protocol");
    let used = core.flat_map(|manifest| &manifest.dependencies).filter(|dependency| !dependency.for_tests);
    used.filter(|dependency| !CORE.contains(&dependency.name.as_str()))
        .map(|dependency| format!("services/protocol may not use {}", dependency.name))
        .collect()
}

/// Crates that do not take the workspace's lints.
pub fn lints(manifests: &[Manifest]) -> Vec<String> {
    let lacks = |manifest: &&Manifest| !manifest.text.contains("[lints]\nworkspace = true");
    manifests.iter().filter(lacks).map(|manifest| format!("{}: no [lints] workspace = true", manifest.path)).collect()
}
