//! `asyncapi.yaml` says what the code does.

use std::path::Path;

use serde_yaml_ng::Value;
use turnwright_schemas::{DEFAULT_PREFIX, Topic, headers};

fn document() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("asyncapi.yaml");
    serde_yaml_ng::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn names(mapping: &Value) -> Vec<&str> {
    mapping.as_mapping().unwrap().keys().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn channels_are_the_topics_with_their_addresses_and_records() {
    let document = document();
    assert_eq!(document["asyncapi"], "3.0.0");
    assert_eq!(names(&document["channels"]), Topic::ALL.map(Topic::short_name));
    for topic in Topic::ALL {
        let channel = &document["channels"][topic.short_name()];
        assert_eq!(channel["address"], Value::from(topic.name(DEFAULT_PREFIX)));
        assert_eq!(names(&channel["messages"]), [topic.record_name()]);
        let reference = format!("#/components/messages/{}", topic.record_name());
        assert_eq!(channel["messages"][topic.record_name()]["$ref"], Value::from(reference));
    }
}

#[test]
fn messages_name_their_schema_their_type_and_their_key() {
    let document = document();
    let messages = &document["components"]["messages"];
    assert_eq!(names(messages), Topic::ALL.map(Topic::record_name));
    for topic in Topic::ALL {
        let message = &messages[topic.record_name()];
        assert_eq!(message["name"], Value::from(headers::cloud_event_type(topic.record_name())));
        let reference = message["payload"]["schema"]["$ref"].as_str().unwrap();
        assert_eq!(reference, format!("./avro/{}.avsc", topic.short_name()));
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(reference)).unwrap();
        assert_eq!(text, topic.schema_text());
        let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(schema["name"], topic.record_name());
        assert_eq!(schema["namespace"], "turnwright.v1");
        let key = if topic == Topic::DeadLetters { "OriginalKey" } else { "Key" };
        let reference = format!("#/components/schemas/{key}");
        assert_eq!(message["bindings"]["kafka"]["key"]["$ref"], Value::from(reference));
    }
}

#[test]
fn callers_send_to_ingress_topics_and_read_public_ones() {
    let document = document();
    let operation = |topic: Topic| match (topic.is_ingress(), topic.is_public()) {
        (true, _) => Some(format!("receive-{}", topic.short_name())),
        (false, true) => Some(format!("send-{}", topic.short_name())),
        (false, false) => None,
    };
    let expected: Vec<String> = Topic::ALL.into_iter().filter_map(operation).collect();
    assert_eq!(names(&document["operations"]), expected);
    for name in expected {
        let (action, channel) = name.split_once('-').unwrap();
        let operation = &document["operations"][name.as_str()];
        assert_eq!(operation["action"], action);
        assert_eq!(operation["channel"]["$ref"], Value::from(format!("#/channels/{channel}")));
    }
}

#[test]
fn every_header_is_documented() {
    let document = document();
    let mut documented = names(&document["components"]["schemas"]["Headers"]["properties"]);
    documented.sort_unstable();
    let mut ours = [
        headers::CE_ID,
        headers::CE_TYPE,
        headers::CE_SOURCE,
        headers::CE_SPECVERSION,
        headers::CE_TIME,
        headers::CE_SUBJECT,
        headers::CONTENT_TYPE,
        headers::SIGNATURE,
        headers::TRACEPARENT,
        headers::TRACESTATE,
    ];
    ours.sort_unstable();
    assert_eq!(documented, ours);
}
