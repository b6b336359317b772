//! Records of every schema that was ever released must keep decoding, and schemas must stay compatible both ways.
//!
//! `history/<topic>/<fingerprint>.avsc` is a schema, `<fingerprint>.avro` a record written with it in single-object
//! encoding. `cargo test -p turnwright-schemas --test history -- --ignored` adds what is missing for the current ones;
//! a schema that was released stays, and is named in `src/history.rs` once it is no longer the current one.

mod samples;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use apache_avro::Schema;
use apache_avro::rabin::Rabin;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::schema_compatibility::SchemaCompatibility;
use apache_avro::types::Value;
use protocol::*;
use samples::{Dice, arrived, codec};
use turnwright_schemas::{Codec, DeadLetterCode, Inbound, Outbound, PublicWire, Rejection, Topic, WireFormat};
use uuid::Uuid;

fn folder(topic: Topic) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("history").join(topic.short_name())
}

fn fingerprint(schema: &Schema) -> String {
    schema.fingerprint::<Rabin>().bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The schemas and samples of a topic, by fingerprint.
fn history(topic: Topic) -> BTreeMap<String, (Schema, Vec<u8>)> {
    let entries = std::fs::read_dir(folder(topic)).unwrap_or_else(|error| panic!("{topic:?}: {error}"));
    let schemas = entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() == "avsc");
    let entry = |path: PathBuf| {
        let schema = Schema::parse_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert_eq!(name, fingerprint(&schema), "{}", path.display());
        (name, (schema, std::fs::read(path.with_extension("avro")).unwrap()))
    };
    schemas.map(entry).collect()
}

fn sample(codec: &Codec, topic: Topic) -> Outbound {
    let (mut dice, id) = (Dice(2024), EventId(Uuid::nil()));
    let sample = match topic {
        Topic::Invocations => codec.encode_request(&dice.request(), WireFormat::Avro),
        Topic::Controls => codec.encode_control(&dice.control(), WireFormat::Avro),
        Topic::Turns => codec.encode(&dice.turn_ready(), id, None),
        Topic::Decisions => codec.encode(&dice.decision_proposed(), id, None),
        Topic::Verdicts => codec.encode(&dice.verdict(), id, None),
        Topic::Dispatches => codec.encode(&dice.tool_call_dispatched(), id, None),
        Topic::Results => codec.encode(&dice.tool_call_settled(), id, None),
        Topic::OutcomeUnknown => codec.encode(&dice.effect_queried(), id, None),
        Topic::Resolutions => codec.encode(&dice.effect_answered(), id, None),
        Topic::Terminals => codec.encode(&dice.run_ended(), id, None),
        Topic::Events => codec.encode(&dice.events_committed(), id, None),
        Topic::DeadLetters => {
            let record = arrived(codec.encode(&dice.turn_ready(), id, None).unwrap());
            let rejection = Rejection::new(DeadLetterCode::Unsupported, "kind", "is newer");
            Ok(codec.dead_letter(&record, &rejection, 2, "decision"))
        }
    };
    sample.unwrap()
}

/// The key that the record must have had.
fn invocation_id(schema: &Schema, value: &[u8]) -> Option<Vec<u8>> {
    let reader = GenericDatumReader::builder(schema).build().unwrap();
    let mut datum = reader.read_value(&mut &value[10..]).unwrap();
    loop {
        let Value::Record(fields) = datum else { panic!("not a record") };
        let find = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone());
        match (find("invocation_id"), find("turn")) {
            (Some(Value::Union(_, inner)), _) => datum = *inner,
            (Some(inner), _) | (None, Some(inner)) => datum = inner,
            (None, None) => return None,
        }
        if let Value::String(id) = datum {
            return Some(id.into_bytes());
        }
    }
}

fn decodes(codec: &Codec, topic: Topic, record: &Inbound) -> Result<(), Rejection> {
    match topic {
        Topic::Invocations => codec.decode_request(record).map(drop),
        Topic::Controls => codec.decode_control(record).map(drop),
        Topic::Turns => codec.decode::<TurnReady>(record).map(drop),
        Topic::Decisions => codec.decode::<DecisionProposed>(record).map(drop),
        Topic::Verdicts => codec.decode::<Verdict>(record).map(drop),
        Topic::Dispatches => codec.decode::<ToolCallDispatched>(record).map(drop),
        Topic::Results => codec.decode::<ToolCallSettled>(record).map(drop),
        Topic::OutcomeUnknown => codec.decode::<EffectQueried>(record).map(drop),
        Topic::Resolutions => codec.decode::<EffectAnswered>(record).map(drop),
        Topic::Terminals => codec.decode::<RunEnded>(record).map(drop),
        Topic::Events => codec.decode::<EventsCommitted>(record).map(drop),
        Topic::DeadLetters => codec.decode_dead_letter(record).map(drop),
    }
}

#[test]
fn every_sample_of_the_history_still_decodes() {
    let codec = codec(PublicWire::Avro);
    for topic in Topic::ALL {
        for (fingerprint, (schema, value)) in history(topic) {
            let key = invocation_id(&schema, &value);
            let record = Inbound { key, value: Some(value), ..arrived(sample(&codec, topic)) };
            decodes(&codec, topic, &record).unwrap_or_else(|rejection| panic!("{topic:?} {fingerprint}: {rejection}"));
        }
    }
}

#[test]
fn the_current_schema_stands_in_the_history() {
    for topic in Topic::ALL {
        let current = fingerprint(&Schema::parse_str(topic.schema_text()).unwrap());
        let message = "add it: cargo test -p turnwright-schemas --test history -- --ignored";
        assert!(history(topic).contains_key(&current), "{topic:?} {current} is not in history/; {message}");
    }
}

#[test]
fn the_current_schema_and_every_earlier_one_read_each_other() {
    for topic in Topic::ALL {
        let current = Schema::parse_str(topic.schema_text()).unwrap();
        for (fingerprint, (earlier, _)) in history(topic) {
            let mutual = SchemaCompatibility::mutual_read(&current, &earlier);
            assert!(mutual.is_ok(), "{topic:?} {fingerprint}: {mutual:?}");
        }
    }
}

#[test]
#[ignore = "writes the current schemas and a sample of each into history/"]
fn add_the_current_schemas_to_the_history() {
    let codec = codec(PublicWire::Avro);
    for topic in Topic::ALL {
        let name = fingerprint(&Schema::parse_str(topic.schema_text()).unwrap());
        let schema = folder(topic).join(&name).with_extension("avsc");
        std::fs::create_dir_all(folder(topic)).unwrap();
        if !schema.exists() {
            std::fs::write(schema.with_extension("avro"), sample(&codec, topic).value).unwrap();
            std::fs::write(&schema, topic.schema_text()).unwrap();
        }
    }
}
