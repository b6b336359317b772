//! The owner's books: every application as it happened, so that a duplicate shows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Faults, OwnerConfig};

/// One application of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    pub key: String,
    pub effect_id: String,
    /// Counts all applications of this owner, from 1.
    pub n: u64,
    /// The request fingerprint that came with it.
    pub fingerprint: Option<String>,
    pub request: Value,
}

/// What an owner knows of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Known {
    Applied(Box<Applied>),
    Accepted,
    Closed,
    Nothing,
}

/// Why nothing was applied.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("the key belongs to the request {0}")]
    Taken(String),
    #[error("the key is closed")]
    Closed,
    /// Not durable is not applied: the books decide, and they have nothing.
    #[error(transparent)]
    Unwritten(#[from] io::Error),
}

/// A tombstone, as it stands in the file.
#[derive(Serialize, Deserialize)]
struct Tombstone {
    closed: String,
}

pub struct Books {
    dedupe: bool,
    fingerprints: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    applied: Vec<Applied>,
    /// The first application of each key.
    first: HashMap<String, usize>,
    accepted: HashMap<String, Accepted>,
    closed: BTreeSet<String>,
    requests: u64,
    faults: Faults,
    file: Option<File>,
}

/// A change that was accepted and not applied yet.
struct Accepted {
    fingerprint: Option<String>,
    request: Value,
    asked: u32,
}

impl Books {
    pub fn open(config: OwnerConfig) -> io::Result<Self> {
        let mut state = State { faults: config.faults, ..State::default() };
        if let Some(path) = &config.books {
            let file = File::options().create(true).append(true).read(true).open(path)?;
            for line in BufReader::new(file.try_clone()?).lines() {
                let line = line?;
                // A line that a crash cut short was never answered for.
                if let Ok(applied) = serde_json::from_str(&line) {
                    state.enter(applied);
                } else if let Ok(Tombstone { closed }) = serde_json::from_str(&line) {
                    state.closed.insert(closed);
                }
            }
            state.file = Some(file);
        }
        Ok(Self { dedupe: config.dedupe, fingerprints: config.fingerprints, state: Mutex::new(state) })
    }

    /// Applies a change, once per key while the owner dedupes. Durable when it returns; an error applied nothing.
    pub fn apply(&self, key: &str, fingerprint: Option<String>, request: Value) -> Result<Applied, Refused> {
        let mut state = self.state();
        state.requests += 1;
        let fingerprint = fingerprint.filter(|_| self.fingerprints);
        state.apply(self.dedupe, key, fingerprint, request)
    }

    /// Closes a key that nothing was applied under; what is known of it then. Durable when it returns.
    pub fn close(&self, key: &str) -> io::Result<Known> {
        let mut state = self.state();
        if !state.first.contains_key(key) && !state.accepted.contains_key(key) && !state.closed.contains(key) {
            state.write(&Tombstone { closed: key.to_owned() })?;
            state.closed.insert(key.to_owned());
        }
        Ok(state.known(key))
    }

    pub(super) fn accept(&self, key: &str, fingerprint: Option<String>, request: Value) {
        let mut state = self.state();
        state.requests += 1;
        if !state.first.contains_key(key) && !state.closed.contains(key) {
            state.accepted.entry(key.to_owned()).or_insert(Accepted { fingerprint, request, asked: 0 });
        }
    }

    /// What is known of a key. Asking about an accepted one a second time lets it be applied.
    pub fn known(&self, key: &str) -> Known {
        let mut state = self.state();
        if let Some(accepted) = state.accepted.get_mut(key) {
            accepted.asked += 1;
            if accepted.asked > 1
                && let Some(Accepted { fingerprint, request, .. }) = state.accepted.remove(key)
            {
                let _ = state.apply(true, key, fingerprint, request);
            }
        }
        state.known(key)
    }

    /// Every application, in order.
    pub fn applied(&self) -> Vec<Applied> {
        self.state().applied.clone()
    }

    /// How often each key was applied.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for applied in &self.state().applied {
            *counts.entry(applied.key.clone()).or_insert(0) += 1;
        }
        counts
    }

    /// What `GET /books` answers.
    pub fn report(&self) -> Value {
        let counts = self.counts();
        let duplicates: u64 = counts.values().map(|count| count - 1).sum();
        let state = self.state();
        json!({"applied": state.applied, "counts": counts, "duplicates": duplicates, "requests": state.requests})
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    pub(super) fn faults_of(&self, request: &Value) -> Faults {
        Faults::of_request(request).unwrap_or_else(|| self.state().faults.take())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enter(&mut self, applied: Applied) {
        self.first.entry(applied.key.clone()).or_insert(self.applied.len());
        self.applied.push(applied);
    }

    fn known(&self, key: &str) -> Known {
        match self.first.get(key) {
            Some(at) => Known::Applied(Box::new(self.applied[*at].clone())),
            None if self.accepted.contains_key(key) => Known::Accepted,
            None if self.closed.contains(key) => Known::Closed,
            None => Known::Nothing,
        }
    }

    fn apply(
        &mut self,
        dedupe: bool,
        key: &str,
        fingerprint: Option<String>,
        request: Value,
    ) -> Result<Applied, Refused> {
        if let Some(at) = self.first.get(key).filter(|_| dedupe) {
            let applied = &self.applied[*at];
            return match (&applied.fingerprint, &fingerprint) {
                (Some(theirs), Some(ours)) if theirs != ours => Err(Refused::Taken(theirs.clone())),
                _ => Ok(applied.clone()),
            };
        }
        if self.closed.contains(key) {
            return Err(Refused::Closed);
        }
        let n = self.applied.len() as u64 + 1;
        let applied = Applied { key: key.to_owned(), effect_id: format!("e-{n}"), n, fingerprint, request };
        self.write(&applied)?;
        self.enter(applied.clone());
        Ok(applied)
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            let mut line = serde_json::to_vec(line)?;
            line.push(b'\n');
            file.write_all(&line)?;
            file.sync_data()?;
        }
        Ok(())
    }
}
