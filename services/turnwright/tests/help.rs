//! What the command line says of itself, and how it refuses wrong use.

use assert_cmd::Command;

const COMMANDS: [&str; 17] = [
    "serve",
    "dev",
    "invoke",
    "watch",
    "list",
    "inspect",
    "cancel",
    "approve",
    "reject",
    "clarify",
    "topics",
    "schema",
    "init",
    "doctor",
    "conformance",
    "env",
    "completion",
];

fn turnwright() -> Command {
    let mut command = Command::cargo_bin("turnwright").unwrap();
    // A dev.json or settings of the developer's own must not decide a test.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TURNWRIGHT_") {
            command.env_remove(name);
        }
    }
    command.current_dir(std::env::temp_dir());
    command
}

fn stdout(command: &mut Command) -> String {
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

fn stderr(command: &mut Command, code: i32) -> String {
    String::from_utf8(command.assert().code(code).get_output().stderr.clone()).unwrap()
}

#[test]
fn the_help_of_every_command_shows_an_example() {
    let all = stdout(turnwright().arg("--help"));
    for command in COMMANDS {
        assert!(all.contains(&format!("  {command}")), "{command} is not listed:\n{all}");
        let help = stdout(turnwright().args([command, "--help"]));
        assert!(help.contains("Example") && help.contains(&format!("turnwright {command}")), "{command}:\n{help}");
    }
}

#[test]
fn the_help_of_invoke_documents_the_exit_codes() {
    let help = stdout(turnwright().args(["invoke", "--help"]));
    for line in ["10  resumable", "20  stopped", "30  failed", "40  uncertain"] {
        assert!(help.contains(line), "{line}:\n{help}");
    }
}

#[test]
fn wrong_flags_are_refused_by_name_with_code_2() {
    for (arguments, named) in [
        (vec!["serve", "commiter"], "commiter"),
        (vec!["serve", "committer", "--max-batch", "many"], "--max-batch"),
        (vec!["serve", "committer", "--max-batch", "0"], "max-batch"),
        (vec!["serve", "committer", "--retention-runs", "30d", "--retention-evidence", "7d"], "--retention-evidence"),
        (vec!["list", "--older-than", "5"], "--older-than"),
        (vec!["list", "--reason", "finished"], "--reason"),
        (vec!["invoke", "--agent", "a", "--tenant", "t"], "--goal"),
        (vec!["invoke", "-a", "a", "-t", "t", "-g", " "], "--goal"),
        (vec!["invoke", "-a", "a", "-t", "t", "-g", "x", "--budget", "max_stepz=1"], "max_stepz"),
        (vec!["invoke", "-a", "a", "-t", "t", "-g", "x", "--deadline", "soon"], "--deadline"),
        (vec!["inspect", "not-a-uuid"], "not-a-uuid"),
        (vec!["topics", "apply", "--file", "/no/such/file"], "--file"),
        (vec!["env", "--shards", "0"], "--shards"),
        (vec!["conformance", "owner:8080"], "BASE_URL"),
        (vec!["conformance", "http://owner", "--body", "{"], "--body"),
        (vec!["schema", "register"], "--schema-registry"),
        (vec!["schema", "register", "--schema-registry", "http://127.0.0.1:9"], "--schema-registry"),
    ] {
        let said = stderr(turnwright().args(&arguments), 2);
        assert!(said.contains(named), "{arguments:?} does not name {named}:\n{said}");
    }
}

#[test]
fn a_service_without_its_files_names_the_setting_and_the_fix() {
    let empty = tempfile::tempdir().unwrap();
    let said = stderr(turnwright().args(["serve", "validation", "--config"]).arg(empty.path()), 2);
    for part in ["TURNWRIGHT_CONFIG", "agents.yaml", "tools.yaml", "ingress.yaml", "turnwright init"] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
}

#[test]
fn a_broken_dev_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(".turnwright")).unwrap();
    std::fs::write(directory.path().join(".turnwright/dev.json"), "{").unwrap();
    let said = stderr(turnwright().current_dir(directory.path()).arg("env"), 2);
    assert!(said.contains("dev.json") && said.contains("remove this file"), "{said}");
}

#[test]
fn a_cluster_that_is_not_there_is_named_with_what_to_do() {
    let said = stderr(turnwright().args(["list", "--store", "redis://:canary@127.0.0.1:1"]), 1);
    assert!(said.contains("127.0.0.1:1") && said.contains("turnwright doctor"), "{said}");
    assert!(!said.contains("canary"), "{said}");
}

#[test]
fn init_writes_files_that_doctor_reads_and_never_overwrites_them() {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("agents");
    stdout(turnwright().arg("init").arg(&files));
    let said = stderr(turnwright().arg("init").arg(&files), 2);
    assert!(said.contains("agents.yaml") && said.contains("--force"), "{said}");
    stdout(turnwright().arg("init").arg(&files).arg("--force"));

    // Kafka and the store are not there, and are reported; the files are read all the same.
    let looked = |code| {
        let mut command = turnwright();
        command.args([
            "doctor",
            "-o",
            "json",
            "--brokers",
            "127.0.0.1:1",
            "--store",
            "redis://127.0.0.1:1",
            "--config",
        ]);
        let output = command.arg(&files).assert().code(code).get_output().stdout.clone();
        let checks: Vec<serde_json::Value> = serde_json::from_slice(&output).unwrap();
        checks
    };
    let of = |checks: &[serde_json::Value], what: &str| {
        let found = checks.iter().find(|check| check["what"].as_str().unwrap().starts_with(what));
        found.unwrap_or_else(|| panic!("{what} was not looked at: {checks:?}")).clone()
    };
    let checks = looked(1);
    assert_eq!(of(&checks, "files in")["level"], "OK");
    assert_eq!(of(&checks, "kafka")["level"], "FAIL");
    assert_eq!(of(&checks, "store")["level"], "FAIL");
    assert_eq!(of(&checks, "schemas")["level"], "OK");
    assert_eq!(of(&checks, "librdkafka")["level"], "OK");
    assert!(
        checks.iter().all(|check| check["level"] == "OK" || check["fix"].as_str().is_some_and(|fix| !fix.is_empty()))
    );

    std::fs::write(files.join("scenario.yaml"), "runs: []\n").unwrap();
    let files_now = of(&looked(1), "files in");
    assert_eq!(files_now["level"], "FAIL");
    assert!(files_now["seen"].as_str().unwrap().contains("scenario.yaml"), "{files_now}");
}

#[test]
fn env_says_where_each_value_comes_from_and_keeps_secrets() {
    let mut command = turnwright();
    command.args(["env", "-o", "json", "--shards", "8", "--kafka-property", "sasl.password=canary"]);
    command.env("TURNWRIGHT_STORE", "redis://u:canary@h:1").env("TURNWRIGHT_MAX_BATCH", "7");
    let text = stdout(&mut command);
    assert!(!text.contains("canary"), "{text}");
    let settings: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let setting = |name: &str| settings.iter().find(|setting| setting["name"] == name).unwrap();
    assert_eq!(setting("TURNWRIGHT_SHARDS")["source"], "flag");
    assert_eq!(setting("TURNWRIGHT_STORE")["value"], "redis://***@h:1");
    assert_eq!(setting("TURNWRIGHT_STORE")["source"], "environment");
    assert_eq!(setting("TURNWRIGHT_MAX_BATCH")["value"], "7");
    assert_eq!(setting("TURNWRIGHT_BROKERS")["source"], "default");
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(turnwright().args(["completion", shell]));
        assert!(script.contains("turnwright") && script.contains("doctor"), "{shell}");
    }
}
