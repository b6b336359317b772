//! Partitions whose next record is gone from the log: never skipped silently.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::context::Context;
use super::shared::Shared;
use super::window::Place;
use crate::{OutOfRange, names};

const WATERMARK_TIMEOUT: Duration = Duration::from_secs(2);

/// Finds the partitions whose position is outside the log, counts and reports each, and restarts it at the oldest record
/// that is left (or fails, where the operator chose so). librdkafka's error does not say which partition it means, and it
/// does not say it twice. `false`: not every partition could be asked, so this must be called again.
pub(super) fn repair(shared: &Shared, consumer: &BaseConsumer<Context>) -> bool {
    let mut found = 0;
    let places = shared.window().places();
    for place in &places {
        let Some(Some(position)) = shared.window().position(place) else {
            continue;
        };
        shared.health.beat();
        let (low, high) = match consumer.fetch_watermarks(&place.0, place.1, WATERMARK_TIMEOUT) {
            Ok(marks) => marks,
            Err(error) => {
                tracing::warn!(service = shared.service, topic = place.0, partition = place.1, %error, "no watermarks");
                return false;
            }
        };
        if (low..=high).contains(&position) {
            continue;
        }
        found += 1;
        shared.metrics.count(names::OUT_OF_RANGE, &[("topic", &place.0)]);
        tracing::error!(
            service = shared.service,
            topic = place.0,
            partition = place.1,
            position,
            low,
            high,
            lost = low.saturating_sub(position).max(0),
            "RECORDS ARE GONE: the group's position is outside the log"
        );
        match shared.config.kafka.out_of_range {
            OutOfRange::Stop => shared.fail(format!("{}[{}] is out of range at {position}", place.0, place.1)),
            OutOfRange::Earliest => {
                if let Err(error) = restart(shared, consumer, place) {
                    tracing::error!(service = shared.service, %error, "the restart was refused; rebuilding the consumer");
                    shared.ask_rebuild();
                }
            }
        }
    }
    if found == 0 {
        // What librdkafka had fetched ahead was cut off. It has stopped fetching there, and a new client begins again.
        tracing::warn!(
            service = shared.service,
            "an offset was reset, but every position is inside its log; rebuilding"
        );
        shared.ask_rebuild();
    }
    true
}

/// A seek is refused once librdkafka has stopped fetching a partition, so it is taken out and put in again.
fn restart(shared: &Shared, consumer: &BaseConsumer<Context>, place: &Place) -> KafkaResult<()> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&place.0, place.1, Offset::Beginning)?;
    shared.stop(std::slice::from_ref(place));
    consumer.incremental_unassign(&list)?;
    consumer.incremental_assign(&list)?;
    shared.window().assign(place.clone(), None, shared.now());
    Ok(())
}
