//! The vocabularies against the schemas, symbol by symbol.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::symbols::*;
use crate::Topic;

/// Every named type of every schema, by name, with the topics that define it.
fn named_types() -> BTreeMap<String, Vec<(Topic, Value)>> {
    let mut found = BTreeMap::new();
    for topic in Topic::ALL {
        collect(topic, &serde_json::from_str(topic.schema_text()).unwrap(), &mut found);
    }
    found
}

fn collect(topic: Topic, schema: &Value, found: &mut BTreeMap<String, Vec<(Topic, Value)>>) {
    match schema {
        Value::Object(object) => {
            if let Some(name) = object.get("name").and_then(Value::as_str)
                && matches!(object.get("type").and_then(Value::as_str), Some("record" | "enum"))
            {
                let mut bare = object.clone();
                bare.remove("namespace");
                found.entry(name.to_owned()).or_default().push((topic, Value::Object(bare)));
            }
            object.values().for_each(|inner| collect(topic, inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect(topic, inner, found)),
        _ => {}
    }
}

fn assert_symbols<T: Serialize + Copy>(name: &str, all: &[T], unrecognized: T) {
    let text = |symbol: &T| serde_json::to_value(symbol).unwrap().as_str().unwrap().to_owned();
    let ours: Vec<String> = all.iter().chain([&unrecognized]).map(text).collect();
    let found = named_types();
    let (_, schema) = &found.get(name).unwrap_or_else(|| panic!("no schema defines {name}"))[0];
    let theirs: Vec<&str> =
        schema["symbols"].as_array().unwrap().iter().map(|symbol| symbol.as_str().unwrap()).collect();
    assert_eq!(ours, theirs, "{name}");
    assert_eq!(schema["default"], "unrecognized", "{name}");
}

#[test]
fn every_vocabulary_equals_its_schema_symbol_by_symbol() {
    macro_rules! check {
        ($($name:ident as $schema:literal),* $(,)?) => {{
            $(assert_symbols($schema, $name::ALL, $name::Unrecognized);)*
            [$($schema),*]
        }};
    }
    let checked = check!(
        TerminalReason as "TerminalReason",
        ErrorClass as "ErrorClass",
        EffectStatus as "EffectStatus",
        FindingCode as "FindingCode",
        LetterCode as "DeadLetterCode",
        DecisionKind as "DecisionKind",
        ControlKind as "ControlKind",
        OwnerAnswer as "OwnerAnswer",
        ResolvedOutcome as "ResolvedOutcome",
        VerdictKind as "VerdictKind",
        AttemptResult as "AttemptResult",
        ModelAnswer as "ModelAnswer",
        EventType as "EventType",
    );
    for (name, definitions) in named_types() {
        let is_enum = definitions[0].1["type"] == "enum";
        assert!(!is_enum || checked.contains(&name.as_str()), "{name} is in a schema and not checked here");
    }
}

#[test]
fn the_vocabulary_is_as_long_as_protocol_md_says() {
    assert_eq!(TerminalReason::ALL.len(), 18);
    assert_eq!(protocol::TerminalReason::ALL.map(TerminalReason::from), TerminalReason::ALL);
    assert_eq!(EventType::ALL.len(), 23);
    assert_eq!(DecisionKind::ALL.len(), 5);
    assert_eq!(ControlKind::ALL.len(), 5);
}

#[test]
fn core_variants_come_back_from_their_symbols() {
    for reason in protocol::TerminalReason::ALL {
        assert_eq!(TerminalReason::from(reason).core("reason"), Ok(reason));
        assert_eq!(serde_json::to_value(TerminalReason::from(reason)).unwrap(), reason.as_str());
    }
    for symbol in LetterCode::ALL {
        let code = symbol.core("code").unwrap();
        assert_eq!(LetterCode::from(code), *symbol);
        assert_eq!(serde_json::to_value(symbol).unwrap(), code.as_str());
    }
    assert!(ErrorClass::ALL.iter().all(|symbol| ErrorClass::from(symbol.core("class").unwrap()) == *symbol));
    assert!(EffectStatus::ALL.iter().all(|symbol| EffectStatus::from(symbol.core("status").unwrap()) == *symbol));
    assert!(FindingCode::ALL.iter().all(|symbol| FindingCode::from(symbol.core("code").unwrap()) == *symbol));
}

#[test]
fn what_is_newer_than_this_build_is_refused_as_unsupported() {
    use crate::DeadLetterCode::Unsupported;
    assert!(EventType::ALL.iter().all(|event| event.known("type").is_ok()));
    assert!(DecisionKind::ALL.iter().all(|kind| kind.known("decision_kind").is_ok()));
    assert_eq!(EventType::Unrecognized.known("type").unwrap_err().code, Unsupported);
    assert_eq!(DecisionKind::Unrecognized.known("decision_kind").unwrap_err().code, Unsupported);
}

#[test]
fn types_of_one_name_are_equal_in_every_schema_and_every_field_is_documented() {
    for (name, definitions) in named_types() {
        let (first, schema) = &definitions[0];
        for (topic, other) in &definitions[1..] {
            assert_eq!(schema, other, "{name} differs between {first:?} and {topic:?}");
        }
        assert!(schema["doc"].as_str().is_some_and(|doc| !doc.is_empty()), "{name} has no doc");
        for field in schema["fields"].as_array().into_iter().flatten() {
            assert!(field["doc"].as_str().is_some_and(|doc| !doc.is_empty()), "{name}.{} has no doc", field["name"]);
        }
    }
}
