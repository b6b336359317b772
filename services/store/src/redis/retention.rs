//! The per-shard index on Redis, and what it lets go. Candidates are read first; each is then expired by a script that
//! looks again, because a script may only touch keys that the caller named.

use redis::Value;

use super::commit::read_standing;
use super::keys::stubs_field;
use super::reply::{self, known};
use super::script::{self, Call};
use super::store::RedisStore;
use crate::{Address, Error, IndexEntry, Retention, Shard, address};

type Page = (Vec<(Address, IndexEntry)>, Option<String>);

impl RedisStore {
    pub(super) async fn page(&self, shard: Shard, cursor: Option<String>, limit: usize) -> Result<Page, Error> {
        let after = cursor.map_or_else(|| "-".to_owned(), |member| format!("({member}"));
        let mut command = redis::cmd("ZRANGEBYLEX");
        command.arg(self.keys.shard(shard).members).arg(after).arg("+").arg("LIMIT").arg(0).arg(limit);
        let members: Vec<String> = self.ask(&command).await?;
        let next = members.last().filter(|_| members.len() == limit).cloned();
        let entries = members.into_iter().map(|member| self.index_entry(member));
        let entries = futures::future::try_join_all(entries).await?;
        Ok((entries.into_iter().flatten().collect(), next))
    }

    /// Absent when the invocation has expired since its page was read.
    async fn index_entry(&self, member: String) -> Result<Option<(Address, IndexEntry)>, Error> {
        let address = known(address::read(&member), "an address", &member)?;
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys.invocation(&address).invocation).arg("standing").arg("summary");
        let (standing, summary): (Option<String>, Option<String>) = self.ask(&command).await?;
        let Some((standing, summary)) = standing.zip(summary) else {
            return Ok(None);
        };
        let standing = known(read_standing(&standing), "a standing", &standing)?;
        Ok(Some((address, IndexEntry { standing, summary })))
    }

    pub(super) async fn expire_some(&self, shard: Shard, retention: &Retention, limit: usize) -> Result<usize, Error> {
        let keys = self.keys.shard(shard);
        let ended = self.old_members(keys.ended, retention.runs_ms, limit).await?;
        let buried = ended.iter().map(|address| self.expire_run(address, retention.runs_ms));
        let runs: usize = futures::future::try_join_all(buried).await?.into_iter().sum();
        let old = self.old_members(keys.evidence, retention.evidence_ms, limit - runs).await?;
        let forgotten = old.iter().map(|address| self.expire_evidence(address, retention.evidence_ms));
        let evidence: usize = futures::future::try_join_all(forgotten).await?.into_iter().sum();
        Ok(runs + evidence)
    }

    /// The members of a list that are in it for at least so long, oldest first.
    pub(super) async fn old_members(&self, list: String, age_ms: u64, limit: usize) -> Result<Vec<Address>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let call = Call::new(&script::EXPIRABLE, [list]).number(age_ms).number(limit);
        let members: Vec<String> = self.run(call).await?;
        members.iter().map(|member| known(address::read(member), "an address", member)).collect()
    }

    async fn expire_run(&self, address: &Address, keep_ms: u64) -> Result<usize, Error> {
        let of_it = self.keys.invocation(address);
        let of_shard = self.keys.shard(self.keys.shard_of(address));
        let keys = [of_it.invocation, of_it.events, of_it.journal, of_shard.members, of_shard.ended, of_shard.evidence];
        self.run(Call::new(&script::EXPIRE_RUN, keys).made(of_it.member).number(keep_ms)).await
    }

    async fn expire_evidence(&self, address: &Address, keep_ms: u64) -> Result<usize, Error> {
        let of_it = self.keys.invocation(address);
        let of_shard = self.keys.shard(self.keys.shard_of(address));
        let keys = [of_it.invocation, of_it.ledger, of_it.journal, of_shard.members, of_shard.evidence, of_shard.meta];
        let call = Call::new(&script::EXPIRE_EVIDENCE, keys).made(of_it.member).number(keep_ms);
        self.run(call.made(stubs_field(address))).await
    }

    /// Sends a call and reads its reply.
    pub(super) async fn run<T: redis::FromRedisValue>(&self, call: Call<'_>) -> Result<T, Error> {
        reply::read::<T>(call.send(&self.connection, &self.stats).await?)
    }

    /// Sends a command and reads its reply.
    pub(super) async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T, Error> {
        let sent: redis::RedisResult<Value> = self.connection.send(command, &self.stats).await;
        reply::read(sent.map_err(|error| script::counted(error.into(), &self.stats))?)
    }
}
