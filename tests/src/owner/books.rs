//! The owner's books: every application as it happened, so that a duplicate shows.

use std::collections::{BTreeMap, HashMap};
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
    Nothing,
}

pub struct Books {
    dedupe: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    applied: Vec<Applied>,
    /// The first application of each key.
    first: HashMap<String, usize>,
    accepted: HashMap<String, Accepted>,
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
                // A line that a crash cut short was never answered for.
                if let Ok(applied) = serde_json::from_str(&line?) {
                    state.enter(applied);
                }
            }
            state.file = Some(file);
        }
        Ok(Self { dedupe: config.dedupe, state: Mutex::new(state) })
    }

    /// Applies a change, once per key while the owner dedupes. Durable when it returns; an error applied nothing.
    pub fn apply(&self, key: &str, fingerprint: Option<String>, request: Value) -> io::Result<Applied> {
        let mut state = self.state();
        state.requests += 1;
        state.apply(self.dedupe, key, fingerprint, request)
    }

    pub(super) fn accept(&self, key: &str, fingerprint: Option<String>, request: Value) {
        let mut state = self.state();
        state.requests += 1;
        if !state.first.contains_key(key) {
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
        match state.first.get(key) {
            Some(at) => Known::Applied(Box::new(state.applied[*at].clone())),
            None if state.accepted.contains_key(key) => Known::Accepted,
            None => Known::Nothing,
        }
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

    fn apply(&mut self, dedupe: bool, key: &str, fingerprint: Option<String>, request: Value) -> io::Result<Applied> {
        if let Some(at) = self.first.get(key).filter(|_| dedupe) {
            return Ok(self.applied[*at].clone());
        }
        let n = self.applied.len() as u64 + 1;
        let applied = Applied { key: key.to_owned(), effect_id: format!("e-{n}"), n, fingerprint, request };
        if let Some(file) = &mut self.file {
            let mut line = serde_json::to_vec(&applied)?;
            line.push(b'\n');
            file.write_all(&line)?;
            file.sync_data()?;
        }
        self.enter(applied.clone());
        Ok(applied)
    }
}
