//! What a move does. Decisions are the real core's; the rest is what a process, an owner or a person does with them.

use std::sync::Arc;

use protocol::{ClaimRefusal, Ignored, may_start_read};

use super::history::{Decided, History};
use super::inputs::{self, dispatch};
use super::invariants::Invariant;
use super::model::Checked;
use super::moves::Move;
use super::mutants::Mutant;
use super::names::{AttemptAt, Cause, Entry, Letter, Said, Word};
use super::scenario::invocation;
use super::world::{Loaded, Running, World};

impl Checked {
    /// The state after a move; `None` when it changes nothing.
    pub(super) fn act(&self, world: &World, step: &Move) -> Option<World> {
        let mut next = world.clone();
        match step {
            Move::Ask { step, round, choice } => {
                self.say(&mut next, Letter::Verdict { step: *step, round: *round, choice: *choice })?;
            }
            Move::Load(cause) => self.load_cause(&mut next, *cause)?,
            Move::Commit(at) => {
                let loaded = next.loaded.remove(usize::from(*at));
                self.commit(&mut next, &loaded);
            }
            Move::Read(attempt, said) => self.read(&mut next, *attempt, *said)?,
            Move::ReportExpired(attempt) => self.report_expired(&mut next, *attempt)?,
            Move::Send(at) => self.send(&mut next, usize::from(*at)),
            Move::CannotSend(at) => {
                next.left.unsent -= 1;
                report(&mut next, usize::from(*at), Said::NothingSent);
            }
            Move::Arrive(attempt, apply) => self.arrive(&mut next, *attempt, *apply)?,
            Move::Hear(at) => {
                let running = world.running[usize::from(*at)];
                let effect = self.effect_of(&world.history, running.attempt)?;
                let said = match world.owners.accounts[usize::from(effect)].word() {
                    Word::Committed(_) => Said::Done,
                    Word::Rejected | Word::NotApplied | Word::Pending => Said::Refused,
                };
                report(&mut next, usize::from(*at), said);
            }
            Move::GiveUp(at) => {
                if world.running[usize::from(*at)].lease > 0 {
                    next.left.unknown -= 1;
                }
                report(&mut next, usize::from(*at), Said::Unknown);
            }
            Move::Reconcile { attempt, probe, word } => {
                let letter = Letter::Resolution { attempt: *attempt, probe: *probe, word: *word };
                self.say(&mut next, letter)?;
                next.left.pending -= u8::from(*word == Word::Pending);
            }
            Move::Say(letter) => self.say(&mut next, *letter)?,
            Move::Settle(effect) => {
                let account = &mut next.owners.accounts[usize::from(*effect)];
                let applied = account.applied.first().copied();
                account.refused |= applied.is_none();
                self.say(&mut next, Letter::Settled { effect: *effect, applied })?;
            }
            Move::Pass => {
                let passed = self.next_due(world)? - world.late;
                next.late += passed;
                for running in &mut next.running {
                    running.lease = running.lease.saturating_sub(passed);
                }
            }
            Move::CrashLoaded(at) => {
                next.loaded.remove(usize::from(*at));
                next.left.crash -= 1;
            }
            Move::CrashRunning(at) => {
                next.running.remove(usize::from(*at));
                next.left.crash -= 1;
            }
            Move::ForgetOutbox(entry) => {
                next.left.crash -= 1;
                next.lost.insert(*entry);
                if self.deliveries(world, *entry).iter().any(|step| self.act(world, step).is_some()) {
                    next.broken.add(Invariant::I3);
                }
            }
            Move::PublishEarly(at) => self.publish_early(&mut next, usize::from(*at)),
            Move::SendUnclaimed(attempt) => self.send_unclaimed(&mut next, *attempt)?,
        }
        next.letters.retain(|letter| !self.is_over(&next.history, *letter));
        next.broken.add_all(self.broken_in(&next.history, next.late));
        next.settle();
        next.audit(|key| inputs::effect_of(&self.effects, key));
        Some(next)
    }

    /// Something is said, unless it was said before or can change nothing any more.
    fn say(&self, next: &mut World, letter: Letter) -> Option<()> {
        (!self.is_over(&next.history, letter) && next.letters.insert(letter)).then_some(())
    }

    pub(super) fn decide(&self, history: &History, cause: Cause, late: u64) -> Option<Decided> {
        let input = || inputs::input(&self.scenario, &self.effects, history, cause);
        history.decide(&self.histories, cause, late, input)
    }

    /// Loads and decides. What changes nothing is over at once; what is to be committed is kept until then.
    fn load_cause(&self, next: &mut World, cause: Cause) -> Option<()> {
        match self.decide(&next.history, cause, next.late)? {
            Decided::Ignored(_) => return None,
            Decided::Events(_) => {}
        }
        let loaded = Loaded { cause, history: Arc::clone(&next.history), late: next.late };
        match self.scenario.racing {
            0 => self.commit(next, &loaded),
            _ => next.loaded.push(loaded),
        }
        Some(())
    }

    /// The version check, then the commit. A conflict leaves the input where it was: it is loaded again.
    fn commit(&self, next: &mut World, loaded: &Loaded) {
        if !next.is_current(loaded) && self.mutant != Some(Mutant::NoVersionCheck) {
            return;
        }
        if loaded.history != next.history {
            next.broken.add(Invariant::I5);
        }
        let Some(Decided::Events(history)) = self.decide(&loaded.history, loaded.cause, loaded.late) else {
            return;
        };
        next.commit(history);
        if let Cause::Claim(attempt) = loaded.cause {
            let lease = dispatch(&next.history, attempt).map_or(0, |dispatch| dispatch.timeout_ms);
            next.running.push(Running { attempt, lease, sent: false });
        }
    }

    fn read(&self, next: &mut World, attempt: AttemptAt, said: Said) -> Option<()> {
        let dispatch = dispatch(&next.history, attempt)?;
        may_start_read(&next.history.state, dispatch, next.history.time(next.late)).ok()?;
        self.say(next, Letter::Result { attempt, said })?;
        next.left.transient -= u8::from(said == Said::Transient);
        Some(())
    }

    fn report_expired(&self, next: &mut World, attempt: AttemptAt) -> Option<()> {
        match self.decide(&next.history, Cause::Claim(attempt), next.late)? {
            Decided::Ignored(Ignored::Claim(ClaimRefusal::Expired)) => {}
            Decided::Ignored(_) | Decided::Events(_) => return None,
        }
        self.say(next, Letter::Result { attempt, said: Said::Unknown })
    }

    /// The lease is looked at just before anything is written.
    fn send(&self, next: &mut World, at: usize) {
        let Running { attempt, lease, .. } = next.running[at];
        if lease == 0 {
            return report(next, at, Said::NothingSent);
        }
        if !next.history.facts.is_claimed(attempt.id(invocation())) {
            next.broken.add(Invariant::I7);
        }
        next.running[at].sent = true;
        next.owners.wire.insert(attempt);
    }

    fn arrive(&self, next: &mut World, attempt: AttemptAt, apply: bool) -> Option<()> {
        let effect = usize::from(self.effect_of(&next.history, attempt)?);
        next.owners.wire.remove(&attempt);
        let request = |attempt| {
            let effect = dispatch(&next.history, attempt).and_then(|dispatch| dispatch.effect.as_ref());
            effect.map(|effect| effect.request_fingerprint)
        };
        let account = &mut next.owners.accounts[effect];
        if account.applied.iter().any(|before| request(*before) != request(attempt)) {
            next.broken.add(Invariant::I1);
        }
        account.take(attempt, self.effects[effect].1, apply);
        Some(())
    }

    fn publish_early(&self, next: &mut World, at: usize) {
        let loaded = &next.loaded[at];
        let Some(Decided::Events(would_be)) = self.decide(&loaded.history, loaded.cause, loaded.late) else {
            return;
        };
        let mut early = would_be.messages.keys().filter(|entry| !next.history.messages.contains_key(entry));
        if early.any(|entry| matches!(entry, Entry::Dispatch(_))) {
            next.broken.add(Invariant::I2);
        }
    }

    fn send_unclaimed(&self, next: &mut World, attempt: AttemptAt) -> Option<()> {
        let dispatch = dispatch(&next.history, attempt)?;
        let refusal = self.decide(&next.history, Cause::Claim(attempt), next.late)?;
        let takes = match (self.mutant?, refusal) {
            (Mutant::SkipClaim, Decided::Events(_)) => true,
            (Mutant::ClaimAfterCancel, Decided::Ignored(Ignored::Claim(ClaimRefusal::Revoked))) => true,
            (_, Decided::Events(_) | Decided::Ignored(_)) => false,
        };
        let running = Running { attempt, lease: dispatch.timeout_ms, sent: false };
        takes.then(|| next.running.push(running))
    }
}

/// An executor says what an attempt came to, and is free.
fn report(next: &mut World, at: usize, said: Said) {
    let running = next.running.remove(at);
    next.letters.insert(Letter::Result { attempt: running.attempt, said });
}
