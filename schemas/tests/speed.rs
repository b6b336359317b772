//! How long encoding and decoding take: `cargo test --release -p turnwright-schemas --test speed -- --ignored --nocapture`.

mod samples;

use std::time::Instant;

use protocol::*;
use samples::{Dice, arrived, codec};
use turnwright_schemas::{PublicWire, WireMessage};
use uuid::Uuid;

fn measure<M: WireMessage>(name: &str, message: &M) {
    const ROUNDS: u32 = 20_000;
    let codec = codec(PublicWire::Avro);
    let id = EventId(Uuid::nil());
    let record = arrived(codec.encode(message, id, None).unwrap());
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| drop(std::hint::black_box(codec.encode(message, id, Some(1_733_061_586_005)))));
    let encode = start.elapsed() / ROUNDS;
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| drop(std::hint::black_box(codec.decode::<M>(&record))));
    let decode = start.elapsed() / ROUNDS;
    let bytes = record.value.as_ref().map_or(0, Vec::len);
    println!("{name:20} {bytes:5} bytes  encode {encode:>9.2?}  decode {decode:>9.2?}");
}

#[test]
#[ignore = "measures; asserts nothing"]
fn encode_and_decode_of_each_message() {
    let mut dice = Dice(11);
    measure("TurnReady", &dice.turn_ready());
    measure("DecisionProposed", &dice.decision_proposed());
    measure("Verdict", &dice.verdict());
    measure("ToolCallDispatched", &dice.tool_call_dispatched());
    measure("ToolCallSettled", &dice.tool_call_settled());
    measure("EffectQueried", &dice.effect_queried());
    measure("EffectAnswered", &dice.effect_answered());
    measure("RunEnded", &dice.run_ended());
    measure("EventsCommitted", &dice.events_committed());
}
