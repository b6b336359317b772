//! librdkafka's callbacks. They run on the polling thread, inside a poll.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};

use super::shared::Shared;
use super::window::Place;
use crate::names;

/// How long one question for committed offsets may take, and how often it is asked before the client is rebuilt.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(3);
const COMMITTED_TRIES: u32 = 3;

pub(super) struct Context {
    shared: Arc<Shared>,
}

impl Context {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Commits what became committable and waits for the answer, at most about a session timeout. What failed is handed
    /// out again at the next call. Synchronous, because the client reports no result of an asynchronous commit, and one
    /// that failed in a rebalance unseen would never be repeated.
    pub(super) fn commit(&self, consumer: &BaseConsumer<Self>) {
        let commits = self.shared.window().take_commits();
        if commits.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::with_capacity(commits.len());
        for ((topic, partition), offset) in &commits {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))
                .expect("an offset above zero is representable");
        }
        if let Err(error) = consumer.commit(&list, CommitMode::Sync) {
            tracing::warn!(service = self.shared.service, %error, partitions = commits.len(), "an offset commit failed");
            self.shared.metrics.count(names::COMMIT_FAILURES, &[]);
            let failed: Vec<Place> = commits.into_iter().map(|(place, _)| place).collect();
            self.shared.window().commit_failed(&failed);
        }
    }

    /// The last commit of these partitions: also repeats what another thread may be committing right now.
    pub(super) fn commit_last(&self, consumer: &BaseConsumer<Self>, places: &[Place]) {
        self.shared.window().commit_failed(places);
        self.commit(consumer);
    }

    fn assigned(&self, consumer: &BaseConsumer<Self>, list: &mut TopicPartitionList) {
        self.shared.metrics.count(names::REBALANCES, &[("kind", "assign")]);
        let starts = self.starts(consumer, list);
        for ((topic, partition), start) in &starts {
            let offset = start.map_or(Offset::Beginning, Offset::Offset);
            list.set_partition_offset(topic, *partition, offset).expect("the partition is in the list it came from");
        }
        let done = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.assign(list),
        };
        if let Err(error) = done {
            tracing::error!(service = self.shared.service, %error, "the assignment was refused; rebuilding the consumer");
            self.shared.ask_rebuild();
        }
        let now = self.shared.now();
        let mut window = self.shared.window();
        for (place, start) in starts {
            window.assign(place, start, now);
        }
        tracing::info!(service = self.shared.service, assigned = window.places().len(), "partitions assigned");
        drop(window);
        self.shared.health.set_joined(true);
    }

    /// Where each partition starts: at the group's offset, or at the beginning of the log where the group has none.
    /// Asked here rather than left to `auto.offset.reset`, which cannot tell a new group from lost records.
    fn starts(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) -> Vec<(Place, Option<i64>)> {
        if list.count() == 0 {
            return Vec::new();
        }
        for _ in 0..COMMITTED_TRIES {
            self.shared.health.beat();
            match consumer.committed_offsets(list.clone(), COMMITTED_TIMEOUT) {
                Ok(found) if found.elements().iter().all(|element| element.error().is_ok()) => {
                    let starts = found.elements().into_iter().map(|element| {
                        let start = match element.offset() {
                            Offset::Offset(offset) => Some(offset),
                            _ => None,
                        };
                        ((element.topic().to_owned(), element.partition()), start)
                    });
                    return starts.collect();
                }
                Ok(_) => tracing::warn!(service = self.shared.service, "some committed offsets could not be read"),
                Err(error) => tracing::warn!(service = self.shared.service, %error, "reading committed offsets failed"),
            }
        }
        // Nothing may be consumed from an unknown position: nothing is taken in, and a new client asks again.
        self.shared.ask_rebuild();
        Vec::new()
    }

    fn revoked(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        self.shared.metrics.count(names::REBALANCES, &[("kind", "revoke")]);
        let places = places(list);
        self.shared.stop(&places);
        // A lost assignment belongs to others already: waiting would only delay them, and a commit would be refused.
        if !consumer.assignment_lost() {
            let timeout = Duration::from_millis(self.shared.config.runtime.revoke_timeout_ms);
            if !self.shared.is_drained() && !self.shared.wait_settled(&places, timeout) {
                tracing::warn!(service = self.shared.service, "revoked with work in flight; its results come too late");
            }
            self.commit_last(consumer, &places);
        }
        let mut window = self.shared.window();
        places.iter().for_each(|place| window.remove(place));
        tracing::info!(service = self.shared.service, revoked = places.len(), "partitions revoked");
        drop(window);
        let done = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
        };
        if let Err(error) = done {
            tracing::error!(service = self.shared.service, %error, "the revocation was refused; rebuilding the consumer");
            self.shared.ask_rebuild();
        }
    }
}

fn places(list: &TopicPartitionList) -> Vec<Place> {
    list.elements().iter().map(|element| (element.topic().to_owned(), element.partition())).collect()
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        crate::client::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        crate::client::log_error(&error, reason);
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, kind: RDKafkaRespErr, list: &mut TopicPartitionList) {
        match kind {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => self.assigned(consumer, list),
            _ => self.revoked(consumer, list),
        }
    }
}
