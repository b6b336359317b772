//! The registry path, against a small registry that speaks as much of Confluent's API as we use.

mod samples;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use protocol::{EventId, RunEnded, TurnReady};
use samples::{Dice, arrived};
use serde_json::{Value, json};
use turnwright_schemas::{
    Codec, CodecConfig, DeadLetterCode, EncodeError, Inbound, PublicWire, RegistryError, Topic, subject,
};
use uuid::Uuid;

#[derive(Default)]
struct Schemas {
    /// By ID - 1.
    texts: Vec<String>,
    subjects: HashMap<String, Vec<u32>>,
    requests: usize,
}

impl Schemas {
    fn id(&mut self, text: &str) -> u32 {
        let at = self.texts.iter().position(|known| known == text).unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        });
        u32::try_from(at).unwrap() + 1
    }

    fn answer(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.requests += 1;
        let text = || serde_json::from_str::<Value>(body).unwrap()["schema"].as_str().unwrap().to_owned();
        let absent = (404, json!({"error_code": 40403, "message": "not found"}));
        let path = path.split('?').next().unwrap();
        match (method, path.split('/').skip(1).collect::<Vec<_>>().as_slice()) {
            ("GET", ["schemas", "ids", id]) => match self.texts.get(id.parse::<usize>().unwrap() - 1) {
                Some(text) => (200, json!({ "schema": text })),
                None => absent,
            },
            ("POST", ["subjects", subject, "versions"]) => {
                let id = self.id(&text());
                self.subjects.entry((*subject).to_owned()).or_default().push(id);
                (200, json!({ "id": id }))
            }
            ("POST", ["subjects", subject]) => {
                let text = text();
                let ids = self.subjects.get(*subject).cloned().unwrap_or_default();
                let found = ids.into_iter().find(|id| self.texts[*id as usize - 1] == text);
                found.map_or(absent, |id| (200, json!({"subject": subject, "id": id, "version": 1, "schema": text})))
            }
            _ => (405, json!({"error_code": 405, "message": "no such call"})),
        }
    }
}

/// A registry on a free port; it serves until the test's process ends.
fn registry() -> (String, Arc<Mutex<Schemas>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let schemas = Arc::new(Mutex::new(Schemas::default()));
    let shared = Arc::clone(&schemas);
    std::thread::spawn(move || listener.incoming().for_each(|stream| serve(&stream.unwrap(), &shared)));
    (address, schemas)
}

fn serve(stream: &TcpStream, schemas: &Mutex<Schemas>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let start: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        match header.trim().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (status, answer) = schemas.lock().unwrap().answer(&start[0], &start[1], std::str::from_utf8(&body).unwrap());
    let answer = answer.to_string();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\n");
    let _ = (&*stream).write_all(format!("{head}content-length: {}\r\n\r\n{answer}", answer.len()).as_bytes());
}

fn codec(url: &str) -> Codec {
    let registry = Some(url.to_owned());
    Codec::new(CodecConfig { public: PublicWire::Avro, registry, ..CodecConfig::default() })
}

fn nil() -> EventId {
    EventId(Uuid::nil())
}

#[tokio::test]
async fn schemas_are_registered_found_and_used_in_confluent_framing() {
    let (url, schemas) = registry();
    let (admin, service) = (codec(&url), codec(&url));
    let absent = service.connect_registry(false).await.unwrap_err();
    assert_eq!(absent, RegistryError::NotRegistered { subject: "turnwright.invocations.v1-value".to_owned() });
    let early = service.encode(&Dice(1).turn_ready(), nil(), None).unwrap_err();
    assert_eq!(early, EncodeError::Unregistered { record: "TurnReady" });

    admin.connect_registry(true).await.unwrap();
    service.connect_registry(false).await.unwrap();
    let turn = Dice(1).turn_ready();
    let record = arrived(service.encode(&turn, nil(), None).unwrap());
    let id = schemas.lock().unwrap().subjects[&subject(Topic::Turns, "turnwright")][0];
    let value = record.value.as_ref().unwrap();
    assert_eq!((value[0], &value[1..5]), (0, id.to_be_bytes().as_slice()));
    assert_eq!(admin.decode::<TurnReady>(&record).unwrap(), turn);
    assert!(schemas.lock().unwrap().texts.iter().all(|text| !text.contains('$')));
}

#[tokio::test]
async fn single_object_encoding_is_read_with_a_registry_too() {
    let (url, _) = registry();
    let turn = Dice(2).turn_ready();
    let record = samples::codec(PublicWire::Avro).encode(&turn, nil(), None).unwrap();
    assert_eq!(codec(&url).decode::<TurnReady>(&arrived(record)).unwrap(), turn);
}

#[tokio::test]
async fn a_foreign_writer_schema_is_learnt_once_and_resolved_to_ours() {
    let (url, schemas) = registry();
    let writer = codec(&url);
    writer.connect_registry(true).await.unwrap();
    let ended = Dice(3).run_ended();
    let record = arrived(writer.encode(&ended, nil(), None).unwrap());

    // A writer of next year: one more field at the end, one more terminal reason.
    let mut newer: Value = serde_json::from_str(Topic::Terminals.schema_text()).unwrap();
    let fields = newer["fields"].as_array_mut().unwrap();
    let reason = fields.iter_mut().find(|field| field["name"] == "reason").unwrap();
    reason["type"]["symbols"].as_array_mut().unwrap().push(json!("bored"));
    fields.push(json!({"name": "mood", "type": "string", "default": ""}));
    let id = schemas.lock().unwrap().id(&newer.to_string());
    let mut value = vec![0];
    value.extend_from_slice(&id.to_be_bytes());
    value.extend_from_slice(&record.value.as_ref().unwrap()[5..]);
    value.extend_from_slice(&[4, b'o', b'k']);
    let foreign = Inbound { value: Some(value), ..record };

    let reader = codec(&url);
    assert_eq!(reader.decode::<RunEnded>(&foreign).unwrap_err().code, DeadLetterCode::UnknownVersion);
    let asked = schemas.lock().unwrap().requests;
    reader.learn(std::slice::from_ref(&foreign)).await.unwrap();
    reader.learn(std::slice::from_ref(&foreign)).await.unwrap();
    assert_eq!(schemas.lock().unwrap().requests, asked + 1);
    assert_eq!(reader.decode::<RunEnded>(&foreign).unwrap(), ended);
}

#[tokio::test]
async fn an_id_that_the_registry_does_not_have_is_an_unknown_version_and_asked_for_once() {
    let (url, schemas) = registry();
    let reader = codec(&url);
    let record = arrived(samples::codec(PublicWire::Avro).encode(&Dice(4).turn_ready(), nil(), None).unwrap());
    let unknown = Inbound { value: Some(vec![0, 0, 0, 0, 99, 1]), ..record };
    for _ in 0..3 {
        reader.learn(std::slice::from_ref(&unknown)).await.unwrap();
        assert_eq!(reader.decode::<TurnReady>(&unknown).unwrap_err().code, DeadLetterCode::UnknownVersion);
    }
    assert_eq!(schemas.lock().unwrap().requests, 1);
}

#[tokio::test]
async fn an_unreachable_registry_is_worth_another_try() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = codec(&format!("http://{closed}")).connect_registry(false).await.unwrap_err();
    assert!(matches!(error, RegistryError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn without_a_registry_connecting_and_learning_do_nothing() {
    let codec = samples::codec(PublicWire::Avro);
    codec.connect_registry(true).await.unwrap();
    codec.learn(&[]).await.unwrap();
}

/// A terminal record as a writer of next year sends it, with a reason of its own; its schema has ID `id`.
fn of_next_year(schemas: &Mutex<Schemas>, record: &Inbound, reason: &str) -> Inbound {
    use apache_avro::reader::datum::GenericDatumReader;
    use apache_avro::types::Value as Datum;
    use apache_avro::writer::datum::GenericDatumWriter;
    let mut newer: Value = serde_json::from_str(Topic::Terminals.schema_text()).unwrap();
    let fields = newer["fields"].as_array_mut().unwrap();
    let symbols = &mut fields.iter_mut().find(|field| field["name"] == "reason").unwrap()["type"]["symbols"];
    symbols.as_array_mut().unwrap().push(json!("bored"));
    let at = symbols.as_array().unwrap().iter().position(|symbol| symbol == reason).unwrap();
    let ours = apache_avro::Schema::parse_str(Topic::Terminals.schema_text()).unwrap();
    let theirs = apache_avro::Schema::parse_str(&newer.to_string()).unwrap();
    let mut bytes = &record.value.as_ref().unwrap()[5..];
    let mut datum = GenericDatumReader::builder(&ours).build().unwrap().read_value(&mut bytes).unwrap();
    let Datum::Record(fields) = &mut datum else { panic!("not a record") };
    let field = fields.iter_mut().find(|(name, _)| name == "reason").unwrap();
    field.1 = Datum::Enum(u32::try_from(at).unwrap(), reason.to_owned());
    let mut value = vec![0];
    value.extend_from_slice(&schemas.lock().unwrap().id(&newer.to_string()).to_be_bytes());
    GenericDatumWriter::builder(&theirs).build().unwrap().write_value_ref(&mut value, &datum).unwrap();
    Inbound { value: Some(value), ..record.clone() }
}

#[tokio::test]
async fn a_symbol_newer_than_its_reader_is_unsupported_and_known_ones_are_read() {
    let (url, schemas) = registry();
    let codec = codec(&url);
    codec.connect_registry(true).await.unwrap();
    let record = arrived(codec.encode(&Dice(5).run_ended(), nil(), None).unwrap());
    let (known, newer) = (of_next_year(&schemas, &record, "max_steps"), of_next_year(&schemas, &record, "bored"));
    codec.learn(&[known.clone(), newer.clone()]).await.unwrap();
    assert_eq!(codec.decode::<RunEnded>(&known).unwrap().reason, protocol::TerminalReason::MaxSteps);
    let refused = codec.decode::<RunEnded>(&newer).unwrap_err();
    assert_eq!((refused.code, refused.field.as_str()), (DeadLetterCode::Unsupported, "reason"));
}

#[tokio::test]
async fn mutated_records_of_a_foreign_schema_are_read_or_refused_without_a_panic() {
    let (url, schemas) = registry();
    let codec = codec(&url);
    codec.connect_registry(true).await.unwrap();
    let mut dice = Dice(6);
    for _ in 0..20 {
        let record = arrived(codec.encode(&dice.run_ended(), nil(), None).unwrap());
        let foreign = of_next_year(&schemas, &record, "completed");
        codec.learn(std::slice::from_ref(&foreign)).await.unwrap();
        for _ in 0..200 {
            let mut value = foreign.value.clone().unwrap();
            let at = 5 + usize::try_from(dice.below(value.len() as u64 - 5)).unwrap();
            value[at] = dice.roll() as u8;
            let _ = codec.decode::<RunEnded>(&Inbound { value: Some(value), ..foreign.clone() });
        }
    }
}

#[test]
fn a_handler_may_hold_the_codec_and_await_the_registry() {
    fn sendable<T: Send>(_: T) {}
    fn shareable<T: Send + Sync>(_: &T) {}
    let codec = samples::codec(PublicWire::Avro);
    shareable(&codec);
    sendable(codec.learn(&[]));
    sendable(codec.connect_registry(false));
}
