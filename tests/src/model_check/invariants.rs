//! The invariants that are checked, and the set of those that are broken.

/// One invariant. The numbers are those of the checker of histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
    I7,
    I8,
    I9,
    I10,
    I11,
    I12,
    I13,
    /// `handle` and `apply` agree, and `needs` names whatever `handle` reads.
    Core,
    /// What belongs to a turn, an attempt or a question that is over changes nothing.
    Over,
    /// Whatever is lost, timers bring a run to its end, or to a person.
    Live,
}

impl Invariant {
    pub const ALL: [Invariant; 16] = [
        Self::I1,
        Self::I2,
        Self::I3,
        Self::I4,
        Self::I5,
        Self::I6,
        Self::I7,
        Self::I8,
        Self::I9,
        Self::I10,
        Self::I11,
        Self::I12,
        Self::I13,
        Self::Core,
        Self::Over,
        Self::Live,
    ];

    /// Its number, and what must hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I1 => "I1: no effect is applied twice, and a key has one request",
            Self::I2 => "I2: a published dispatch belongs to an earlier commit",
            Self::I3 => "I3: what a commit wants said is published or still kept",
            Self::I4 => "I4: one final end, and only the ledger moves after it",
            Self::I5 => "I5: versions and hashes are one chain",
            Self::I6 => "I6: the model is asked after the results of every turn before are committed, each to its call",
            Self::I7 => "I7: no effect starts unclaimed, and none is claimed after the stop",
            Self::I8 => "I8: no claim while the outcome is unknown",
            Self::I9 => "I9: the ledger says what the owner's books say",
            Self::I10 => "I10: no message is ahead of the store",
            Self::I11 => "I11: the attempts of a call have one key and one request",
            Self::I12 => "I12: budgets hold",
            Self::I13 => "I13: a gated dispatch has one approval, unexpired when granted and used once",
            Self::Core => "core: nothing is decided that cannot be applied, or on what was not loaded",
            Self::Over => "over: what belongs to a turn, an attempt or a question that is over changes nothing",
            Self::Live => "live: whatever is lost, timers bring a run to its end, or to a person",
        }
    }

    /// The part of the name before the colon.
    pub fn number(self) -> &'static str {
        self.name().split(':').next().unwrap_or_default()
    }
}

/// A set of invariants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Broken(u16);

impl Broken {
    pub fn add(&mut self, invariant: Invariant) {
        self.0 |= 1 << invariant as u16;
    }

    pub fn add_all(&mut self, other: Broken) {
        self.0 |= other.0;
    }

    pub fn has(self, invariant: Invariant) -> bool {
        self.0 & (1 << invariant as u16) != 0
    }
}
