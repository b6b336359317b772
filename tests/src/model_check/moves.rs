//! What can happen next: every move that some part of the system, the world outside, or time could make in a state.

use protocol::{Message, TimerName};

use super::history::History;
use super::inputs::{self, dispatch, query};
use super::model::Checked;
use super::mutants::Mutant;
use super::names::{AttemptAt, CallAt, Cause, EffectAt, Entry, Letter, Said, TimerAt, Word, small};
use super::scenario::invocation;
use super::world::{Running, World};

/// One move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// The decision service asks the model and validation judges its answer.
    Ask {
        step: u8,
        round: u8,
        choice: u8,
    },
    /// A replica loads the run and decides on this.
    Load(Cause),
    /// It commits what it has decided, if the store is still where it was.
    Commit(u8),
    /// An executor starts a read, and reports.
    Read(AttemptAt, Said),
    /// An executor finds a claim's lease run out, and reports what nobody can know.
    ReportExpired(AttemptAt),
    /// An executor sends a claimed effect, if its lease lasts.
    Send(u8),
    CannotSend(u8),
    /// A request arrives at its owner, which applies it or refuses.
    Arrive(AttemptAt, bool),
    /// The owner's answer reaches the executor, which reports it.
    Hear(u8),
    /// The executor waits no longer, and reports what it does not know.
    GiveUp(u8),
    /// The reconciler asks the owner, and reports.
    Reconcile {
        attempt: AttemptAt,
        probe: u8,
        word: Word,
    },
    /// A person answers what the run waits for.
    Say(Letter),
    /// A person looks into the books, and settles an effect for good.
    Settle(EffectAt),
    /// Time passes, until something is due.
    Pass,
    CrashLoaded(u8),
    CrashRunning(u8),
    /// Planted: an entry of the outbox dies with its process.
    ForgetOutbox(Entry),
    /// Planted: what a decision would say is published before it is committed.
    PublishEarly(u8),
    /// Planted: an effect is sent without a claim.
    SendUnclaimed(AttemptAt),
}

/// The places of a list, as moves name them.
fn places<T>(list: &[T]) -> impl Iterator<Item = (u8, &T)> {
    (0..).zip(list)
}

impl Checked {
    /// Every move that may change this state.
    pub(super) fn moves(&self, world: &World, moves: &mut Vec<Move>) {
        for entry in world.history.messages.keys().filter(|entry| !world.lost.contains(entry)) {
            let deliveries = self.deliveries(world, *entry);
            if self.mutant == Some(Mutant::ForgetOutbox) && world.left.crash > 0 {
                moves.push(Move::ForgetOutbox(*entry));
            }
            moves.extend(deliveries);
        }
        self.load(world, moves);
        for (at, loaded) in places(&world.loaded) {
            moves.push(Move::Commit(at));
            if world.left.crash > 0 {
                moves.push(Move::CrashLoaded(at));
            }
            if self.mutant == Some(Mutant::PublishBeforeCommit) && world.is_current(loaded) {
                moves.push(Move::PublishEarly(at));
            }
        }
        for (at, running) in places(&world.running) {
            self.run(world, at, *running, moves);
        }
        for attempt in &world.owners.wire {
            let Some(effect) = self.effect_of(&world.history, *attempt) else {
                continue;
            };
            let account = &world.owners.accounts[usize::from(effect)];
            let choices = account.choices(self.effects[usize::from(effect)].1, self.scenario.rejects);
            moves.extend(choices.iter().map(|apply| Move::Arrive(*attempt, *apply)));
        }
        if self.next_due(world).is_some() {
            moves.push(Move::Pass);
        }
    }

    /// What an entry of the outbox can bring about. Delivering it again is the same move again.
    pub(super) fn deliveries(&self, world: &World, entry: Entry) -> Vec<Move> {
        let mut moves = Vec::new();
        match entry {
            // The journal: a turn that was answered once is answered the same again.
            Entry::Turn { step, round, .. } => {
                let mut choices = self.choices(step, round).map(|choice| Letter::Verdict { step, round, choice });
                if !choices.any(|letter| world.letters.contains(&letter)) {
                    moves.extend(self.choices(step, round).map(|choice| Move::Ask { step, round, choice }));
                }
            }
            Entry::Dispatch(attempt) => match dispatch(&world.history, attempt).map(|dispatch| &dispatch.effect) {
                Some(None) => {
                    moves.push(Move::Read(attempt, Said::Done));
                    if world.left.transient > 0 {
                        moves.push(Move::Read(attempt, Said::Transient));
                    }
                }
                Some(Some(_)) => {
                    moves.push(Move::ReportExpired(attempt));
                    if self.has_executor(world) {
                        moves.push(Move::Load(Cause::Claim(attempt)));
                        if self.mutant.is_some_and(Mutant::sends_unclaimed) {
                            moves.push(Move::SendUnclaimed(attempt));
                        }
                    }
                }
                None => {}
            },
            Entry::Query { attempt, probe } => {
                let Some(effect) = query(&world.history, attempt, probe)
                    .and_then(|query| inputs::effect_of(&self.effects, &query.effect_key))
                else {
                    return moves;
                };
                let word = world.owners.accounts[usize::from(effect)].word();
                moves.push(Move::Reconcile { attempt, probe, word });
                if world.left.pending > 0 {
                    moves.push(Move::Reconcile { attempt, probe, word: Word::Pending });
                }
            }
            Entry::Ended { .. } => {
                let Some(Message::RunEnded(ended)) = world.history.messages.get(&entry).map(|out| &out.message) else {
                    return moves;
                };
                let (step, round) = (small(ended.scope.step.0), small(ended.scope.round.0));
                if ended.proposal.is_some() {
                    moves.extend([true, false].map(|own| Move::Say(Letter::Approve { step, round, own })));
                    moves.push(Move::Say(Letter::Reject { step, round }));
                }
                if ended.question.is_some() {
                    moves.extend([true, false].map(|named| Move::Say(Letter::Clarify { step, named })));
                }
                let open = ended.effects.iter().filter(|effect| effect.status.is_unresolved());
                moves.extend(open.filter_map(|effect| inputs::effect_of(&self.effects, &effect.key)).map(Move::Settle));
            }
        }
        moves
    }

    /// What can be loaded: any letter, any timer that is due.
    fn load(&self, world: &World, moves: &mut Vec<Move>) {
        if !self.has_replica(world) {
            return;
        }
        moves.extend(world.letters.iter().map(|letter| Move::Load(Cause::Letter(*letter))));
        let due = world.history.timers().filter(|(_, due)| *due <= world.late);
        moves.extend(
            due.filter_map(|(timer, _)| self.timer_at(&world.history, timer.name)).map(Cause::Timer).map(Move::Load),
        );
    }

    fn run(&self, world: &World, at: u8, running: Running, moves: &mut Vec<Move>) {
        let arrived = !world.owners.wire.contains(&running.attempt);
        match running.sent {
            false => {
                moves.push(Move::Send(at));
                if world.left.unsent > 0 {
                    moves.push(Move::CannotSend(at));
                }
            }
            true => {
                if arrived {
                    moves.push(Move::Hear(at));
                }
                if running.lease == 0 || world.left.unknown > 0 {
                    moves.push(Move::GiveUp(at));
                }
            }
        }
        if world.left.crash > 0 {
            moves.push(Move::CrashRunning(at));
        }
    }

    /// A free replica of the committer, or of whatever else commits.
    fn has_replica(&self, world: &World) -> bool {
        self.scenario.racing == 0 || world.loaded.len() < self.scenario.racing
    }

    fn has_executor(&self, world: &World) -> bool {
        let claiming = world.loaded.iter().filter(|loaded| matches!(loaded.cause, Cause::Claim(_))).count();
        self.has_replica(world) && claiming + world.running.len() < self.scenario.executors
    }

    pub(super) fn effect_of(&self, history: &History, attempt: AttemptAt) -> Option<EffectAt> {
        let dispatch = dispatch(history, attempt)?;
        inputs::effect_of(&self.effects, &dispatch.effect.as_ref()?.key)
    }

    /// Ticks from the newest event to whatever is due next.
    pub(super) fn next_due(&self, world: &World) -> Option<u64> {
        let timers = world.history.timers().map(|(_, due)| due).filter(|due| *due > world.late);
        let leases = world.running.iter().map(|running| running.lease).filter(|lease| *lease > 0);
        timers.chain(leases.map(|lease| world.late + lease)).min()
    }

    pub(super) fn timer_at(&self, history: &History, name: TimerName) -> Option<TimerAt> {
        Some(match name {
            TimerName::Deadline => TimerAt::Deadline,
            TimerName::Decide => TimerAt::Decide,
            TimerName::Approval => TimerAt::Approval,
            TimerName::Grace => TimerAt::Grace,
            TimerName::Call(call_id) => TimerAt::Call(CallAt::of(invocation(), history.state.turn(), call_id)?),
        })
    }
}
