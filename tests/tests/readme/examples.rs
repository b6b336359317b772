//! The examples, extracted from the README and run as they stand there, but for the address and the topics' prefix.

use std::path::PathBuf;
use std::process::{Command, Output};

use schemas::{DeadLetterCode, Inbound, PublicKey, Signature, Topic};
use turnwright_tests::cluster::{Cluster, ClusterSpec};

use super::{blocks, read, readme, root, rust_client};

const ADDRESS: &str = "127.0.0.1:29092";

/// The binary under test: `TURNWRIGHT_BIN`, else the one that cargo has put beside this test's own directory.
#[allow(clippy::disallowed_methods, reason = "where the binary is, only the environment knows")]
pub fn binary() -> PathBuf {
    match std::env::var_os("TURNWRIGHT_BIN") {
        Some(path) => path.into(),
        None => {
            let test = std::env::current_exe().unwrap();
            test.ancestors().nth(2).unwrap().join("turnwright")
        }
    }
}

/// An example for this cluster.
fn fitted(example: &str, cluster: &Cluster) -> String {
    assert!(example.contains(ADDRESS), "an example names the broker of `make up`: {example}");
    let mut text = example.replace(ADDRESS, cluster.brokers());
    for topic in Topic::ALL {
        text = text.replace(&topic.name(schemas::DEFAULT_PREFIX), &cluster.topic(topic));
    }
    assert!(!text.contains("turnwright."), "a topic was not recognised: {text}");
    text
}

#[track_caller]
fn shown(output: Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}

#[test]
fn the_examples_do_what_the_readme_says() {
    let cluster = Cluster::start(ClusterSpec::demo()).unwrap();
    kcat(&cluster);
    python(&cluster);
    java(&cluster);
    let prefix = cluster.topic(Topic::Events);
    let prefix = prefix.split('.').next().unwrap();
    let ended = rust_client::ask(cluster.brokers(), prefix, "May customer c-1001 have a refund?").unwrap();
    assert_eq!(ended["answer"], "profile=active; policy=refund-under-100");
}

fn kcat(cluster: &Cluster) {
    let blocks = blocks(&readme(), "kcat");
    assert_eq!(blocks.len(), 5, "a request, its end, a cancel, an approval, a dead letter");
    let script: Vec<String> = blocks.iter().map(|block| fitted(block, cluster)).collect();
    let script = format!("set -eu\n{}", script.join("\n"));
    let output = shown(Command::new("timeout").args(["90", "bash", "-c", &script]).output().unwrap());
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 4, "{output}");
    for (line, parts) in lines.iter().zip([
        ["\"reason\":\"completed\"", "profile=active; policy=refund-under-100"],
        ["\"reason\":\"cancelled\"", "\"effects_unresolved\":false"],
        ["\"reason\":\"completed\"", "looked twice"],
        ["\"code\":\"malformed\"", "\"field\":\"goal\""],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} is not in {line}");
    }
}

/// The block runs as it stands, with a `kcat` that shows what it was told to produce.
#[test]
fn what_openssl_signs_as_the_readme_says_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let kcat = r#"set -eu; KEY=run-1 VALUE='{"kind":"approve"}'; kcat() { cat; printf '%s\n' "${@: -1}"; }"#;
    let script = format!("{kcat}\n{}", blocks(&readme(), "openssl")[0]);
    let shown = shown(Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap());
    let end = "-----END PUBLIC KEY-----\n";
    let (public_key, record) = shown.split_at(shown.find(end).unwrap() + end.len());
    let key: PublicKey = serde_json::from_value(public_key.into()).unwrap();
    let (record, header) = record.split_once("\nturnwright-signature=").unwrap();
    let (id, value) = record.split_once('|').unwrap();
    let mut record = Inbound {
        topic: "controls".to_owned(),
        partition: 0,
        offset: 0,
        timestamp_ms: 0,
        key: Some(id.into()),
        value: Some(value.into()),
        headers: vec![(schemas::headers::SIGNATURE.to_owned(), header.trim_end().into())],
    };
    let signature = Signature::of(&record).unwrap().unwrap();
    assert_eq!((signature.key_id.as_str(), signature.verify(&record, &key)), ("grace-1", Ok(())));
    record.key = Some("run-2".into());
    assert_eq!(signature.verify(&record, &key).unwrap_err().code, DeadLetterCode::SignatureInvalid);
}

fn python(cluster: &Cluster) {
    let example = fitted(&blocks(&readme(), "python")[0], cluster);
    let run = r#". infra/env.sh && exec timeout 90 "$TURNWRIGHT_PYTHON" -c "$1""#;
    let output = Command::new("bash").args(["-c", run, "-", &example]).current_dir(root()).output().unwrap();
    let said = shown(output);
    assert_eq!(said.trim(), "completed profile=active; policy=refund-under-100 unresolved effects: False");
}

fn java(cluster: &Cluster) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Client.java");
    std::fs::write(&file, fitted(&read("infra/examples/clients/java/Client.java"), cluster)).unwrap();
    let run = r#". infra/env.sh && exec timeout 90 java -cp "$KAFKA_HOME/libs/*" "$1""#;
    let output = Command::new("bash").args(["-c", run, "-"]).arg(&file).current_dir(root()).output().unwrap();
    let said = shown(output);
    assert!(said.contains("\"reason\":\"completed\""), "{said}");
}
