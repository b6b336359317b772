//! The polling thread: one client from subscription to leaving the group, and a new one when only that helps.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;

use super::context::Context;
use super::ranges;
use super::shared::Shared;
use super::silence::Silence;
use super::window::Place;
use crate::{Error, names};

type Client = BaseConsumer<Context>;

/// How long one poll blocks without a record. A record ends it at once; this bounds only how late a stop or a resume is seen.
const POLL: Duration = Duration::from_millis(20);
/// The rest between two clients, and between two looks for lost records while the broker does not answer.
const REST: Duration = Duration::from_millis(500);

/// Runs clients until the service stops. Blocks its thread.
pub(super) fn run(shared: &Arc<Shared>) -> Result<(), Error> {
    let mut silence = Silence::default();
    while !shared.is_stopping() {
        shared.begin_session();
        session(shared, &mut silence)?;
        shared.health.set_joined(false);
        if !shared.is_stopping() {
            std::thread::sleep(REST);
        }
    }
    shared.fatal().map_or(Ok(()), |message| Err(Error::Fatal(message)))
}

fn session(shared: &Arc<Shared>, silence: &mut Silence) -> Result<(), Error> {
    let settings = crate::client::consumer(&shared.config.kafka, &shared.service);
    let client = Client::from_config_and_context(&settings, Context::new(Arc::clone(shared)))?;
    let topics: Vec<&str> = shared.topics.iter().map(String::as_str).collect();
    client.subscribe(&topics)?;
    std::thread::scope(|scope| {
        // Dropping the senders ends the helpers.
        let (stop_watching, stopped_watching) = mpsc::channel();
        let (stop_committing, stopped_committing) = mpsc::channel();
        scope.spawn(|| watch(shared, &client, silence, stopped_watching));
        scope.spawn(|| commit(shared, &client, stopped_committing));
        poll(shared, &client);
        // Nothing new starts while the helpers end.
        let places = shared.window().places();
        shared.stop(&places);
        drop((stop_watching, stop_committing));
    });
    drain(shared, &client);
    // Dropping the client leaves the group and waits for its last callbacks.
    drop(client);
    Ok(())
}

fn poll(shared: &Arc<Shared>, client: &Client) {
    let mut next_repair: Option<Instant> = None;
    while !shared.is_stopping() && !shared.needs_rebuild() {
        shared.health.beat();
        match client.poll(POLL) {
            Some(Ok(message)) => take(shared, client, &message),
            Some(Err(error)) => {
                if is_reset(&error) {
                    next_repair = Some(Instant::now());
                }
                report(shared, &error);
            }
            None => {}
        }
        let now = Instant::now();
        if next_repair.is_some_and(|at| now >= at) {
            next_repair = if ranges::repair(shared, client) { None } else { Some(now + REST) };
        }
        let resumable = shared.window().take_resumable();
        set_paused(shared, client, &resumable, false);
    }
}

/// Commits finished offsets at every interval. On its own thread, because each commit waits for its answer.
fn commit(shared: &Shared, client: &Client, stopped: mpsc::Receiver<()>) {
    let every = Duration::from_millis(shared.config.runtime.commit_interval_ms);
    while stopped.recv_timeout(every) == Err(mpsc::RecvTimeoutError::Timeout) {
        client.context().commit(client);
        let window = shared.window();
        let (depth, in_flight) = (window.depth(), window.in_flight_keys());
        drop(window);
        shared.metrics.set(names::QUEUE_DEPTH, depth as u64, &[]);
        shared.metrics.set(names::IN_FLIGHT, in_flight as u64, &[]);
    }
}

fn take(shared: &Arc<Shared>, client: &Client, message: &BorrowedMessage<'_>) {
    let record = super::inbound(message);
    let place = (record.topic.clone(), record.partition);
    if shared.arrive(record) {
        shared.metrics.count(names::PAUSES, &[("topic", &place.0)]);
        set_paused(shared, client, &[place], true);
    }
}

fn set_paused(shared: &Shared, client: &Client, places: &[Place], paused: bool) {
    if places.is_empty() {
        return;
    }
    let mut list = TopicPartitionList::with_capacity(places.len());
    for (topic, partition) in places {
        list.add_partition(topic, *partition);
    }
    let done = if paused { client.pause(&list) } else { client.resume(&list) };
    if let Err(error) = done {
        // A partition that stays paused is a partition that is never read again.
        tracing::error!(service = shared.service, %error, paused, "pausing or resuming failed; rebuilding the consumer");
        shared.ask_rebuild();
    }
}

fn is_reset(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset)
}

fn report(shared: &Shared, error: &KafkaError) {
    match error {
        KafkaError::PartitionEOF(_) => {}
        KafkaError::MessageConsumptionFatal(_) => shared.fail(format!("the consumer cannot go on: {error}")),
        _ => tracing::warn!(service = shared.service, %error, "librdkafka reports an error and goes on by itself"),
    }
}

/// Lets what is in flight finish under the deadline, commits what finished. Polling goes on, so the member stays alive.
fn drain(shared: &Arc<Shared>, client: &Client) {
    let places = shared.window().places();
    shared.stop(&places);
    set_paused(shared, client, &places, true);
    let timeout = if shared.is_stopping() {
        shared.config.runtime.drain_timeout_ms
    } else {
        shared.config.runtime.revoke_timeout_ms
    };
    let deadline = Instant::now() + Duration::from_millis(timeout);
    while !shared.wait_settled(&places, Duration::from_millis(50)) && Instant::now() < deadline {
        serve(shared, client);
    }
    let left = shared.window().in_flight_of(&places);
    if left > 0 {
        tracing::warn!(
            service = shared.service,
            records = left,
            "the drain deadline is over; they will be delivered again"
        );
    }
    shared.end_drain();
    client.context().commit_last(client, &places);
}

/// Serves callbacks; a record that still comes is dropped, to be delivered again.
fn serve(shared: &Shared, client: &Client) {
    shared.health.beat();
    if let Some(Err(error)) = client.poll(Duration::ZERO) {
        report(shared, &error);
    }
}

/// Looks for partitions with lag that deliver nothing. Asks the broker, hence on its own thread.
fn watch(shared: &Shared, client: &Client, silence: &mut Silence, stopped: mpsc::Receiver<()>) {
    let after = Duration::from_millis(shared.config.runtime.silence_ms);
    let timeout = Duration::from_secs(1);
    while stopped.recv_timeout(after / 2) == Err(mpsc::RecvTimeoutError::Timeout) {
        let quiet = shared.window().quiet(shared.now());
        for quiet in quiet.iter().filter(|quiet| quiet.since >= after) {
            // A broker that does not answer is no proof against the consumer.
            let Ok((low, high)) = client.fetch_watermarks(&quiet.topic, quiet.partition, timeout) else {
                continue;
            };
            if silence.is_silent(quiet, low, high, after) {
                let position = quiet.position.unwrap_or(low);
                tracing::error!(
                    service = shared.service,
                    topic = quiet.topic,
                    partition = quiet.partition,
                    position,
                    high,
                    "assigned, with lag, but nothing is delivered; rebuilding the consumer"
                );
                shared.metrics.count(names::SILENT_CONSUMERS, &[("topic", &quiet.topic)]);
                shared.ask_rebuild();
                return;
            }
        }
    }
}
