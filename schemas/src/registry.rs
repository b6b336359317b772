//! The schema registry (Confluent's API): IDs of our schemas, and the schemas of foreign IDs. Only start-up and
//! [`crate::Codec::learn`] talk to it; encoding and decoding read what is known.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use schema_registry_converter::async_impl::schema_registry::{
    SrSettings, get_schema_by_id_and_type, perform_sr_call, post_schema,
};
use schema_registry_converter::error::SRCError;
use schema_registry_converter::schema_registry_common::{SchemaType, SrCall, SuppliedSchema};

use crate::Topic;
use crate::avro::Writer;

/// The most foreign schemas that are remembered; the oldest is forgotten first.
const MAX_LEARNT: usize = 1_024;

/// Why the registry did not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Worth another try.
    #[error("the schema registry does not answer: {0}")]
    Unavailable(String),
    /// Our schema is not there, and this process does not register.
    #[error("the schema registry has no {subject} that equals ours; register the schemas first")]
    NotRegistered { subject: String },
    /// It said no: an incompatible schema, missing rights, a bad address.
    #[error("the schema registry refuses {what}: {why}")]
    Refused { what: String, why: String },
}

pub(crate) struct Registry {
    url: String,
    settings: OnceLock<SrSettings>,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    ids: [Option<u32>; Topic::ALL.len()],
    /// `None`: the registry does not have it.
    schemas: HashMap<u32, Option<Arc<Writer>>>,
    order: VecDeque<u32>,
}

impl Known {
    fn insert(&mut self, id: u32, writer: Option<Arc<Writer>>) {
        if self.schemas.insert(id, writer).is_some() {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_LEARNT
            && let Some(oldest) = self.order.pop_front()
        {
            self.schemas.remove(&oldest);
        }
    }
}

impl Registry {
    pub fn new(url: String) -> Self {
        Self { url, settings: OnceLock::new(), known: RwLock::default() }
    }

    /// The ID of a topic's current schema, once connected.
    pub fn id(&self, topic: Topic) -> Option<u32> {
        self.read().ids[topic as usize]
    }

    /// The schema of an ID, when it was learnt.
    pub fn writer(&self, id: u32) -> Option<Arc<Writer>> {
        self.read().schemas.get(&id).cloned().flatten()
    }

    /// Learns the IDs of our own schemas; registers them first when told to.
    pub async fn connect(&self, prefix: &str, register: bool) -> Result<(), RegistryError> {
        let settings = self.settings()?;
        for topic in Topic::ALL {
            let subject = subject(topic, prefix);
            let schema = published(topic);
            let id = if register {
                let schema = SuppliedSchema::new(Some(topic.record_name().to_owned()), SchemaType::Avro, schema);
                let posted = post_schema(settings, subject.clone(), schema).await;
                posted.map(|registered| registered.id).map_err(|error| failure(&error, &subject))?
            } else {
                let body = serde_json::json!({ "schema": schema, "schemaType": "AVRO" }).to_string();
                let found = perform_sr_call(settings, SrCall::PostForVersion(&subject, &body)).await;
                let found = match found {
                    Err(error) if is_absent(&error) => return Err(RegistryError::NotRegistered { subject }),
                    found => found.map_err(|error| failure(&error, &subject))?,
                };
                let why = || RegistryError::Refused { what: subject.clone(), why: "its answer has no ID".to_owned() };
                found.id.ok_or_else(why)?
            };
            let writer = Writer::parse(topic.schema_text()).expect("a schema of this crate parses");
            let mut known = self.write();
            known.ids[topic as usize] = Some(id);
            known.insert(id, Some(Arc::new(writer)));
        }
        Ok(())
    }

    /// Fetches what of these IDs was never asked for.
    pub async fn learn(&self, ids: impl Iterator<Item = u32>) -> Result<(), RegistryError> {
        for id in ids {
            if self.read().schemas.contains_key(&id) {
                continue;
            }
            let fetched = get_schema_by_id_and_type(id, self.settings()?, SchemaType::Avro).await;
            let writer = match fetched {
                Ok(registered) => Writer::parse(&registered.schema).ok().map(Arc::new),
                Err(error) if is_absent(&error) => None,
                Err(error) => return Err(failure(&error, &format!("schema {id}"))),
            };
            self.write().insert(id, writer);
        }
        Ok(())
    }

    fn settings(&self) -> Result<&SrSettings, RegistryError> {
        if let Some(settings) = self.settings.get() {
            return Ok(settings);
        }
        let built = SrSettings::new_builder(self.url.clone()).build();
        let built = built.map_err(|error| failure(&error, "the client's settings"))?;
        Ok(self.settings.get_or_init(|| built))
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The subject of a topic's values, by TopicNameStrategy.
pub fn subject(topic: Topic, prefix: &str) -> String {
    format!("{}-value", topic.name(prefix))
}

/// The schema's text as it is registered: one line.
fn published(topic: Topic) -> String {
    let schema: serde_json::Value = serde_json::from_str(topic.schema_text()).expect("a schema of this crate is JSON");
    schema.to_string()
}

fn is_absent(error: &SRCError) -> bool {
    error.error.contains("status 404")
}

fn failure(error: &SRCError, what: &str) -> RegistryError {
    let why = error.cause.clone().unwrap_or_else(|| error.error.clone());
    if error.retriable || error.error.contains("status 5") || error.error.contains("status 429") {
        return RegistryError::Unavailable(format!("{what}: {why}"));
    }
    RegistryError::Refused { what: what.to_owned(), why }
}
