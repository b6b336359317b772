//! What a load brought, as the core sees it.

use std::collections::{BTreeSet, VecDeque};

use protocol::{Basis, Digest, EffectKey, Invocation, Ledger, LedgerEntry, Timestamp, Version};

use crate::convert::parse;
use crate::remember::Read;
use crate::{Address, Error, Loaded, Tombstone};

/// An invocation as loaded, ready to decide on.
pub(crate) struct Loading {
    pub(crate) state: Invocation,
    pub(crate) now: Timestamp,
    pub(crate) expected: Option<Basis>,
    pub(crate) frozen: bool,
    pub(crate) tombstone: Option<Tombstone>,
    /// When it was read, for whoever remembers.
    pub(crate) read: Option<Read>,
    /// Hashes of its newest events, as far as they are known.
    pub(crate) hashes: VecDeque<(Version, Digest)>,
}

pub(crate) fn decode(
    address: &Address,
    loaded: Loaded,
    asked: Option<BTreeSet<EffectKey>>,
    hash_at: Option<Version>,
) -> Result<Loading, Error> {
    let expected = loaded.snapshot.as_ref().map(|it| Basis { version: it.version, hash: it.head });
    let mut state: Invocation = match &loaded.snapshot {
        Some(snapshot) => parse(&snapshot.bytes)?,
        None => Invocation::absent(address.tenant.clone(), address.id),
    };
    let entries = loaded.entries.iter().map(|(_, bytes)| parse(bytes)).collect::<Result<Vec<LedgerEntry>, _>>()?;
    // Nothing is stored: the ledger is complete and empty, whatever was asked for.
    state.ledger = if state.run.is_none() { Ledger::default() } else { Ledger::loaded(entries, asked) };
    state.epoch = loaded.epoch;
    state.hash_at = hash_at.zip(loaded.hash_at);
    let (frozen, tombstone) = (loaded.frozen.is_some(), loaded.tombstone);
    Ok(Loading { state, now: loaded.now, expected, frozen, tombstone, read: None, hashes: VecDeque::new() })
}
