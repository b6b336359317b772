//! Random steps of a history, before the model makes them concrete.

use proptest::prelude::*;
use turnwright_store::Standing;

use crate::model::{SHARDS, addresses};

/// A step as it is generated; [`crate::model::Model`] makes it concrete.
#[derive(Debug, Clone)]
pub enum Step {
    Commit(Wish),
    Freeze(usize),
    Thaw(usize),
    Journal(usize, u8),
    DropTimer(usize, u8, bool),
    Acknowledge(usize),
    Flush,
    Expire { shard: u16, runs: bool, evidence: bool },
    Lease(u16, u8),
    SetCluster(u16, u8),
}

#[derive(Debug, Clone)]
pub struct Wish {
    pub who: usize,
    /// 0 to 6: the right version; then the right one with another head, none, one behind, one ahead.
    pub expect: u8,
    pub stale: bool,
    pub events: u64,
    pub quota: u32,
    pub entries: Vec<(u8, bool)>,
    pub timers: Vec<(u8, Option<bool>)>,
    pub outbox: usize,
    pub standing: Standing,
    pub request: bool,
}

pub fn step() -> BoxedStrategy<Step> {
    let who = 0..addresses().len();
    prop_oneof![
        16 => wish().prop_map(Step::Commit),
        1 => who.clone().prop_map(Step::Freeze),
        1 => who.clone().prop_map(Step::Thaw),
        2 => (who.clone(), any::<u8>()).prop_map(|(who, value)| Step::Journal(who, value)),
        2 => (who, 0..3u8, any::<bool>()).prop_map(|(who, name, past)| Step::DropTimer(who, name, past)),
        2 => (1..4usize).prop_map(Step::Acknowledge),
        1 => Just(Step::Flush),
        3 => (0..SHARDS, any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(shard, runs, evidence)| Step::Expire { shard, runs, evidence }),
        1 => (0..SHARDS, 0..3u8).prop_map(|(shard, owner)| Step::Lease(shard, owner)),
        1 => (0..SHARDS, any::<u8>()).prop_map(|(shard, id)| Step::SetCluster(shard, id)),
    ]
    .boxed()
}

fn wish() -> impl Strategy<Value = Wish> {
    let standing =
        prop::sample::select(vec![Standing::Open, Standing::Suspended, Standing::EndedUnresolved, Standing::Ended]);
    let version = (0..addresses().len(), 0..11u8, prop::bool::weighted(0.05), 0..4u64, 0..3u32);
    let entries = prop::collection::vec((0..4u8, any::<bool>()), 0..3);
    let timers = prop::collection::vec((0..3u8, prop::option::of(any::<bool>())), 0..3);
    (version, entries, timers, 0..3usize, standing, any::<bool>()).prop_map(
        |((who, expect, stale, events, quota), entries, timers, outbox, standing, request)| Wish {
            who,
            expect,
            stale,
            events,
            quota,
            entries,
            timers,
            outbox,
            standing,
            request,
        },
    )
}
