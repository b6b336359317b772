//! `serve` at its start: it waits for what is not up yet, and refuses what would lose commits.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

fn serve(service: &str, store: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("turnwright"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TURNWRIGHT_") {
            command.env_remove(name);
        }
    }
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/examples/demo");
    command.current_dir(std::env::temp_dir());
    command.args(["serve", service, "--config", files, "--brokers", "127.0.0.1:1", "--store", store]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn a_service_waits_for_a_store_that_is_not_up_and_stops_when_told() {
    let mut process = serve("decision", "redis://127.0.0.1:1").spawn().unwrap();
    let said = BufReader::new(process.stderr.take().unwrap());
    let mut waited = 0;
    for line in said.lines().map(Result::unwrap) {
        waited += usize::from(line.contains("waiting for the store") && line.contains("127.0.0.1:1"));
        if waited == 2 {
            let id = process.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
            waited += 1;
        }
    }
    assert!(waited >= 3, "it did not say what it waits for");
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_service_refuses_a_store_that_would_lose_commits_and_names_the_settings() {
    let directory = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut redis = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no", "--dir"])
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < DEADLINE, "redis-server does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = serve("committer", &format!("redis://127.0.0.1:{port}")).output().unwrap();
    let _ = redis.kill();
    let _ = redis.wait();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("appendonly") && said.contains("--durability"), "{said}");
}
