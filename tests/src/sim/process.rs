//! A service process as the chassis runs it, without Kafka: order per key, keys side by side, offsets only as a
//! contiguous prefix and only after the reply is acknowledged, failures handed over again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use chassis::{Bus, Clock, Failure, Handler, Periodic, Reply};
use futures::stream::{FuturesUnordered, StreamExt};
use schemas::{Codec, Inbound};

use super::bus::PARTITIONS;
use super::{SimBus, World};

/// Virtual time as a process's clock.
pub struct SimClock(pub World);

#[async_trait]
impl Clock for SimClock {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.now_ms())
    }

    async fn sleep(&self, duration: Duration) {
        self.0.sleep(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)).await;
    }
}

/// What a consuming process needs.
pub struct Service {
    pub name: &'static str,
    pub world: World,
    pub bus: SimBus,
    pub codec: Arc<Codec>,
    pub handler: Arc<dyn Handler>,
    pub topics: Vec<String>,
}

/// A record's place in its partition.
type Place = (String, usize, usize);

impl Service {
    /// Consumes for ever.
    pub async fn consume(self) {
        let mut fetched: BTreeMap<(String, usize), usize> = BTreeMap::new();
        let mut done: BTreeMap<(String, usize), BTreeSet<usize>> = BTreeMap::new();
        let mut queues: BTreeMap<Vec<u8>, VecDeque<(Place, Inbound)>> = BTreeMap::new();
        let mut busy: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut running = FuturesUnordered::new();
        for topic in &self.topics {
            for partition in 0..PARTITIONS {
                let from = self.bus.committed(self.name, topic, partition);
                fetched.insert((topic.clone(), partition), from);
            }
        }
        loop {
            for ((topic, partition), next) in &mut fetched {
                for record in self.bus.fetch(topic, *partition, *next) {
                    let place = (topic.clone(), *partition, *next);
                    *next += 1;
                    queues.entry(self.handler.order_key(&record)).or_default().push_back((place, record));
                }
            }
            let ready: Vec<Vec<u8>> = queues.keys().filter(|key| !busy.contains(*key)).cloned().collect();
            for key in ready {
                let batch: Vec<_> = queues.remove(&key).into_iter().flatten().collect();
                busy.insert(key.clone());
                running.push(self.finish(key, batch));
            }
            // Whatever comes first: a batch is through, or a record was appended.
            let finished = poll_fn(|context| {
                if let Poll::Ready(Some(finished)) = running.poll_next_unpin(context) {
                    return Poll::Ready(Some(finished));
                }
                if fetched.iter().any(|((topic, p), next)| !self.bus.fetch(topic, *p, *next).is_empty()) {
                    return Poll::Ready(None);
                }
                self.bus.wait(context.waker().clone());
                Poll::Pending
            });
            let Some((key, places)) = finished.await else {
                continue;
            };
            busy.remove(&key);
            for (topic, partition, offset) in places {
                let finished = done.entry((topic.clone(), partition)).or_default();
                finished.insert(offset);
                let mut committed = self.bus.committed(self.name, &topic, partition);
                while finished.remove(&committed) {
                    committed += 1;
                }
                self.bus.commit(self.name, &topic, partition, committed);
            }
        }
    }

    /// Handles a batch until it is through.
    async fn finish(&self, key: Vec<u8>, batch: Vec<(Place, Inbound)>) -> (Vec<u8>, Vec<Place>) {
        let (places, records): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let mut wait = 5;
        loop {
            match self.handler.handle(&records).await {
                Ok(mut reply) => {
                    for (index, rejection) in &reply.rejected {
                        reply.publish.push(self.codec.dead_letter(&records[*index], rejection, 1, self.name));
                    }
                    let beside = chassis::done_beside(std::mem::take(&mut reply.beside));
                    let ((), done) = futures::join!(publish(&self.world, &self.bus, &mut reply), beside);
                    if done.is_err() {
                        self.world.sleep(wait).await;
                        wait = (wait * 2).min(500);
                        continue;
                    }
                    if let Some(receipt) = reply.receipt {
                        self.handler.acknowledged(receipt);
                    }
                    return (key, places);
                }
                Err(Failure::Fatal(why)) => panic!("{}: {why}", self.name),
                Err(Failure::Reject(rejection)) => panic!("{}: a whole batch was rejected: {rejection}", self.name),
                Err(Failure::Retry(_) | Failure::Unavailable(_)) => {
                    self.world.sleep(wait).await;
                    wait = (wait * 2).min(500);
                }
            }
        }
    }
}

/// Publishes a reply until it is acknowledged.
async fn publish(world: &World, bus: &SimBus, reply: &mut Reply) {
    while bus.publish(reply.publish.clone()).await.is_err() {
        world.sleep(20).await;
    }
}

/// Ticks for ever.
pub async fn tick(world: World, bus: SimBus, periodic: Arc<dyn Periodic>) {
    let interval = u64::try_from(periodic.interval().as_millis()).unwrap_or(u64::MAX).max(1);
    loop {
        match periodic.tick().await {
            Ok((mut reply, again)) => {
                publish(&world, &bus, &mut reply).await;
                if let Some(receipt) = reply.receipt {
                    periodic.acknowledged(receipt);
                }
                if again {
                    world.sleep(1).await;
                    continue;
                }
            }
            Err(Failure::Fatal(why)) => panic!("{}: {why}", periodic.name()),
            Err(_) => {}
        }
        world.sleep(interval).await;
    }
}

/// A boxed task.
pub fn job(future: impl Future<Output = ()> + Send + 'static) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(future)
}
