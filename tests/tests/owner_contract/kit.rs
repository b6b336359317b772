//! `turnwright conformance` against the test owner, as it should be and broken on purpose.

use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::Value;
use turnwright_tests::cluster::{binary, inherited};
use turnwright_tests::owner::{Fault, Faults, OwnerConfig, spawn_owner};

async fn conformance(base_url: &str, more: &'static [&'static str]) -> Output {
    let (program, base_url) = (binary().unwrap(), base_url.to_owned());
    let run = move || {
        let mut command = Command::new(program);
        command.env_clear().envs(inherited()).args(["conformance", &base_url, "--write-path", "/incr"]).args(more);
        command.current_dir(std::env::temp_dir()).output().unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// The checks that did not pass, by verdict, and whether the command said so by its exit code.
async fn judged(config: OwnerConfig, more: &'static [&'static str]) -> (Vec<String>, Vec<String>) {
    let owner = spawn_owner("127.0.0.1:0".parse().unwrap(), config).await.unwrap();
    let output = conformance(&owner.url(""), more).await;
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(checks.len(), 13, "each check is listed: {checks:#?}");
    let named = |verdict: &str| -> Vec<String> {
        let of = checks.iter().filter(|check| check["verdict"] == verdict);
        of.map(|check| check["name"].as_str().unwrap().to_owned()).collect()
    };
    let failed = named("fail");
    assert_eq!(output.status.code(), Some(i32::from(!failed.is_empty())), "{checks:#?}");
    for check in checks.iter().filter(|check| check["verdict"] == "fail") {
        assert!(!check["fix"].as_str().unwrap().is_empty() && !check["seen"].as_str().unwrap().is_empty(), "{check}");
    }
    (failed, named("skip"))
}

const JSON: &[&str] = &["-o", "json"];
const WITH_TOMBSTONES: &[&str] = &["-o", "json", "--tombstone"];

const NOTHING: [&str; 0] = [];
const OF_TOMBSTONES: [&str; 5] = [
    "tombstone_closes_the_key",
    "closed_key_refuses_the_write",
    "closed_key_is_rejected",
    "tombstone_spares_what_is_applied",
    "tombstone_and_write_exclude_each_other",
];

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_keeps_the_contract_passes_every_check() {
    let (failed, skipped) = judged(OwnerConfig::default(), WITH_TOMBSTONES).await;
    assert_eq!((failed, skipped), (vec![], vec![]));
    let (failed, skipped) = judged(OwnerConfig::default(), JSON).await;
    assert_eq!(failed, NOTHING);
    assert_eq!(skipped, OF_TOMBSTONES, "checked only where the owner is said to take them");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_applies_a_key_twice_fails_where_keys_count() {
    let (failed, _) = judged(OwnerConfig { dedupe: false, ..OwnerConfig::default() }, JSON).await;
    for check in ["repeat_gets_the_same_receipt", "another_request_is_refused", "side_by_side_applies_once"] {
        assert!(failed.contains(&check.to_owned()), "{check} passed: {failed:?}");
    }
    assert_eq!(failed.len(), 3, "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_forgets_fingerprints_fails_where_requests_are_told_apart() {
    let (failed, _) = judged(OwnerConfig { fingerprints: false, ..OwnerConfig::default() }, WITH_TOMBSTONES).await;
    assert_eq!(failed, ["key_tells_the_request", "another_request_is_refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_without_the_tombstones_it_is_said_to_take_fails_there_only() {
    let (failed, skipped) = judged(OwnerConfig { tombstones: false, ..OwnerConfig::default() }, WITH_TOMBSTONES).await;
    assert_eq!(failed, ["tombstone_closes_the_key", "tombstone_spares_what_is_applied"]);
    assert_eq!(skipped.len(), 3, "a key that is not closed refuses nothing: {skipped:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_answers_cannot_be_read_fails_at_the_first_write() {
    let faults = Faults::always(Fault::Garbage200);
    let (failed, skipped) = judged(OwnerConfig { faults, ..OwnerConfig::default() }, JSON).await;
    assert_eq!((failed, skipped.len()), (vec!["write_commits_with_receipt".to_owned()], 11));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_names_what_to_do_and_an_owner_that_is_not_there_is_said_to_be() {
    let owner = spawn_owner("127.0.0.1:0".parse().unwrap(), OwnerConfig::default()).await.unwrap();
    let output = conformance(&owner.url(""), &["--tombstone"]).await;
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.contains("pass   side_by_side_applies_once"), "{table}");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = conformance(&format!("http://{closed}"), &[]).await;
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(table.contains("FAIL") && table.contains("nothing was sent") && table.contains("--write-path"), "{table}");
}
