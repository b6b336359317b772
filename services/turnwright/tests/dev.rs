//! `turnwright dev` end to end: the demo, five processes, a killed child, a killed supervisor.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than anything takes on a busy machine; a test that needs it has failed.
const DEADLINE: Duration = Duration::from_secs(60);
const ANSWER: &str = "completed: profile=active; policy=refund-under-100 (steps=2 tool_calls=2)";

fn command(directory: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("turnwright"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TURNWRIGHT_") {
            command.env_remove(name);
        }
    }
    command.current_dir(directory);
    command
}

/// Asks again until the answer is there.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running `dev`. Killed when dropped; its children notice.
struct Dev {
    directory: tempfile::TempDir,
    process: Child,
}

impl Dev {
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(directory.path().join("dev.log")).unwrap();
        let mut command = command(directory.path());
        let process = command.arg("dev").args(arguments).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let mut dev = Self { directory, process };
        until("dev.json", || {
            assert!(dev.process.try_wait().unwrap().is_none(), "dev ended:\n{}", dev.log());
            dev.dev_json().is_file().then_some(())
        });
        dev
    }

    fn dev_json(&self) -> PathBuf {
        self.directory.path().join(".turnwright/dev.json")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("dev.log")).unwrap_or_default()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        command(self.directory.path()).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// What a command prints with `-o json`.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {}\n{said}\n{}", output.status, self.log());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", text(&output.stdout)))
    }

    fn ask(&self, goal: &str) -> Value {
        self.json(&[
            "invoke",
            "-a",
            "refund-desk",
            "-t",
            "demo",
            "-g",
            goal,
            "--wait",
            "--timeout",
            "40s",
            "-o",
            "json",
        ])
    }

    fn terminate(&mut self) {
        let killed = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let status = until("the end of dev", || self.process.try_wait().unwrap());
        assert!(status.success(), "{status}\n{}", self.log());
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The processes below `root`, with their command lines.
fn descendants(root: u32) -> Vec<(u32, String)> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name before it is in parentheses and may hold anything.
        let Some(parent) = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok())
        else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        parents.push((pid, parent, text(&line).replace('\0', " ")));
    }
    let mut found = Vec::new();
    let mut level = vec![root];
    while !level.is_empty() {
        let below: Vec<_> = parents.iter().filter(|(_, parent, _)| level.contains(parent)).cloned().collect();
        level = below.iter().map(|(pid, ..)| *pid).collect();
        found.extend(below.into_iter().map(|(pid, _, line)| (pid, line)));
    }
    found
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended; only its parent has not looked yet.
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

fn demo(arguments: &[&str], path: Option<&str>) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(directory.path());
    command.args(["dev", "--demo"]).args(arguments).stdin(Stdio::null());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let start = Instant::now();
    let output = command.output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    assert!(output.status.success(), "{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    assert!(!directory.path().join(".turnwright").exists(), "the demo leaves nothing behind");
    output
}

fn assert_shows_the_run(output: &Output) {
    let shown = text(&output.stdout);
    assert_eq!(shown.lines().last(), Some(ANSWER), "{shown}");
    for event in ["admitted", "turn_planned", "wave_released", "call_settled", "turn_committed", "ended"] {
        assert!(shown.contains(event), "{event}:\n{shown}");
    }
}

#[test]
fn the_demo_runs_five_processes_to_the_answer() {
    let output = demo(&[], None);
    assert_shows_the_run(&output);
    assert!(!text(&output.stderr).contains("nothing survives"), "redis-server is missing: run infra/setup.sh demo");
}

#[test]
fn the_demo_in_memory_says_first_that_nothing_survives() {
    let output = demo(&["--memory"], None);
    assert_shows_the_run(&output);
    let said = text(&output.stderr);
    assert!(said.lines().next().is_some_and(|line| line.contains("nothing survives")), "{said}");
}

#[test]
fn without_redis_the_demo_says_so_and_runs_in_memory() {
    let output = demo(&["-o", "json"], Some("/nonexistent"));
    let said = text(&output.stderr);
    assert!(said.lines().next().is_some_and(|line| line.contains("no redis-server in PATH")), "{said}");
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["terminal"]["reason"], "completed");
    assert_eq!(shown["events"].as_array().unwrap().last().unwrap()["fact"]["type"], "ended");
}

#[test]
fn a_killed_child_is_started_again_and_every_command_works_on_the_cluster() {
    let mut dev = Dev::start(&[]);
    let first = dev.ask("one");
    assert_eq!(first["reason"], "completed");
    let before = descendants(dev.process.id());
    assert!(before.iter().any(|(_, line)| line.contains("redis-server")), "{before:?}");
    for service in ["committer", "decision", "validation", "tool-executor", "reconciler"] {
        assert!(before.iter().any(|(_, line)| line.contains(&format!("serve {service}"))), "{service}: {before:?}");
    }

    let (killed, _) = before.iter().find(|(_, line)| line.contains("serve committer")).unwrap();
    assert!(Command::new("kill").args(["-KILL", &killed.to_string()]).status().unwrap().success());
    let second = dev.ask("two");
    assert_eq!(second["reason"], "completed");
    assert_eq!(second["answer"], "profile=active; policy=refund-under-100");
    assert!(dev.log().contains("committer ended"), "{}", dev.log());

    let id = second["invocation_id"].as_str().unwrap();
    let listed = dev.json(&["list", "--tenant", "demo", "--phase", "ended", "-o", "json"]);
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed[0]["invocation_id"], id, "the newest comes first");
    assert_eq!(dev.json(&["list", "--reason", "no_progress", "-o", "json"]), serde_json::json!([]));
    let inspected = dev.json(&["inspect", id, "-o", "json"]);
    assert_eq!(inspected["events"].as_array().unwrap().len(), 8, "{inspected}");
    assert_eq!(inspected["state"]["version"], 8);
    let table = text(&dev.run(&["inspect", id, "--tenant", "demo"]).stdout);
    assert!(table.contains("ended: completed") && table.contains("turn_planned"), "{table}");
    let watched = dev.run(&["watch", id, "--from-start", "-o", "json"]);
    let versions: Vec<u64> = text(&watched.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["version"].as_u64().unwrap())
        .collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7, 8]);
    let topics = dev.json(&["topics", "list", "-o", "json"]);
    assert_eq!(topics.as_array().unwrap().len(), 12, "{topics}");
    dev.json(&["topics", "apply", "-o", "json"]);
    let checks = dev.json(&["doctor", "-o", "json"]);
    assert!(checks.as_array().unwrap().iter().all(|check| check["level"] != "FAIL"), "{checks}");

    let children = descendants(dev.process.id());
    dev.terminate();
    assert!(!dev.dev_json().exists(), "dev.json outlives the cluster");
    let left: Vec<_> = children.iter().filter(|(pid, _)| is_running(*pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_same_id_is_the_same_task_and_a_cancel_ends_a_run() {
    let dev = Dev::start(&[]);
    let id = "0198c0de-0000-7000-8000-000000000001";
    let ask = [
        "invoke",
        "-a",
        "refund-desk",
        "-t",
        "demo",
        "-g",
        "x",
        "--id",
        id,
        "--wait",
        "--timeout",
        "40s",
        "-o",
        "json",
    ];
    let (first, second) = (dev.json(&ask), dev.json(&ask));
    assert_eq!(first["event_id"], second["event_id"]);

    let slow = "0198c0de-0000-7000-8000-000000000002";
    dev.json(&["invoke", "-a", "refund-desk", "-t", "demo", "-g", "be slow", "--id", slow, "-o", "json"]);
    until("the slow call", || {
        let output = dev.run(&["inspect", slow, "-t", "demo", "-o", "json"]);
        let inspected: Value = serde_json::from_slice(&output.stdout).ok()?;
        inspected["state"]["run"]["phase"].get("executing").map(drop)
    });
    dev.json(&["cancel", slow, "-t", "demo", "--reason", "test", "-o", "json"]);
    let ask = [
        "invoke",
        "-a",
        "refund-desk",
        "-t",
        "demo",
        "-g",
        "be slow",
        "--id",
        slow,
        "--wait",
        "--timeout",
        "40s",
        "-o",
        "json",
    ];
    let output = dev.run(&ask);
    assert_eq!(output.status.code(), Some(20), "{}{}", text(&output.stdout), text(&output.stderr));

    for (arguments, code, named) in [
        (["-a", "nobody", "-t", "demo"], 30, "invalid_request"),
        (["-a", "refund-desk", "-t", "stranger"], 30, "tenant_mismatch"),
    ] {
        let mut all = vec!["invoke", "-g", "x", "--wait", "--timeout", "40s"];
        all.extend(arguments);
        let output = dev.run(&all);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(named), "{said}");
    }
}

#[test]
fn children_end_with_a_supervisor_that_is_killed() {
    let mut dev = Dev::start(&[]);
    let children = descendants(dev.process.id());
    assert_eq!(children.len(), 7, "a guard, its redis and five services: {children:?}");
    dev.process.kill().unwrap();
    dev.process.wait().unwrap();
    until("the end of all children", || children.iter().all(|(pid, _)| !is_running(*pid)).then_some(()));
}

/// The private key of RFC 8032, 7.1, test 1, and its public half.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
                   -----END PRIVATE KEY-----\n";
const PUBLIC: &str = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

#[test]
fn people_answer_from_the_command_line_and_sign_where_it_is_wanted() {
    let files = tempfile::tempdir().unwrap();
    let config = files.path().to_str().unwrap();
    assert!(command(files.path()).args(["init", config]).output().unwrap().status.success());
    let ingress = files.path().join("ingress.yaml");
    let text_of = std::fs::read_to_string(&ingress).unwrap();
    let signed = text_of.replace("    # signed: [approve, reject, resolve_effect]", "    signed: [approve, reject]");
    assert_ne!(text_of, signed, "the example shows the setting");
    let pem = format!("-----BEGIN PUBLIC KEY-----\\n{PUBLIC}\\n-----END PUBLIC KEY-----\\n");
    let keys = format!("keys: [{{id: grace-1, actor: grace, tenants: [demo], public_key: \"{pem}\"}}]\n");
    std::fs::write(&ingress, signed + &keys).unwrap();
    let key = files.path().join("grace.pem");
    std::fs::write(&key, KEY).unwrap();
    let sign = ["--sign-with", key.to_str().unwrap(), "--key-id", "grace-1"];

    let dev = Dev::start(&["--config", config]);
    let ask = |goal: &str, id: &str, code: i32| -> Value {
        let arguments = ["invoke", "-a", "refund-desk", "-t", "demo", "-g", goal, "--id", id, "--wait", "-o", "json"];
        let output = dev.run(&arguments);
        assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let reason = |id: &str| -> Option<Value> {
        let output = dev.run(&["inspect", id, "-t", "demo", "-o", "json"]);
        let inspected: Value = serde_json::from_slice(&output.stdout).ok()?;
        inspected["state"]["run"]["phase"].get("ended").map(|ended| ended["reason"].clone())
    };
    let say = |kind: &str, id: &str, more: &[&str]| {
        let said = dev.json(&[&[kind, id, "-t", "demo", "--actor", "grace", "-o", "json"], more].concat());
        assert_eq!((said["asked"].as_str(), said["invocation_id"].as_str()), (Some(kind), Some(id)));
    };

    let [approved, refused, unclear] = [1, 2, 3].map(|n| format!("0198c0de-0000-7000-8000-00000000000{n}"));
    let digest = |waits: &Value| waits["proposal"]["digest"].as_str().unwrap().to_owned();
    let waits = digest(&ask("take a second look", &approved, 10));
    // Not signed: it does not count, or the run would have ended before what follows.
    say("reject", &approved, &["--digest", &waits]);
    say("approve", &approved, &[&["--digest", &waits], &sign[..]].concat());
    assert_eq!(until("the end", || reason(&approved)), "completed");
    let inspected = dev.json(&["inspect", &approved, "-t", "demo", "-o", "json"]);
    assert_eq!(inspected["state"]["run"]["spent"]["tool_calls"], 1, "{inspected}");

    let waits = digest(&ask("take a second look", &refused, 10));
    say("reject", &refused, &[&["--digest", &waits, "--reason", "not today"], &sign[..]].concat());
    assert_eq!(until("the end", || reason(&refused)), "completed");
    let inspected = dev.json(&["inspect", &refused, "-t", "demo", "-o", "json"]);
    assert_eq!(inspected["state"]["run"]["spent"]["tool_calls"], 0, "{inspected}");
    assert!(inspected["events"].to_string().contains("not today"), "{inspected}");

    let asked = ask("it is unclear", &unclear, 10);
    assert_eq!(
        (&asked["question"], &asked["scope"]["step"]),
        (&Value::from("Which customer?"), &Value::from(1)),
        "{asked}"
    );
    say("clarify", &unclear, &["--answer", "c-7", "--step", "1"]);
    assert_eq!(until("the end", || reason(&unclear)), "completed");

    for (arguments, named) in [
        (vec!["approve", &approved, "-t", "demo", "--digest", "5a1f"], "64 hexadecimal digits"),
        (vec!["clarify", &approved, "-t", "demo", "--answer", "x", "--step", "0"], "--step"),
        (
            vec!["reject", &approved, "-t", "demo", "--digest", &waits, "--sign-with", "no.pem", "--key-id", "k"],
            "no.pem",
        ),
        (vec!["reject", &approved, "-t", "demo", "--digest", &waits, "--key-id", "k"], "--sign-with"),
    ] {
        let output = dev.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(named), "{arguments:?}: {}", text(&output.stderr));
    }
}
