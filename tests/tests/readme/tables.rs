//! Tables, links, settings and the text of examples: what can be checked without a cluster.

use std::collections::BTreeSet;
use std::process::Command;

use protocol::TerminalReason;
use serde_json::Value;

use super::{blocks, read, readme, root};

/// The first cells of the tables of a section.
fn first_cells(text: &str, heading: &str) -> Vec<String> {
    let section = text.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("no section {heading}"));
    let level = heading.split(' ').next().unwrap_or_default().len();
    let is_end = |line: &&str| line.starts_with('#') && line.split(' ').next().unwrap_or_default().len() <= level + 1;
    let lines = section.lines().take_while(|line| !is_end(line));
    let cells = lines.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

#[test]
fn every_terminal_reason_has_its_line_and_no_other_has() {
    let expected = TerminalReason::ALL.map(|reason| reason.as_str().to_owned());
    assert_eq!(first_cells(&readme(), "## How a run ends"), expected);
}

#[test]
fn every_dead_letter_code_has_its_line_and_no_other_has() {
    let schema: Value = serde_json::from_str(&read("schemas/avro/dead-letters.avsc")).unwrap();
    let symbols = schema["fields"][0]["type"]["symbols"].as_array().unwrap();
    let symbols: Vec<&str> = symbols.iter().filter_map(Value::as_str).filter(|code| *code != "unrecognized").collect();
    assert!(symbols.contains(&"retries_exhausted"), "{symbols:?}");
    assert_eq!(first_cells(&readme(), "### Dead letters"), symbols);
}

#[test]
fn every_field_of_a_request_has_its_line() {
    let schema: Value = serde_json::from_str(&read("schemas/avro/invocations.avsc")).unwrap();
    let fields = schema["fields"].as_array().unwrap().iter().filter_map(|field| field["name"].as_str());
    assert_eq!(first_cells(&readme(), "### What a request holds"), fields.collect::<Vec<_>>());
}

/// Words in code spans that begin like this.
fn named(prefix: &str) -> BTreeSet<String> {
    let text = readme();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let words = text.split('`').skip(1).step_by(2).flat_map(|span| span.split(move |c| !is_part(c)));
    words.filter(|word| word.starts_with(prefix)).map(str::to_owned).collect()
}

#[test]
fn every_setting_that_is_named_exists() {
    let help = Command::new(super::examples::binary()).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let mut names = named("TURNWRIGHT_");
    names.extend(named("OTEL_"));
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(help.contains(&format!("env: {name}")), "`turnwright serve --help` does not know {name}");
    }
}

#[test]
fn every_metric_that_is_named_exists() {
    let mut sources = String::new();
    let mut folders = vec![root().join("services")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.extension().is_some_and(|kind| kind == "rs") => {
                    sources += &std::fs::read_to_string(path).unwrap();
                }
                _ => {}
            }
        }
    }
    let metrics: Vec<String> = named("turnwright.").into_iter().filter(|name| !name.ends_with(".v1")).collect();
    let metrics: Vec<&String> = metrics.iter().filter(|name| name.as_str() != "turnwright.").collect();
    assert!(metrics.len() > 10, "{metrics:?}");
    for name in metrics {
        assert!(sources.contains(&format!("\"{name}\"")), "no service counts {name}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let text = readme();
    let targets: Vec<&str> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(targets.len() > 15, "{targets:?}");
    for target in targets.into_iter().filter(|target| !target.contains("://")) {
        match target.strip_prefix('#') {
            Some(anchor) => {
                let anchors = text.lines().filter(|line| line.starts_with('#'));
                let mut anchors =
                    anchors.map(|line| line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-"));
                assert!(anchors.any(|known| known == anchor), "no section {target}");
            }
            None => assert!(root().join(target).exists(), "README.md links to {target}, which is not there"),
        }
    }
}

#[test]
fn every_target_of_make_that_is_named_exists() {
    let makefile = read("Makefile");
    let text = readme();
    let named = text.split("make ").skip(1).filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase()).next());
    for target in ["demo", "test", "up", "down", "simulate", "bench", "help"] {
        assert!(makefile.contains(&format!("\n{target}: ")), "make {target} is not there");
        assert!(named.clone().any(|name| name == target), "the README does not say what make {target} does");
    }
}

#[test]
fn the_python_example_is_the_file_that_is_linked() {
    let blocks = blocks(&readme(), "python");
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].trim(), read("infra/examples/clients/python/client.py").trim());
}

#[test]
fn only_words_that_hold_are_used_for_what_is_promised() {
    let text = readme().to_lowercase();
    let promised = text.lines().find(|line| line.contains("exactly once") || line.contains("exactly-once"));
    assert_eq!(promised, None, "nobody can promise this");
}
