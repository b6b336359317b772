//! The state that this process has committed last, so that the next input need not load it. A remembered state may lead
//! to a commit, which checks the version; it never leads to Ignored, a dead letter or a freeze: those load first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use protocol::{Basis, Digest, Event, Input, Invocation, Timestamp, Version};

use crate::Address;
use crate::decide::{Decider, all_needs};
use crate::loading::Loading;
use crate::recent::Recent;
use crate::stats::count;

/// How many bytes of snapshots a process remembers.
pub const REMEMBERED_BYTES: usize = 64 << 20;
/// After this long the store's own time is asked for again, and the state with it.
const TRUSTED_FOR: Duration = Duration::from_secs(10);
/// Hashes of the newest events, to check a basis with. An older one is read.
const HASHES: usize = 32;

/// A process's memory of its own commits.
pub(crate) struct Memory {
    states: Recent<Known>,
    /// Time since some fixed start, monotonic.
    elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
}

struct Known {
    state: Invocation,
    read: Read,
    hashes: VecDeque<(Version, Digest)>,
}

/// When the store was read last: its own time, and ours when the answer was here. What has passed since then is added;
/// the sum never runs ahead of a store whose clock runs evenly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    store: Timestamp,
    ours: Duration,
}

impl Decider {
    /// The same, with a memory of its own commits. `elapsed` is a monotonic clock.
    pub fn remembering(mut self, bytes: usize, elapsed: Arc<dyn Fn() -> Duration + Send + Sync>) -> Self {
        self.memory = Some(Arc::new(Memory { states: Recent::new(bytes), elapsed }));
        self
    }

    /// To be noted as soon as the store's answer is here.
    pub(crate) fn read_at(&self, store: Timestamp) -> Option<Read> {
        self.memory.as_ref().map(|memory| Read { store, ours: (memory.elapsed)() })
    }

    /// What is remembered, if these inputs can be decided on it.
    pub(crate) fn recall(&self, address: &Address, inputs: &[Input]) -> Option<Loading> {
        let memory = self.memory.as_ref()?;
        if !inputs.iter().all(is_expected) {
            return None;
        }
        let Known { state, read, hashes } = memory.states.take(address)?;
        let passed = (memory.elapsed)().saturating_sub(read.ours);
        let needed: Vec<_> = all_needs(&state, inputs).into_iter().collect();
        if passed > TRUSTED_FOR || !state.ledger.covers(&needed) {
            return None;
        }
        let now = read.store.plus_ms(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
        let expected = Some(Basis { version: state.version, hash: state.head });
        Some(Loading { state, now, expected, frozen: false, tombstone: None, read: Some(read), hashes })
    }

    /// Keeps what was just committed on `before`.
    pub(crate) fn remember(
        &self,
        address: &Address,
        before: &Loading,
        mut state: Invocation,
        events: &[Event],
        bytes: usize,
    ) {
        let (Some(memory), Some(read)) = (&self.memory, before.read) else {
            return;
        };
        if state.is_ended() {
            return;
        }
        state.ledger.mark_committed();
        state.hash_at = None;
        let mut hashes = before.hashes.clone();
        hashes.extend(events.iter().map(|event| (event.version, event.hash)));
        hashes.drain(..hashes.len().saturating_sub(HASHES));
        let evicted = memory.states.put(address.clone(), Known { state, read, hashes }, bytes);
        count(&self.store.stats().remembered_evicted, evicted);
    }
}

/// Whether what this process committed last is likely to be what the input meets: timers want the store's own time, a
/// result of an effect follows a claim, which another process has committed.
fn is_expected(input: &Input) -> bool {
    match input {
        Input::Verdict(_) | Input::EffectAnswered(_) | Input::Control(_) => true,
        Input::CallSettled(settled) => settled.effect_key.is_none(),
        Input::Requested(_) | Input::ClaimRequested(_) | Input::TimerFired(_) => false,
    }
}
