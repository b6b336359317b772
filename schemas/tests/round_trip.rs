//! Every message comes back as it went, in every format its topic may have.

mod samples;

use std::collections::BTreeSet;

use proptest::prelude::*;
use protocol::{EventId, Message, Outgoing};
use samples::{Dice, FACTS, arrived, codec};
use turnwright_schemas::{PublicWire, Topic, WireFormat, WireMessage, headers};
use uuid::Uuid;

fn comes_back<M: WireMessage + PartialEq + std::fmt::Debug>(message: &M) {
    for public in [PublicWire::Avro, PublicWire::Json] {
        let codec = codec(public);
        let record = codec.encode(message, EventId(Uuid::nil()), Some(0)).unwrap();
        assert_eq!(record, codec.encode(message, EventId(Uuid::nil()), Some(0)).unwrap(), "publishing again repeats");
        let back: M = codec.decode(&arrived(record)).unwrap_or_else(|rejection| panic!("{rejection}\n{message:?}"));
        assert_eq!(&back, message);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn messages_come_back(seed: u64) {
        let mut dice = Dice(seed);
        comes_back(&dice.turn_ready());
        comes_back(&dice.decision_proposed());
        comes_back(&dice.verdict());
        comes_back(&dice.tool_call_dispatched());
        comes_back(&dice.tool_call_settled());
        comes_back(&dice.effect_queried());
        comes_back(&dice.effect_answered());
        comes_back(&dice.run_ended());
        comes_back(&dice.events_committed());
    }

    #[test]
    fn events_keep_their_hash(seed: u64) {
        let event = Dice(seed).events_committed();
        for public in [PublicWire::Avro, PublicWire::Json] {
            let codec = codec(public);
            let record = codec.encode(&event, EventId(Uuid::nil()), None).unwrap();
            let back: protocol::EventsCommitted = codec.decode(&arrived(record)).unwrap();
            prop_assert!(back.events.iter().all(protocol::Event::is_authentic));
        }
    }

    #[test]
    fn requests_come_back_from_json_and_avro_with_their_digest(seed: u64) {
        let (request, codec) = (Dice(seed).request(), codec(PublicWire::Json));
        for format in [WireFormat::Json, WireFormat::Avro] {
            let record = codec.encode_request(&request, format).unwrap();
            let back = codec.decode_request(&arrived(record)).unwrap();
            prop_assert_eq!(&back, &request);
            prop_assert_eq!(back.digest(), request.digest());
        }
    }

    #[test]
    fn controls_come_back_from_json_and_avro(seed: u64) {
        let (control, codec) = (Dice(seed).control(), codec(PublicWire::Json));
        for format in [WireFormat::Json, WireFormat::Avro] {
            let record = codec.encode_control(&control, format).unwrap();
            prop_assert_eq!(&codec.decode_control(&arrived(record)).unwrap(), &control);
        }
    }
}

#[test]
fn every_kind_of_fact_comes_back() {
    let mut names = BTreeSet::new();
    for kind in 0..FACTS {
        let mut dice = Dice(kind as u64);
        let mut message = dice.events_committed();
        message.events[0].fact = dice.fact(kind);
        names.insert(message.events[0].fact.name());
        comes_back(&message);
    }
    assert_eq!(names.len(), FACTS, "{names:?}");
}

#[test]
fn the_largest_exact_numbers_stay_exact() {
    let mut message = Dice(1).events_committed();
    let exact = serde_json::json!({"order_id": protocol::MAX_EXACT_INTEGER, "rate": 0.1 + 0.2});
    let mut dispatch = Dice(1).tool_call_dispatched();
    dispatch.arguments = exact.clone();
    comes_back(&dispatch);
    message.events[0].fact = protocol::Fact::Ended {
        segment: protocol::Segment(1),
        reason: protocol::TerminalReason::Completed,
        answer: Some(exact),
        detail: String::new(),
    };
    comes_back(&message);
}

#[test]
fn headers_are_cloud_events_in_binary_mode() {
    let (codec, mut dice) = (codec(PublicWire::Json), Dice(7));
    let ended = dice.run_ended();
    let outgoing = Outgoing { event_id: EventId(dice.uuid()), message: Message::RunEnded(Box::new(ended.clone())) };
    let record = codec.encode_message(&outgoing).unwrap();
    assert_eq!((record.topic, record.event_id), (Topic::Terminals, outgoing.event_id));
    assert_eq!(record.key, ended.scope.invocation_id.to_string().into_bytes());
    let arrived = arrived(record);
    assert_eq!(arrived.header(headers::CE_ID), Some(outgoing.event_id.to_string().as_str()));
    assert_eq!(arrived.header(headers::CE_TYPE), Some("turnwright.RunEnded.v1"));
    assert_eq!(arrived.header(headers::CE_SPECVERSION), Some("1.0"));
    assert_eq!(arrived.header(headers::CE_SOURCE), Some("turnwright"));
    assert_eq!(arrived.header(headers::CE_SUBJECT), Some(ended.scope.invocation_id.to_string().as_str()));
    assert_eq!(arrived.header(headers::CONTENT_TYPE), Some("application/json"));
    let time: jiff::Timestamp = arrived.header(headers::CE_TIME).unwrap().parse().unwrap();
    assert_eq!(time.as_millisecond(), ended.ended_at.0);
    let value: serde_json::Value = serde_json::from_slice(arrived.value.as_ref().unwrap()).unwrap();
    assert_eq!(value["reason"], ended.reason.as_str());
    assert_eq!(value.get("answer").filter(|answer| !answer.is_null()), ended.answer.as_ref());
}

#[test]
fn internal_topics_are_avro_whatever_public_ones_are() {
    let codec = codec(PublicWire::Json);
    let record = codec.encode(&Dice(3).turn_ready(), EventId(Uuid::nil()), None).unwrap();
    assert_eq!(record.value[..2], [0xC3, 0x01]);
    assert_eq!(arrived(record).header(headers::CONTENT_TYPE), Some("application/avro"));
}
