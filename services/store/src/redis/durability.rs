//! Whether this Redis keeps what it acknowledges, and is the store we think it is.

use std::collections::HashMap;

use super::reply;
use super::script::counted;
use super::store::RedisStore;
use crate::{Durability, Error};

/// Settings that must be so, and what is lost when they are not.
const REQUIRED: [(&str, &str, &str); 4] = [
    ("appendonly", "yes", "a restart would lose commits"),
    ("appendfsync", "always", "a power loss would lose acknowledged commits"),
    ("no-appendfsync-on-rewrite", "no", "a power loss during a rewrite would lose acknowledged commits"),
    ("maxmemory-policy", "noeviction", "a full memory would drop commits"),
];

impl RedisStore {
    pub(super) async fn check_durable(&self, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Strict => self.check_settings().await?,
            Durability::Attested | Durability::Relaxed => {}
        }
        self.check_shard_count().await
    }

    async fn check_settings(&self) -> Result<(), Error> {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET");
        // One name a call: a server that knows only some of them still answers for those.
        let mut findings = Vec::new();
        for (name, wanted, why) in REQUIRED {
            let mut command = command.clone();
            command.arg(name);
            for found in self.settings(&command).await? {
                let found = found.get(name).map_or("not set", String::as_str);
                if found != wanted {
                    findings.push(format!("set {name} to {wanted} (it is {found}): {why}"));
                }
            }
        }
        findings.dedup();
        if findings.is_empty() { Ok(()) } else { Err(Error::Refused(findings.join("; "))) }
    }

    async fn settings(&self, command: &redis::Cmd) -> Result<Vec<HashMap<String, String>>, Error> {
        let replies = self.connection.send_to_all(command, &self.stats).await.map_err(Error::from);
        match replies {
            Ok(replies) => replies.into_iter().map(reply::read).collect(),
            Err(Error::Retryable(why)) => Err(counted(Error::Retryable(why), &self.stats)),
            Err(Error::Corrupt(why) | Error::Refused(why)) => Err(Error::Refused(format!(
                "the settings cannot be read ({why}); allow CONFIG GET, or set store.durability to attested if the store \
                 is known to have appendonly yes, appendfsync always and maxmemory-policy noeviction"
            ))),
        }
    }

    /// Records our shard count where none is recorded, and refuses another one: a shard count that changes hides every
    /// invocation that is stored.
    async fn check_shard_count(&self) -> Result<(), Error> {
        let key = self.keys.shard_count();
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(self.shards).arg("NX");
        let _: Option<String> = self.ask(&set).await?;
        let mut read = redis::cmd("GET");
        read.arg(&key);
        let recorded: Option<u16> = self.ask(&read).await?;
        match recorded {
            Some(recorded) if recorded == self.shards => Ok(()),
            Some(recorded) => Err(Error::Refused(format!(
                "this store was made with {recorded} shards and the configuration says {}; set store.shards to {recorded}, \
                 or use another store.prefix",
                self.shards
            ))),
            None => Err(Error::Corrupt("the shard count is gone as soon as it is written".into())),
        }
    }
}
