//! When nothing more is to come. A service commits an offset only once everything that followed from the record is
//! acknowledged; so, when every group is at every end and the ends stand still, the pipeline is idle, and a test may say
//! "exactly one" without having waited for luck.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use schemas::Topic;

use super::reader::{ASK, asked, consumer, partitions, watermarks};
use super::service::LOOK;
use super::{Error, ServiceName};

/// Who consumes what.
const CONSUMED: [(ServiceName, &[Topic]); 5] = [
    (
        ServiceName::Committer,
        &[Topic::Invocations, Topic::Controls, Topic::Verdicts, Topic::Results, Topic::Resolutions],
    ),
    (ServiceName::Decision, &[Topic::Turns]),
    (ServiceName::Validation, &[Topic::Decisions]),
    (ServiceName::ToolExecutor, &[Topic::Dispatches]),
    (ServiceName::Reconciler, &[Topic::OutcomeUnknown]),
];

/// The topics between the services.
pub const INTERNAL: [Topic; 7] = [
    Topic::Turns,
    Topic::Decisions,
    Topic::Verdicts,
    Topic::Dispatches,
    Topic::Results,
    Topic::OutcomeUnknown,
    Topic::Resolutions,
];

/// Looks at the groups of one cluster.
pub struct Lag {
    prefix: String,
    groups: Vec<(BaseConsumer, TopicPartitionList)>,
}

/// Records ever produced, by topic and partition.
type Ends = BTreeMap<(String, i32), i64>;

impl Lag {
    pub fn new(brokers: &str, prefix: &str) -> Result<Self, Error> {
        let mut groups = Vec::new();
        for (service, topics) in CONSUMED {
            let client = consumer(brokers, &format!("{prefix}.{}", service.as_str()))?;
            let mut places = TopicPartitionList::new();
            for topic in topics {
                let topic = topic.name(prefix);
                for partition in partitions(&client, &topic)? {
                    places.add_partition(&topic, partition);
                }
            }
            groups.push((client, places));
        }
        Ok(Self { prefix: prefix.to_owned(), groups })
    }

    /// Waits until every group has handled every record, twice in a row with nothing new between. Gives the number of
    /// records that each consumed topic then holds.
    pub fn wait_idle(&self, within: Duration) -> Result<BTreeMap<Topic, i64>, Error> {
        let deadline = Instant::now() + within;
        let mut before: Option<Ends> = None;
        loop {
            let (ends, behind) = self.look()?;
            if behind.is_empty() && before.as_ref() == Some(&ends) {
                return Ok(self.totals(&ends));
            }
            if Instant::now() >= deadline {
                let what = "every record handled".to_owned();
                return Err(Error::Late { what, within, seen: format!("unhandled: {behind:?}") });
            }
            before = behind.is_empty().then_some(ends);
            std::thread::sleep(LOOK);
        }
    }

    fn look(&self) -> Result<(Ends, Vec<String>), Error> {
        let mut ends = Ends::new();
        let mut behind = Vec::new();
        for (client, places) in &self.groups {
            let committed = asked(|| client.committed_offsets(places.clone(), ASK))?;
            for place in committed.elements() {
                let (first, end) = watermarks(client, place.topic(), place.partition())?;
                let handled = match place.offset() {
                    Offset::Offset(offset) => offset,
                    // Nothing of this partition was ever handled.
                    _ => first,
                };
                if handled < end {
                    behind.push(format!("{}/{}: {}", place.topic(), place.partition(), end - handled));
                }
                ends.insert((place.topic().to_owned(), place.partition()), end);
            }
        }
        Ok((ends, behind))
    }

    fn totals(&self, ends: &Ends) -> BTreeMap<Topic, i64> {
        let of = |topic: Topic| {
            let name = topic.name(&self.prefix);
            ends.iter().filter(|((topic, _), _)| *topic == name).map(|(_, end)| end).sum()
        };
        CONSUMED.iter().flat_map(|(_, topics)| topics.iter()).map(|topic| (*topic, of(*topic))).collect()
    }
}
