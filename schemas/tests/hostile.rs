//! What is read may be anything: it is refused with a type, it never panics, and nothing of it is guessed.

mod samples;

use proptest::prelude::*;
use protocol::*;
use samples::{Dice, arrived, codec};
use turnwright_schemas::{Codec, DeadLetterCode, Inbound, Limits, PublicWire, Rejection, WireFormat};
use uuid::Uuid;

fn nil() -> EventId {
    EventId(Uuid::nil())
}

/// Every way to read a record; only a panic fails.
fn read_every_way(codec: &Codec, record: &Inbound) {
    let _ = codec.decode::<TurnReady>(record);
    let _ = codec.decode::<DecisionProposed>(record);
    let _ = codec.decode::<Verdict>(record);
    let _ = codec.decode::<ToolCallDispatched>(record);
    let _ = codec.decode::<ToolCallSettled>(record);
    let _ = codec.decode::<EffectQueried>(record);
    let _ = codec.decode::<EffectAnswered>(record);
    let _ = codec.decode::<RunEnded>(record);
    let _ = codec.decode::<EventsCommitted>(record);
    let _ = codec.decode_request(record);
    let _ = codec.decode_control(record);
    let rejection = Rejection::new(DeadLetterCode::Malformed, "", "");
    let letter = codec.dead_letter(record, &rejection, 1, "test");
    let back = codec.decode_dead_letter(&arrived(letter)).unwrap();
    assert_eq!(&back.record, record);
}

fn raw(value: Vec<u8>) -> Inbound {
    Inbound {
        topic: "turnwright.turns.v1".to_owned(),
        partition: 0,
        offset: 0,
        timestamp_ms: 0,
        key: Some(Uuid::nil().to_string().into_bytes()),
        value: Some(value),
        headers: Vec::new(),
    }
}

/// One valid record of each kind.
fn records(codec: &Codec, seed: u64) -> Vec<Inbound> {
    let mut dice = Dice(seed);
    let outbound = [
        codec.encode(&dice.turn_ready(), nil(), None),
        codec.encode(&dice.decision_proposed(), nil(), None),
        codec.encode(&dice.verdict(), nil(), None),
        codec.encode(&dice.tool_call_dispatched(), nil(), None),
        codec.encode(&dice.tool_call_settled(), nil(), None),
        codec.encode(&dice.effect_queried(), nil(), None),
        codec.encode(&dice.effect_answered(), nil(), None),
        codec.encode(&dice.run_ended(), nil(), None),
        codec.encode(&dice.events_committed(), nil(), None),
        codec.encode_request(&dice.request(), WireFormat::Json),
        codec.encode_request(&dice.request(), WireFormat::Avro),
        codec.encode_control(&dice.control(), WireFormat::Json),
        codec.encode_control(&dice.control(), WireFormat::Avro),
    ];
    outbound.into_iter().map(|record| arrived(record.unwrap())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read_every_way(&codec(PublicWire::Avro), &raw(bytes));
    }

    #[test]
    fn random_text_that_starts_like_json_is_refused_without_a_panic(text in "\\{[\\[\\]{}\":,a-z0-9\\\\ ]{0,200}") {
        read_every_way(&codec(PublicWire::Json), &raw(text.into_bytes()));
    }

    #[test]
    fn random_bytes_behind_a_known_header_are_refused_without_a_panic(
        seed: u64,
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let codec = codec(PublicWire::Avro);
        for record in records(&codec, seed) {
            let mut value = record.value.clone().unwrap();
            value.truncate(10);
            value.extend_from_slice(&bytes);
            read_every_way(&codec, &Inbound { value: Some(value), ..record });
        }
    }

    #[test]
    fn mutated_records_are_read_or_refused_without_a_panic(
        seed: u64,
        at in any::<proptest::sample::Index>(),
        byte: u8,
        cut in any::<proptest::sample::Index>(),
    ) {
        for public in [PublicWire::Avro, PublicWire::Json] {
            let codec = codec(public);
            for record in records(&codec, seed) {
                let mut value = record.value.clone().unwrap();
                let place = at.index(value.len());
                value[place] = byte;
                read_every_way(&codec, &Inbound { value: Some(value.clone()), ..record.clone() });
                value.truncate(cut.index(value.len() + 1));
                read_every_way(&codec, &Inbound { value: Some(value), ..record });
            }
        }
    }
}

#[test]
fn a_length_beyond_the_record_allocates_nothing_and_is_malformed() {
    let codec = codec(PublicWire::Avro);
    let record = records(&codec, 1).remove(0);
    let mut value = record.value.clone().unwrap();
    value.truncate(10);
    // The tenant's length: 2^62.
    value.extend_from_slice(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]);
    let refused = codec.decode::<TurnReady>(&Inbound { value: Some(value), ..record }).unwrap_err();
    assert_eq!(refused.code, DeadLetterCode::Malformed);
}

#[test]
fn an_absent_value_a_wrong_framing_and_trailing_bytes_are_malformed() {
    let codec = codec(PublicWire::Avro);
    let record = records(&codec, 1).remove(0);
    let code =
        |value: Option<Vec<u8>>| codec.decode::<TurnReady>(&Inbound { value, ..record.clone() }).unwrap_err().code;
    assert_eq!(code(None), DeadLetterCode::Malformed);
    assert_eq!(code(Some(Vec::new())), DeadLetterCode::Malformed);
    assert_eq!(code(Some(b"{}".to_vec())), DeadLetterCode::Malformed);
    let mut longer = record.value.clone().unwrap();
    longer.push(0);
    assert_eq!(code(Some(longer)), DeadLetterCode::Malformed);
}

#[test]
fn another_schema_and_an_unknown_registry_id_are_unknown_versions() {
    let codec = codec(PublicWire::Avro);
    let records = records(&codec, 1);
    let refused = codec.decode::<Verdict>(&records[0]).unwrap_err();
    assert_eq!(refused.code, DeadLetterCode::UnknownVersion);
    assert!(refused.message.contains("TurnReady"), "{refused}");
    let mut value = records[0].value.clone().unwrap();
    value[5] ^= 0xFF;
    let refused = codec.decode::<TurnReady>(&Inbound { value: Some(value), ..records[0].clone() }).unwrap_err();
    assert_eq!(refused.code, DeadLetterCode::UnknownVersion);
    let refused = codec.decode::<TurnReady>(&raw(vec![0, 0, 0, 0, 9, 1, 2])).unwrap_err();
    assert_eq!(refused.code, DeadLetterCode::UnknownVersion);
}

#[test]
fn a_key_that_is_absent_or_names_another_invocation_is_a_mismatch() {
    let codec = codec(PublicWire::Avro);
    let record = records(&codec, 1).remove(0);
    for key in [None, Some(b"x".to_vec()), Some(Uuid::nil().to_string().into_bytes())] {
        let refused = codec.decode::<TurnReady>(&Inbound { key, ..record.clone() }).unwrap_err();
        assert_eq!(refused.code, DeadLetterCode::KeyMismatch);
    }
}

#[test]
fn an_event_newer_than_this_build_is_unsupported_and_named() {
    let codec = codec(PublicWire::Json);
    let mut message = Dice(5).events_committed();
    message.events.truncate(1);
    let record = arrived(codec.encode(&message, nil(), None).unwrap());
    let text = String::from_utf8(record.value.clone().unwrap()).unwrap();
    let name = format!("\"type\":\"{}\"", message.events[0].fact.name());
    let text = text.replacen(&name, "\"type\":\"something_of_next_year\"", 1);
    let refused = codec.decode::<EventsCommitted>(&Inbound { value: Some(text.into_bytes()), ..record.clone() });
    let refused = refused.unwrap_err();
    assert_eq!((refused.code, refused.field.as_str()), (DeadLetterCode::Unsupported, "events[].type"));
}

#[test]
fn what_readers_would_refuse_is_refused_before_it_is_published() {
    let codec = codec(PublicWire::Avro);
    let mut dispatch = Dice(5).tool_call_dispatched();
    let deep = |levels: usize| (0..levels).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    dispatch.arguments = deep(32);
    let record = codec.encode(&dispatch, nil(), None).unwrap();
    assert_eq!(codec.decode::<ToolCallDispatched>(&arrived(record)).unwrap(), dispatch);
    dispatch.arguments = deep(33);
    let error = codec.encode(&dispatch, nil(), None).unwrap_err();
    assert_eq!(error.to_string(), "arguments: nested deeper than 32 levels");
    dispatch.arguments = serde_json::json!("x".repeat(Limits::default().bytes));
    let error = codec.encode(&dispatch, nil(), None).unwrap_err();
    assert!(error.to_string().contains(&format!("over the limit of {}", Limits::default().bytes)), "{error}");
}

#[test]
fn a_dead_letter_keeps_the_record_and_cuts_only_what_no_broker_would_take() {
    for public in [PublicWire::Avro, PublicWire::Json] {
        let codec = codec(public);
        let mut record = raw((0..=255).cycle().take(600 * 1024).collect());
        record.key = None;
        record.headers = vec![
            ("traceparent".to_owned(), b"00-a-b-01".to_vec()),
            ("binary".to_owned(), vec![0, 255, 7]),
            ("huge".to_owned(), vec![1; 64 * 1024]),
        ];
        let rejection = Rejection::new(DeadLetterCode::Oversize, "goal", "is too long; shorten it");
        let letter = codec.dead_letter(&record, &rejection, 4, "committer");
        assert_eq!(letter.event_id, codec.dead_letter(&record, &rejection, 5, "other").event_id);
        assert!(letter.value.len() < 1_000_000, "{} bytes", letter.value.len());
        let letter = arrived(letter);
        assert_eq!(letter.header("traceparent"), Some("00-a-b-01"));
        let back = codec.decode_dead_letter(&letter).unwrap();
        assert_eq!((&back.rejection, back.attempts, back.service.as_str()), (&rejection, 4, "committer"));
        assert_eq!(back.value_length, 600 * 1024);
        assert_eq!(back.record.value.as_deref(), record.value.as_ref().map(|value| &value[..512 * 1024]));
        assert_eq!(back.record.headers, record.headers[..2]);
        assert_eq!((back.record.key, back.record.offset), (None, 0));
    }
}
