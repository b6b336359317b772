//! The store on Redis: the trait, and the calls that need no more than a few lines.

use std::collections::HashMap;

use async_trait::async_trait;
use protocol::{Basis, EventId, Timestamp, Version};

use super::config::RedisConfig;
use super::connection::Connection;
use super::keys::Keys;
use super::load::Beside;
use super::reply::known;
use super::script::{self, Call};
use crate::acknowledged::Acknowledged;
use crate::{
    Address, Commit, Committed, DueTimer, Durability, Entries, Error, EventRecord, IndexEntry, Loaded, OutboxEntry,
    OutboxRef, Retention, Shard, Stats, Store, TurnLoaded, address,
};

/// How many outbox entries one command deletes.
const DELETE_BATCH: usize = 512;

/// A store on one Redis server or cluster. It holds a few multiplexed connections per server and sends a call once;
/// what to do after an [`Error::Retryable`] is the caller's decision.
pub struct RedisStore {
    pub(super) connection: Connection,
    pub(super) keys: Keys,
    pub(super) shards: u16,
    pub(super) acknowledged: Acknowledged,
    pub(super) stats: Stats,
}

impl RedisStore {
    /// Connects. Errors: [`Error::Refused`] for settings that cannot work, [`Error::Retryable`] when there is no server
    /// (yet). Call [`Store::check`] before anything is committed.
    pub async fn open(config: &RedisConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self {
            connection: Connection::open(config).await?,
            keys: Keys::new(&config.prefix, config.shards),
            shards: config.shards,
            acknowledged: Acknowledged::new(config.shards),
            stats: Stats::default(),
        })
    }

    /// Deletes one shard's acknowledged entries; what may not be deleted is kept for later.
    async fn flush_shard(&self, shard: Shard) -> Result<(), Error> {
        loop {
            let ids = self.acknowledged.take(shard, DELETE_BATCH);
            if ids.is_empty() {
                return Ok(());
            }
            let mut command = redis::cmd("XDEL");
            command.arg(self.keys.shard(shard).outbox).arg(&ids);
            if let Err(error) = self.ask::<u64>(&command).await {
                self.acknowledged.put_back(shard, ids, &self.stats);
                return Err(error);
            }
        }
    }
}

#[async_trait]
impl Store for RedisStore {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.run(Call::new(&script::NOW, [self.keys.shard_count()])).await.map(Timestamp)
    }

    async fn load(&self, address: &Address, entries: &Entries, hash_at: Option<Version>) -> Result<Loaded, Error> {
        let beside = Beside { hash_at, ..Beside::default() };
        Ok(self.load_now(address, entries, beside).await?.loaded)
    }

    async fn load_turn(&self, address: &Address, field: &str, from: Version, to: Version) -> Result<TurnLoaded, Error> {
        let beside = Beside { hash_at: Some(to), events_from: Some(from), journal_field: Some(field) };
        self.load_now(address, &Entries::Keys(Vec::new()), beside).await
    }

    async fn commit(&self, commit: &Commit) -> Result<Committed, Error> {
        crate::well_formed::check(commit)?;
        self.commit_checked(commit).await
    }

    async fn events(&self, address: &Address, from: Version, to: Version) -> Result<Vec<EventRecord>, Error> {
        self.events_between(address, from, to).await
    }

    async fn freeze(&self, address: &Address, basis: Basis) -> Result<(), Error> {
        let of_it = self.keys.invocation(address);
        let of_shard = self.keys.shard(self.keys.shard_of(address));
        let keys = [of_it.invocation, of_shard.ended, of_shard.evidence, of_shard.frozen];
        let call = Call::new(&script::FREEZE, keys);
        self.run(call.made(of_it.member).made(format!("{}:{}", basis.version, basis.hash))).await
    }

    async fn thaw(&self, address: &Address) -> Result<(), Error> {
        let of_it = self.keys.invocation(address);
        let of_shard = self.keys.shard(self.keys.shard_of(address));
        let keys = [of_it.invocation, of_shard.frozen, of_shard.ended, of_shard.evidence, of_shard.meta];
        self.run(Call::new(&script::THAW, keys).made(of_it.member)).await
    }

    async fn frozen(&self, shard: Shard, older_than_ms: u64, limit: usize) -> Result<Vec<Address>, Error> {
        self.old_members(self.keys.shard(shard).frozen, older_than_ms, limit).await
    }

    async fn is_fenced(&self, shard: Shard) -> Result<bool, Error> {
        self.run(Call::new(&script::FENCE, [self.keys.shard(shard).meta]).text("")).await
    }

    async fn lift_fence(&self, shard: Shard) -> Result<bool, Error> {
        self.run(Call::new(&script::FENCE, [self.keys.shard(shard).meta]).text("1")).await
    }

    async fn journal(&self, address: &Address, field: &str, value: &[u8]) -> Result<Vec<u8>, Error> {
        let of_it = self.keys.invocation(address);
        self.run(Call::new(&script::JOURNAL, [of_it.invocation, of_it.journal]).text(field).bytes(value)).await
    }

    async fn journaled(&self, address: &Address, field: &str) -> Result<Option<Vec<u8>>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.invocation(address).journal).arg(field);
        self.ask(&command).await
    }

    async fn due_timers(&self, shard: Shard, limit: usize) -> Result<Vec<DueTimer>, Error> {
        let call = Call::new(&script::DUE_TIMERS, [self.keys.shard(shard).timers]).number(limit);
        let due: Vec<(String, f64)> = self.run(call).await?;
        let timers = due.into_iter().map(|(member, due)| {
            let (address, name) = known(address::read_timer(&member), "a timer", &member)?;
            Ok(DueTimer { address, name, due: Timestamp(due as i64) })
        });
        timers.collect()
    }

    async fn drop_timer(&self, timer: &DueTimer) -> Result<(), Error> {
        let timers = self.keys.shard(self.keys.shard_of(&timer.address)).timers;
        let member = address::write_timer(&timer.address, &timer.name);
        self.run(Call::new(&script::DROP_TIMER, [timers]).made(member).number(timer.due)).await
    }

    fn acknowledge(&self, entries: Vec<OutboxRef>) {
        self.acknowledged.note(entries, &self.stats);
    }

    async fn flush_acknowledged(&self) -> Result<(), Error> {
        let shards = (0..self.shards).map(|shard| self.flush_shard(Shard(shard)));
        futures::future::join_all(shards).await.into_iter().collect()
    }

    async fn pending_outbox(
        &self,
        shard: Shard,
        older_than_ms: u64,
        limit: usize,
    ) -> Result<Vec<(OutboxRef, OutboxEntry)>, Error> {
        let call = Call::new(&script::PENDING_OUTBOX, [self.keys.shard(shard).outbox]);
        let stored: Vec<(String, HashMap<String, Vec<u8>>)> =
            self.run(call.number(older_than_ms).number(limit)).await?;
        let entries = stored.into_iter().map(|(id, mut fields)| {
            let event_id = fields.remove("event").and_then(|bytes| uuid::Uuid::from_slice(&bytes).ok());
            let event_id = known(event_id.map(EventId), "an outbox entry", &id)?;
            let bytes = known(fields.remove("bytes"), "an outbox entry", &id)?;
            Ok((OutboxRef { shard, id }, OutboxEntry { event_id, bytes }))
        });
        entries.collect()
    }

    async fn lease(&self, shard: Shard, name: &str, owner: &str, ttl_ms: u64) -> Result<bool, Error> {
        let call = Call::new(&script::LEASE, [self.keys.lease(shard, name)]);
        self.run(call.text(owner).number(ttl_ms.max(1))).await
    }

    async fn list(
        &self,
        shard: Shard,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<(Vec<(Address, IndexEntry)>, Option<String>), Error> {
        self.page(shard, cursor, limit).await
    }

    async fn expire(&self, shard: Shard, retention: &Retention, limit: usize) -> Result<usize, Error> {
        self.expire_some(shard, retention, limit).await
    }

    async fn cluster_id(&self, shard: Shard) -> Result<Option<String>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.shard(shard).meta).arg("cluster");
        self.ask(&command).await
    }

    async fn set_cluster_id(&self, shard: Shard, cluster_id: &str) -> Result<(), Error> {
        let mut command = redis::cmd("HSET");
        command.arg(self.keys.shard(shard).meta).arg("cluster").arg(cluster_id);
        self.ask::<u64>(&command).await.map(|_| ())
    }

    async fn check(&self, durability: Durability) -> Result<(), Error> {
        self.check_durable(durability).await
    }
}
