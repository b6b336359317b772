//! The rules of this repository, checked against its files. Each rule is a function over texts, and beside each stands a
//! test with a planted violation: a rule that cannot fail proves nothing.

#[path = "repository/files.rs"]
mod files;
#[path = "repository/manifests.rs"]
mod manifests;
#[path = "repository/sources.rs"]
mod sources;
#[path = "repository/words.rs"]
mod words;

use files::{SourceFile, rust_sources, text_files};
use manifests::Manifest;

/// Fails with every problem, not only the first.
#[track_caller]
fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n  {}\n", problems.join("\n  "));
}

/// Fails unless a rule finds exactly one problem, which names `part`.
#[track_caller]
fn finds(problems: &[String], part: &str) {
    assert!(problems.len() == 1 && problems[0].contains(part), "{part} is not what was found: {problems:?}");
}

fn planted(path: &str, text: &str) -> Vec<SourceFile> {
    vec![SourceFile { path: path.to_owned(), text: text.to_owned() }]
}

#[test]
fn crates_import_only_what_the_import_table_allows() {
    none(manifests::edges(&Manifest::all()));
}

#[test]
fn an_edge_that_is_not_in_the_import_table_is_found() {
    let found = |text: &str| manifests::edges(&[Manifest::parse("services/decision", text)]);
    finds(&found("[dependencies]\ncommitter = { workspace = true }"), "committer");
    finds(&found("[dev-dependencies]\nvalidation.workspace = true"), "validation");
    finds(&found("[dependencies]\nt = { package = \"turnwright-tests\", path = \"../../tests\" }"), "turnwright-tests");
    finds(&found("[target.'cfg(unix)'.dependencies]\nrdkafka = \"0.39\""), "rdkafka");
    finds(&found("[dependencies.redis]\nworkspace = true"), "redis");
    finds(&manifests::edges(&[Manifest::parse("schemas", "[dependencies]\nstore = { workspace = true }")]), "store");
    finds(&manifests::edges(&[Manifest::parse("services/store", "[dependencies]\naxum = \"0.8\"")]), "axum");
    finds(&manifests::edges(&[Manifest::parse("services/another", "")]), "services/another");
}

#[test]
fn the_core_depends_on_its_few_libraries_and_nothing_else() {
    none(manifests::core(&Manifest::all()));
    let found =
        manifests::core(&[Manifest::parse("services/protocol", "[dependencies]\nserde = \"1\"\ntokio = \"1\"")]);
    finds(&found, "tokio");
}

#[test]
fn every_crate_is_a_member_and_takes_the_workspaces_lints() {
    none(manifests::lints(&Manifest::all()));
    finds(&manifests::lints(&[Manifest::parse("schemas", "[package]\nname = \"x\"")]), "lints");
    let root = files::read("Cargo.toml");
    assert!(root.contains("unsafe_code = \"forbid\""), "the workspace forbids unsafe code");
    for manifest in Manifest::all() {
        assert!(root.contains(&format!("\"{}\"", manifest.path)), "{} is not a member of the workspace", manifest.path);
    }
}

#[test]
fn topic_names_stand_in_one_place() {
    none(sources::topic_names(&rust_sources()));
    let names = [
        ("turnwright.invocations.v1", "invocations.v1"),
        ("outcome-unknown", "outcome-unknown"),
        ("other.dead-letters.v1", "dead-letters.v1"),
    ];
    for (name, named) in names {
        let text = format!("fn topic() -> &'static str {{ \"{name}\" }}");
        finds(&sources::topic_names(&planted("services/decision/src/handler.rs", &text)), named);
    }
    let in_a_test = planted("services/decision/src/tests/world.rs", "const T: &str = \"turnwright.turns.v1\";");
    none(sources::topic_names(&in_a_test));
}

#[test]
fn handlers_never_spawn_wait_or_ask_the_clock() {
    none(sources::handlers(&rust_sources()));
    let banned = [
        "tokio::spawn(work())",
        "tokio::time::sleep(wait).await",
        "tokio::select! {}",
        "use tokio::sync::mpsc;",
        "std::thread::sleep(wait)",
        "SystemTime::now()",
        "Instant::now()",
        "Uuid::new_v4()",
        "Uuid::now_v7()",
    ];
    for line in banned {
        finds(
            &sources::handlers(&planted("services/committer/src/handler.rs", line)),
            "services/committer/src/handler.rs:1",
        );
    }
    none(sources::handlers(&planted("services/committer/src/handler.rs", "// Never tokio::spawn.")));
    none(sources::handlers(&planted("services/chassis/src/clock.rs", "tokio::time::sleep(wait).await")));
}

#[test]
fn the_core_is_synchronous_and_has_neither_clock_nor_chance() {
    none(sources::core(&rust_sources()));
    for line in ["async fn handle() {}", "SystemTime::now()", "Instant::now()", "Uuid::now_v7()", "rand::random()"] {
        finds(&sources::core(&planted("services/protocol/src/plan.rs", line)), "services/protocol/src/plan.rs:1");
    }
}

#[test]
fn library_code_neither_unwraps_nor_is_unsafe() {
    none(sources::panics(&rust_sources()));
    finds(&sources::panics(&planted("schemas/src/avro.rs", "let x = y.unwrap();")), "unwrap");
    finds(&sources::panics(&planted("schemas/src/avro.rs", "unsafe { read(p) }")), "unsafe");
    let test_only = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {\n        y.unwrap();\n    }\n}\n";
    none(sources::panics(&planted("schemas/src/avro.rs", test_only)));
    let after_a_test = "#[cfg(test)]\nfn g() {\n    y.unwrap();\n}\n\nfn f() {\n    z.unwrap();\n}\n";
    finds(&sources::panics(&planted("schemas/src/avro.rs", after_a_test)), "avro.rs:7");
}

#[test]
fn every_allowed_lint_has_a_reason() {
    none(sources::allows(&rust_sources()));
    let bare = ["#", "[allow(dead_code)]\nfn f() {}"].concat();
    finds(&sources::allows(&planted("schemas/src/avro.rs", &bare)), "dead_code");
    let broken = ["#", "![allow(\n    dead_code,\n    reason = \"shared by several tests\"\n)]"].concat();
    none(sources::allows(&planted("schemas/src/avro.rs", &broken)));
}

#[test]
fn files_stay_readable_in_one_sitting() {
    let (problems, warnings) = sources::sizes(&rust_sources());
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    none(problems);
    let (problems, _) = sources::sizes(&planted("schemas/src/avro.rs", &"x\n".repeat(401)));
    finds(&problems, "401 lines");
    let (problems, warnings) = sources::sizes(&planted("schemas/src/avro.rs", &"x\n".repeat(301)));
    none(problems);
    finds(&warnings, "301 lines");
    let (problems, _) = sources::sizes(&planted(sources::LONG_FILES[0].0, "short\n"));
    finds(&problems, "take it off the list");
}

#[test]
fn no_file_names_a_machine_or_a_page_that_is_not_here() {
    none(words::forbidden(&text_files()));
    let path = ["/wo", "rk/main/x"].concat();
    finds(&words::forbidden(&planted("README.md", &format!("see {path}"))), "README.md:1");
    let page = ["reliab", "ility.md"].concat();
    finds(
        &words::forbidden(&planted("schemas/src/avro.rs", &format!("first\n// see {page}"))),
        "schemas/src/avro.rs:2",
    );
    none(words::forbidden(&planted("infra/x.sh", "mktemp -d /tmp/x; cd homework/main")));
}

#[test]
fn every_module_says_what_it_is_for() {
    none(sources::openings(&rust_sources()));
    finds(&sources::openings(&planted("schemas/src/avro.rs", "use std::fmt;\n")), "schemas/src/avro.rs");
}
