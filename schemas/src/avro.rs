//! The schemas, parsed once, and the reading and writing of one datum. Knows no framing but the single-object header.

use std::sync::{Arc, LazyLock};

use apache_avro::Schema;
use apache_avro::headers::{HeaderBuilder, RabinFingerprintHeader};
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::writer::datum::GenericDatumWriter;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::MAX_RECORD_BYTES;
use crate::{Topic, history};

/// The single-object header: the marker, then the schema's fingerprint.
pub(crate) const HEADER_BYTES: usize = 10;
pub(crate) const SINGLE_OBJECT_MARKER: [u8; 2] = [0xC3, 0x01];

/// A schema in use: ours of a topic, or one that somebody else wrote with.
#[derive(Debug)]
pub(crate) struct Writer {
    pub schema: Schema,
    pub header: [u8; HEADER_BYTES],
}

impl Writer {
    pub fn parse(text: &str) -> Result<Self, apache_avro::Error> {
        let schema = Schema::parse_str(text)?;
        let built = RabinFingerprintHeader::from_schema(&schema).build_header();
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&built);
        Ok(Self { schema, header })
    }
}

struct Ours {
    writer: &'static Writer,
    encoder: GenericDatumWriter<'static>,
    decoder: GenericDatumReader<'static>,
    past: Vec<Arc<Writer>>,
}

static WRITERS: LazyLock<Vec<Writer>> = LazyLock::new(|| {
    let parse = |topic: Topic| Writer::parse(topic.schema_text()).expect("a schema of this crate parses");
    Topic::ALL.into_iter().map(parse).collect()
});

static OURS: LazyLock<Vec<Ours>> = LazyLock::new(|| {
    // One Avro length can make us allocate no more than a whole record may have.
    apache_avro::util::max_allocation_bytes(MAX_RECORD_BYTES);
    let past = |topic| {
        let texts = history::PAST.iter().filter(move |(past, _)| *past == topic);
        texts.map(|(_, text)| Arc::new(Writer::parse(text).expect("a schema of the history parses"))).collect()
    };
    let ours = |(topic, writer): (Topic, &'static Writer)| Ours {
        writer,
        encoder: GenericDatumWriter::builder(&writer.schema)
            .human_readable(false)
            .build()
            .expect("a schema of this crate resolves"),
        decoder: GenericDatumReader::builder(&writer.schema)
            .human_readable(false)
            .build()
            .expect("a schema of this crate resolves"),
        past: past(topic),
    };
    Topic::ALL.into_iter().zip(WRITERS.iter()).map(ours).collect()
});

fn ours(topic: Topic) -> &'static Ours {
    &OURS[topic as usize]
}

/// The single-object header of a topic's current schema.
pub(crate) fn header(topic: Topic) -> &'static [u8; HEADER_BYTES] {
    &ours(topic).writer.header
}

/// The topic whose current schema has this header.
pub(crate) fn topic_of(header: &[u8]) -> Option<Topic> {
    Topic::ALL.into_iter().find(|topic| ours(*topic).writer.header == header)
}

/// An earlier schema of the topic, by its header.
pub(crate) fn past(topic: Topic, header: &[u8]) -> Option<Arc<Writer>> {
    ours(topic).past.iter().find(|writer| writer.header == header).cloned()
}

/// Appends the datum to `out`.
pub(crate) fn write<T: Serialize>(topic: Topic, datum: &T, out: &mut Vec<u8>) -> Result<(), apache_avro::Error> {
    ours(topic).encoder.write_ser(out, datum).map(|_| ())
}

/// Reads the datum that `bytes` start with and leaves the rest in it. `writer` is the schema it was written with when
/// that is not ours; reading then resolves field by field, which is several times slower.
pub(crate) fn read<T: DeserializeOwned>(
    topic: Topic,
    writer: Option<&Writer>,
    bytes: &mut &[u8],
) -> Result<T, apache_avro::Error> {
    let ours = ours(topic);
    match writer {
        Some(writer) if writer.header != ours.writer.header => {
            let reader = GenericDatumReader::builder(&writer.schema).reader_schema(&ours.writer.schema).build()?;
            apache_avro::from_value(&reader.read_value(bytes)?)
        }
        Some(_) | None => ours.decoder.read_deser(bytes),
    }
}
