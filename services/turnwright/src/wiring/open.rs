//! What a service waits for before it starts: the store, the broker, the schema registry. What is not up yet is waited
//! for and said so; what is wrong is an error that names the setting.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chassis::registry::Registry;
use chassis::{RetryPolicy, Shutdown};
use rdkafka::producer::{BaseProducer, Producer as _};
use schemas::{Codec, RegistryError};
use store::{RedisStore, Store};

use crate::client;
use crate::error::Error;
use crate::settings::{MEMORY_STORE, Settings, redacted};

pub const FILES_FIX: &str = "correct the named keys; `turnwright init DIR` writes a commented set of files";

const RETRY: RetryPolicy = RetryPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(3) };

/// Reads and checks the operator's files.
pub fn read_registry(directory: &Path) -> Result<Arc<Registry>, Error> {
    Registry::read(directory)
        .map_err(|problems| Error::setting("--config (TURNWRIGHT_CONFIG)", format!("\n{problems}"), FILES_FIX))
}

/// Whether to try again after a failure.
enum Try<T> {
    Done(T),
    Later(String),
}

/// Repeats until it is done, something is wrong, or the service is told to stop: then `None`.
async fn wait<T>(
    what: &str,
    shutdown: &Shutdown,
    mut attempt: impl AsyncFnMut() -> Result<Try<T>, Error>,
) -> Result<Option<T>, Error> {
    let mut backoff = RETRY.start();
    while !shutdown.is_triggered() {
        match attempt().await? {
            Try::Done(value) => return Ok(Some(value)),
            Try::Later(why) => tracing::warn!(why, "waiting for {what}"),
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            () = shutdown.triggered() => {}
        }
    }
    Ok(None)
}

/// Opens the store and checks that it keeps what it acknowledges. Waits for one that is not up yet.
pub async fn open_store(settings: &Settings, shutdown: &Shutdown) -> Result<Option<Arc<dyn Store>>, Error> {
    if settings.store == MEMORY_STORE {
        let fix = "name a Redis: a store in memory serves one process only, `turnwright dev --memory`";
        return Err(Error::setting("--store (TURNWRIGHT_STORE)", "`memory:` is no store for `serve`", fix));
    }
    let config = settings.redis();
    let refused = |why: String| Error::Store {
        store: redacted(&settings.store),
        why,
        fix: "mend the named settings of the store or of Turnwright (--store, --shards, --durability); \
              `turnwright doctor` checks them"
            .to_owned(),
    };
    wait("the store", shutdown, async || {
        let opened = async {
            let store = RedisStore::open(&config).await?;
            store.check(settings.durability.into()).await?;
            Ok::<_, store::Error>(store)
        };
        match opened.await {
            Ok(store) => Ok(Try::Done(Arc::new(store) as Arc<dyn Store>)),
            Err(store::Error::Retryable(why)) => Ok(Try::Later(format!("{}: {why}", redacted(&settings.store)))),
            Err(store::Error::Refused(why) | store::Error::Corrupt(why)) => Err(refused(why)),
        }
    })
    .await
}

/// Learns the schema registry's IDs. Waits for one that is not up yet.
pub async fn connect_registry(codec: &Codec, shutdown: &Shutdown) -> Result<Option<()>, Error> {
    wait("the schema registry", shutdown, async || match codec.connect_registry(false).await {
        Ok(()) => Ok(Try::Done(())),
        Err(RegistryError::Unavailable(why)) => Ok(Try::Later(why)),
        Err(error @ (RegistryError::NotRegistered { .. } | RegistryError::Refused { .. })) => {
            let fix = "run `turnwright schema register` first, or correct the address";
            Err(Error::setting("--schema-registry (TURNWRIGHT_SCHEMA_REGISTRY)", error, fix))
        }
    })
    .await
}

/// The Kafka cluster's ID. Waits for a broker that is not up yet.
pub async fn wait_for_cluster(settings: &Settings, shutdown: &Shutdown) -> Result<Option<String>, Error> {
    let client: BaseProducer = client::kafka(settings).create().map_err(|error| settings.kafka_error(error))?;
    let client = Arc::new(client);
    wait("Kafka", shutdown, async || {
        let client = client.clone();
        let asked = tokio::task::spawn_blocking(move || client.client().fetch_cluster_id(Duration::from_secs(2))).await;
        match asked.map_err(|error| Error::failed("the Kafka client's thread", error))? {
            Some(id) => Ok(Try::Done(id)),
            None => Ok(Try::Later(format!("{}: no answer", settings.brokers))),
        }
    })
    .await
}
