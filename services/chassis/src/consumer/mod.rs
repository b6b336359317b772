//! The keyed consumer runtime. Every service uses it; none has a consumer loop of its own.
//!
//! One thread polls librdkafka and owns its callbacks; batches run as tasks on the tokio runtime. Between them stands
//! [`window::Window`]. What is absent: no handler runs on the polling thread, no offset is committed by librdkafka
//! itself, no record is skipped without a counter.

mod context;
mod keys;
mod offsets;
mod ranges;
mod session;
mod shared;
mod silence;
mod window;
mod work;

use std::sync::Arc;
use std::time::Duration;

use rdkafka::Message;
use rdkafka::message::Headers;
use schemas::{Inbound, Outbound, Rejection};
use tokio::sync::oneshot;

use crate::{Bus, Config, Error, Handler, Health, Metrics, Shutdown};
use shared::Shared;

/// Makes the dead letter of a record: (record, why, tries, service).
pub type DeadLetters = Arc<dyn Fn(&Inbound, &Rejection, u32, &str) -> Outbound + Send + Sync>;

/// A consumed message in the form that codecs and handlers read.
pub fn inbound(message: &impl Message) -> Inbound {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec())).collect()
    });
    Inbound {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
    }
}

/// What a consumer is made of.
pub struct ConsumerParts {
    /// Names the group, the client, and the metrics' label.
    pub service: String,
    /// Full names of the topics; one group reads them all.
    pub topics: Vec<String>,
    pub handler: Arc<dyn Handler>,
    pub bus: Arc<dyn Bus>,
    pub dead_letters: DeadLetters,
    pub config: Config,
    pub metrics: Metrics,
    pub health: Health,
}

/// One member of a consumer group.
pub struct Consumer {
    parts: ConsumerParts,
}

/// How much longer than the drain itself closing the client may take.
const CLOSE_GRACE: Duration = Duration::from_secs(10);

impl Consumer {
    pub fn new(parts: ConsumerParts) -> Self {
        Self { parts }
    }

    /// Consumes until `shutdown` is set or something is fatal, then drains: what is in flight may finish under the drain
    /// deadline, what finished is committed, the group is left. Must run inside a tokio runtime.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let drain = Duration::from_millis(self.parts.config.runtime.drain_timeout_ms);
        let shared = Arc::new(Shared::new(self.parts, shutdown.clone(), tokio::runtime::Handle::current()));
        let (ended, mut end) = oneshot::channel();
        let name = format!("poll-{}", shared.service);
        std::thread::Builder::new().name(name).spawn(move || {
            // The receiver is gone only when the service has given up on this thread.
            let _ = ended.send(session::run(&shared));
        })?;
        let overdue = async {
            shutdown.triggered().await;
            tokio::time::sleep(drain + CLOSE_GRACE).await;
        };
        tokio::select! {
            result = &mut end => result.unwrap_or_else(|_| Err(Error::Fatal("the polling thread panicked".to_owned()))),
            () = overdue => Err(Error::Fatal("the consumer did not close in time".to_owned())),
        }
    }
}
