//! The owning services and the wire to them. Their books say what was really applied. A request that was sent arrives at
//! any later time, or never.

use std::collections::BTreeSet;

use protocol::Dedupe;

use super::names::{AttemptAt, EffectAt, Word};

/// What an owner has in its books of one effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Account {
    /// The attempts whose request was applied.
    pub applied: Vec<AttemptAt>,
    /// Refused for good: whatever arrives later is refused as well.
    pub refused: bool,
}

/// Every owner, by effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Owners {
    pub accounts: Vec<Account>,
    pub wire: BTreeSet<AttemptAt>,
}

impl Account {
    /// What a request may meet: to be applied, or else refused.
    pub fn choices(&self, dedupe: Dedupe, rejects: bool) -> &'static [bool] {
        let known = self.refused || (dedupe == Dedupe::Key && !self.applied.is_empty());
        // An owner that knows the answer gives it again: one choice is enough.
        if known || !rejects || !self.applied.is_empty() { &[true] } else { &[true, false] }
    }

    /// A request arrives.
    pub fn take(&mut self, attempt: AttemptAt, dedupe: Dedupe, apply: bool) {
        let known = self.refused || (dedupe == Dedupe::Key && !self.applied.is_empty());
        match (known, apply) {
            (true, _) => {}
            (false, true) => self.applied.push(attempt),
            (false, false) => self.refused = true,
        }
    }

    /// The owner's word, asked by key.
    pub fn word(&self) -> Word {
        match (self.applied.first(), self.refused) {
            (Some(attempt), _) => Word::Committed(*attempt),
            (None, true) => Word::Rejected,
            (None, false) => Word::NotApplied,
        }
    }

    /// The owner's ID of the change that an attempt came to: one per key where it enforces the key.
    pub fn effect_id(effect: EffectAt, attempt: AttemptAt, dedupe: Dedupe) -> String {
        match dedupe {
            Dedupe::Key => format!("e{effect}"),
            Dedupe::None => format!("e{effect}/{attempt:?}"),
        }
    }
}
