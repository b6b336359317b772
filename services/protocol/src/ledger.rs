//! The part of an invocation's effect ledger that was loaded for one decision. Reading an entry that was not loaded is
//! an error, never an absence.

use std::collections::{BTreeMap, BTreeSet};

use crate::{EffectKey, LedgerEntry};

/// What of the ledger is at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    entries: BTreeMap<EffectKey, LedgerEntry>,
    /// The keys that were asked for; `None` when all were.
    asked: Option<BTreeSet<EffectKey>>,
    changed: BTreeSet<EffectKey>,
}

impl Default for Ledger {
    /// Complete and empty: a new invocation, or a replay from its first event.
    fn default() -> Self {
        Self { entries: BTreeMap::new(), asked: None, changed: BTreeSet::new() }
    }
}

/// The ledger was read at a key that `needs` had not named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the ledger entry of {0} was not loaded")]
pub struct NotLoaded(pub EffectKey);

impl Ledger {
    /// The entries that a load brought for `asked` (`None`: for all).
    pub fn loaded(entries: impl IntoIterator<Item = LedgerEntry>, asked: Option<BTreeSet<EffectKey>>) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
        Self { entries, asked, changed: BTreeSet::new() }
    }

    /// Whether every entry of the invocation is at hand.
    pub fn is_complete(&self) -> bool {
        self.asked.is_none()
    }

    /// Whether these keys may be read.
    pub fn covers(&self, keys: &[EffectKey]) -> bool {
        self.asked.as_ref().is_none_or(|asked| keys.iter().all(|key| asked.contains(key)))
    }

    pub fn entry(&self, key: &EffectKey) -> Result<Option<&LedgerEntry>, NotLoaded> {
        if !self.covers(std::slice::from_ref(key)) {
            return Err(NotLoaded(key.clone()));
        }
        Ok(self.entries.get(key))
    }

    /// Everything at hand, by key.
    pub fn entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.entries.values()
    }

    /// The entries that changed since the load, for the commit.
    pub fn changed(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.changed.iter().filter_map(|key| self.entries.get(key))
    }

    /// What has changed is committed: from here on, changes are counted anew.
    pub fn mark_committed(&mut self) {
        self.changed.clear();
    }

    pub(crate) fn put(&mut self, entry: LedgerEntry) -> Result<(), NotLoaded> {
        self.entry(&entry.key)?;
        self.changed.insert(entry.key.clone());
        self.entries.insert(entry.key.clone(), entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::tests::entry;

    fn asked(keys: &[&str]) -> Option<BTreeSet<EffectKey>> {
        Some(keys.iter().map(|key| EffectKey::from(*key)).collect())
    }

    #[test]
    fn only_what_was_asked_for_may_be_read() {
        let (a, b): (EffectKey, EffectKey) = ("a".into(), "b".into());
        let ledger = Ledger::loaded([entry("a")], asked(&["a", "none"]));
        assert!(!ledger.is_complete());
        assert!(ledger.covers(&[a.clone(), "none".into()]) && !ledger.covers(&[a.clone(), b.clone()]));
        assert_eq!(ledger.entry(&a), Ok(Some(&entry("a"))));
        assert_eq!(ledger.entry(&"none".into()), Ok(None), "it was asked for, and there is none");
        assert_eq!(ledger.entry(&b), Err(NotLoaded(b.clone())));
        let all = Ledger::loaded([entry("a")], None);
        assert!(all.is_complete() && all.covers(&[a, b.clone()]));
        assert_eq!(all.entry(&b), Ok(None));
    }

    #[test]
    fn what_is_put_counts_as_changed_until_it_is_committed() {
        let mut ledger = Ledger::loaded([entry("a"), entry("b")], asked(&["a", "b", "c"]));
        let changed = |ledger: &Ledger| ledger.changed().map(|entry| entry.key.to_string()).collect::<Vec<_>>();
        assert_eq!(changed(&ledger), [""; 0]);
        assert_eq!(ledger.put(entry("d")), Err(NotLoaded("d".into())));
        ledger.put(entry("c")).unwrap();
        ledger.put(entry("a")).unwrap();
        assert_eq!(changed(&ledger), ["a", "c"]);
        ledger.mark_committed();
        assert_eq!(changed(&ledger), [""; 0]);
        assert_eq!(ledger.entries().count(), 3, "what was committed is still there");
    }
}
