//! The call of `load.lua`, and how what it read becomes a [`Loaded`].

use protocol::{Basis, Digest, EffectKey, Epoch, Timestamp, Version};

use super::reply::{self, known};
use super::script::{self, Call};
use super::store::RedisStore;
use crate::{Address, Entries, Error, EventRecord, Loaded, Snapshot, Tombstone, TurnLoaded};

/// Bytes of an event's hash, in front of the event.
const HASH_LEN: usize = 32;

/// The invocation's fields in the order in which the script reads them.
type Fields = [Option<Vec<u8>>; 7];

type Reply = (i64, u64, bool, Vec<Option<Vec<u8>>>, Option<Vec<u8>>, Vec<Vec<u8>>, Option<Vec<u8>>, Vec<Vec<u8>>);

/// What is read beside the snapshot.
#[derive(Default)]
pub(super) struct Beside<'a> {
    pub hash_at: Option<Version>,
    /// The events from this one up to `hash_at`.
    pub events_from: Option<Version>,
    pub journal_field: Option<&'a str>,
}

impl RedisStore {
    pub(super) async fn load_now(
        &self,
        address: &Address,
        entries: &Entries,
        beside: Beside<'_>,
    ) -> Result<TurnLoaded, Error> {
        let of_it = self.keys.invocation(address);
        let meta = self.keys.shard(self.keys.shard_of(address)).meta;
        // A list index; no list is as long as a version that does not fit one.
        let index = |at: Version| i64::try_from(at.0.checked_sub(1)?).ok().map(|at| at.to_string());
        let at = beside.hash_at.and_then(index);
        let from = beside.events_from.filter(|_| at.is_some()).map(|from| from.max(Version(1)));
        let call = Call::new(&script::LOAD, [of_it.invocation, of_it.events, of_it.ledger, meta, of_it.journal])
            .made(at.unwrap_or_default())
            .made(from.and_then(index).unwrap_or_default())
            .text(beside.journal_field.unwrap_or_default());
        let call = match entries {
            Entries::All => call.text("all"),
            Entries::Keys(keys) => keys.iter().fold(call.text("keys"), |call, key| call.text(key.as_str())),
        };
        let reply = call.send(&self.connection, &self.stats).await?;
        let (now, epoch, fenced, fields, hash, entries, answered, events): Reply = reply::read(reply)?;
        let fields = Fields::try_from(fields).map_err(|_| Error::Corrupt("unexpected number of fields".into()))?;
        let (snapshot, frozen, tombstone) = read_fields(fields)?;
        let loaded = Loaded {
            now: Timestamp(now),
            epoch: Epoch(epoch),
            fenced,
            snapshot,
            entries: read_entries(entries)?,
            hash_at: hash.map(|hash| read_hash(&hash)).transpose()?,
            frozen,
            tombstone,
        };
        Ok(TurnLoaded { loaded, answered, events: read_events(from.unwrap_or(Version(1)), events)? })
    }

    pub(super) async fn events_between(
        &self,
        address: &Address,
        from: Version,
        to: Version,
    ) -> Result<Vec<EventRecord>, Error> {
        let from = from.max(Version(1));
        if to < from {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("LRANGE");
        command.arg(self.keys.invocation(address).events).arg(from.0 - 1).arg(to.0.min(i64::MAX as u64) - 1);
        let events: Vec<Vec<u8>> = self.ask(&command).await?;
        read_events(from, events)
    }
}

fn read_events(from: Version, events: Vec<Vec<u8>>) -> Result<Vec<EventRecord>, Error> {
    let records = (from.0..).map(Version).zip(events).map(|(version, stored)| {
        let (hash, bytes) = known(stored.split_at_checked(HASH_LEN), "an event", &stored)?;
        Ok(EventRecord { version, hash: read_hash(hash)?, bytes: bytes.to_vec() })
    });
    records.collect()
}

type State = (Option<Snapshot>, Option<(Basis, Timestamp)>, Option<Tombstone>);

fn read_fields([version, head, bytes, frozen, tombstone, request, summary]: Fields) -> Result<State, Error> {
    let frozen = frozen.map(|text| known(read_frozen(&text), "a frozen marker", &text)).transpose()?;
    let Some(version) = version else {
        return Ok((None, frozen, None));
    };
    let version = known(parse(&version).map(Version), "a version", &version)?;
    let head = read_hash(&head.unwrap_or_default())?;
    if tombstone.is_none() {
        let bytes = bytes.ok_or_else(|| Error::Corrupt("a snapshot without bytes".into()))?;
        return Ok((Some(Snapshot { version, head, bytes }), frozen, None));
    }
    let request_digest = match request {
        Some(text) => known(Digest::from_hex(&reply::text(text.clone())?), "a digest", text)?,
        None => Digest::default(),
    };
    let reason = reply::text(summary.unwrap_or_default())?;
    Ok((None, frozen, Some(Tombstone { request_digest, last: Basis { version, hash: head }, reason })))
}

/// Entries as the ledger keeps them: a flag that only the commit script reads, then the bytes.
fn read_entries(flat: Vec<Vec<u8>>) -> Result<Vec<(EffectKey, Vec<u8>)>, Error> {
    let mut entries = Vec::with_capacity(flat.len() / 2);
    let mut flat = flat.into_iter();
    while let (Some(key), Some(entry)) = (flat.next(), flat.next()) {
        let (_, bytes) = known(entry.split_first(), "a ledger entry", &entry)?;
        entries.push((EffectKey(reply::text(key)?), bytes.to_vec()));
    }
    Ok(entries)
}

fn read_hash(bytes: &[u8]) -> Result<Digest, Error> {
    known(bytes.try_into().ok().map(Digest), "a hash", bytes)
}

/// A frozen marker: version, hash and time.
fn read_frozen(bytes: &[u8]) -> Option<(Basis, Timestamp)> {
    let mut parts = std::str::from_utf8(bytes).ok()?.split(':');
    let version = Version(parts.next()?.parse().ok()?);
    let hash = Digest::from_hex(parts.next()?)?;
    Some((Basis { version, hash }, Timestamp(parts.next()?.parse().ok()?)))
}

fn parse<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
