//! Every key of the Redis store. All keys of a shard share one hash tag, so that a cluster keeps them in one slot and one
//! script may use them together.

use crate::{Address, Shard, address, shard_of};

/// Names keys below one prefix.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
    shards: u16,
}

/// The keys of one invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvocationKeys {
    /// The address as it is listed in the shard's sets.
    pub member: String,
    /// Hash: version, head, snapshot, standing, summary, request digest, frozen, tombstone.
    pub invocation: String,
    /// List: hash and bytes of each event, the first at version 1.
    pub events: String,
    /// Hash: Effect Key to settled flag and bytes.
    pub ledger: String,
    /// Hash: field to value.
    pub journal: String,
}

/// The keys of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShardKeys {
    /// Stream: event ID and bytes.
    pub outbox: String,
    /// Sorted set: timers by due time.
    pub timers: String,
    /// Sorted set, every score zero: addresses in the order they are listed.
    pub members: String,
    /// Sorted set: ended invocations by the time from which on they may expire.
    pub ended: String,
    /// Sorted set: tombstones by their end, stubs by the time they were stored.
    pub evidence: String,
    /// Sorted set: frozen invocations by the time since when they are.
    pub frozen: String,
    /// Hash: epoch, run ID of the server, Kafka cluster ID, and a count of stubs for each tenant that has some.
    pub meta: String,
}

impl Keys {
    pub fn new(prefix: &str, shards: u16) -> Self {
        Self { prefix: prefix.to_owned(), shards }
    }

    /// The shard count of the whole store.
    pub fn shard_count(&self) -> String {
        format!("{{{}}}:shards", self.prefix)
    }

    pub fn shard_of(&self, address: &Address) -> Shard {
        shard_of(address, self.shards)
    }

    pub fn invocation(&self, address: &Address) -> InvocationKeys {
        let tag = self.tag(self.shard_of(address));
        let member = address::write(address);
        InvocationKeys {
            invocation: format!("{tag}:invocation:{member}"),
            events: format!("{tag}:events:{member}"),
            ledger: format!("{tag}:ledger:{member}"),
            journal: format!("{tag}:journal:{member}"),
            member,
        }
    }

    pub fn shard(&self, shard: Shard) -> ShardKeys {
        let tag = self.tag(shard);
        ShardKeys {
            outbox: format!("{tag}:outbox"),
            timers: format!("{tag}:timers"),
            members: format!("{tag}:members"),
            ended: format!("{tag}:ended"),
            evidence: format!("{tag}:evidence"),
            frozen: format!("{tag}:frozen"),
            meta: format!("{tag}:meta"),
        }
    }

    pub fn lease(&self, shard: Shard, name: &str) -> String {
        format!("{}:lease:{name}", self.tag(shard))
    }

    fn tag(&self, shard: Shard) -> String {
        format!("{{{}:{}}}", self.prefix, shard.0)
    }
}

/// The field of the meta hash that counts a tenant's stubs.
pub(super) fn stubs_field(address: &Address) -> String {
    format!("stubs/{}", address.tenant)
}

#[cfg(test)]
mod tests {
    use protocol::InvocationId;

    use super::*;

    #[test]
    fn all_keys_of_a_shard_share_one_hash_tag_whatever_the_tenant_contains() {
        let keys = Keys::new("turnwright", 8);
        for tenant in ["acme", "{other}", "}{", "a:b"] {
            let address = Address { tenant: tenant.into(), id: InvocationId(uuid::Uuid::from_u128(5)) };
            let shard = keys.shard_of(&address);
            let of_it = keys.invocation(&address);
            let of_shard = keys.shard(shard);
            let all = [
                of_it.invocation,
                of_it.events,
                of_it.ledger,
                of_it.journal,
                of_shard.outbox,
                of_shard.timers,
                of_shard.members,
                of_shard.ended,
                of_shard.evidence,
                of_shard.frozen,
                of_shard.meta,
                keys.lease(shard, "re{l}ay"),
            ];
            for key in all {
                let (_, after_brace) = key.split_once('{').unwrap();
                assert_eq!(after_brace.split_once('}').unwrap().0, format!("turnwright:{}", shard.0), "{key}");
            }
        }
    }
}
