//! The call of `commit.lua`.

use super::keys::stubs_field;
use super::reply;
use super::script::{self, Call};
use super::store::RedisStore;
use crate::acknowledged::PER_COMMIT;
use crate::stats::count;
use crate::{Commit, Committed, Error, MAX_DECISION_AGE_MS, OutboxRef, Shard, Standing, address};

impl RedisStore {
    /// Commits, and deletes acknowledged outbox entries of the same shard along the way. They are kept for later unless
    /// the commit is known to be written.
    pub(super) async fn commit_checked(&self, commit: &Commit) -> Result<Committed, Error> {
        let shard = self.keys.shard_of(&commit.address);
        let acknowledged = self.acknowledged.take(shard, PER_COMMIT);
        let guard = PutBack { store: self, shard, ids: acknowledged };
        let sent = self.commit_call(commit, shard, &guard.ids).send(&self.connection, &self.stats).await?;
        let committed = read_reply(reply::read(sent)?, shard)?;
        match &committed {
            Committed::Done(_) => {
                guard.written();
                count(&self.stats.commits, 1);
            }
            Committed::Conflict => count(&self.stats.conflicts, 1),
            Committed::Fenced | Committed::Frozen | Committed::OverQuota => {}
        }
        Ok(committed)
    }

    fn commit_call<'a>(&self, commit: &'a Commit, shard: Shard, acknowledged: &'a [String]) -> Call<'a> {
        let of_it = self.keys.invocation(&commit.address);
        let of_shard = self.keys.shard(shard);
        let keys = [
            of_it.invocation,
            of_it.events,
            of_it.ledger,
            of_shard.outbox,
            of_shard.timers,
            of_shard.members,
            of_shard.ended,
            of_shard.evidence,
            of_shard.meta,
            of_shard.frozen,
        ];
        let optional = |value: Option<String>| value.unwrap_or_default();
        let mut call = Call::new(&script::COMMIT, keys)
            .made(of_it.member)
            .made(optional(commit.expected.map(|basis| basis.version.to_string())))
            .number(commit.decided_at)
            .number(MAX_DECISION_AGE_MS)
            .number(commit.snapshot.version)
            .bytes(&commit.snapshot.head.0)
            .bytes(&commit.snapshot.bytes)
            .text(standing_text(commit.index.standing))
            .text(&commit.index.summary)
            .made(optional(commit.request_digest.map(|digest| digest.to_string())))
            .made(optional(commit.stub_quota.map(|quota| quota.to_string())))
            .made(stubs_field(&commit.address))
            .number(commit.events.len())
            .number(commit.entries.len())
            .number(commit.timers.len())
            .number(commit.outbox.len())
            .number(acknowledged.len())
            .made(commit.expected.map(|basis| basis.hash.0.to_vec()).unwrap_or_default())
            .text(if commit.thaws { "1" } else { "" });
        for event in &commit.events {
            call = call.made([&event.hash.0, event.bytes.as_slice()].concat());
        }
        for entry in &commit.entries {
            let flag: &[u8] = if entry.settled { b"1" } else { b"0" };
            call = call.text(entry.key.as_str()).made([flag, &entry.bytes].concat());
        }
        for timer in &commit.timers {
            let due = optional(timer.due.map(|due| due.to_string()));
            call = call.made(address::write_timer(&commit.address, &timer.name)).made(due);
        }
        for entry in &commit.outbox {
            call = call.bytes(entry.event_id.0.as_bytes()).bytes(&entry.bytes);
        }
        acknowledged.iter().fold(call, |call, id| call.text(id))
    }
}

/// Gives taken IDs back when the commit is not written, is in doubt, or its future is dropped.
struct PutBack<'a> {
    store: &'a RedisStore,
    shard: Shard,
    ids: Vec<String>,
}

impl PutBack<'_> {
    fn written(mut self) {
        self.ids.clear();
    }
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        let ids = std::mem::take(&mut self.ids);
        self.store.acknowledged.put_back(self.shard, ids, &self.store.stats);
    }
}

fn read_reply(parts: Vec<String>, shard: Shard) -> Result<Committed, Error> {
    let mut parts = parts.into_iter();
    let status = parts.next().unwrap_or_default();
    match status.as_str() {
        "done" => Ok(Committed::Done(parts.map(|id| OutboxRef { shard, id }).collect())),
        "fenced" => Ok(Committed::Fenced),
        "conflict" => Ok(Committed::Conflict),
        "frozen" => Ok(Committed::Frozen),
        "quota" => Ok(Committed::OverQuota),
        "regress" => {
            let key = parts.next().unwrap_or_default();
            Err(Error::Refused(format!("effect {key} is settled and would become unsettled")))
        }
        "gap" => Err(Error::Corrupt("the event list is not as long as the version says".into())),
        other => Err(Error::Corrupt(format!("unexpected reply of the commit script: {other}"))),
    }
}

/// How a standing is written; the scripts know `ended`.
pub(super) fn standing_text(standing: Standing) -> &'static str {
    match standing {
        Standing::Open => "open",
        Standing::Suspended => "suspended",
        Standing::EndedUnresolved => "ended_unresolved",
        Standing::Ended => "ended",
    }
}

/// The inverse of [`standing_text`].
pub(super) fn read_standing(text: &str) -> Option<Standing> {
    [Standing::Open, Standing::Suspended, Standing::EndedUnresolved, Standing::Ended]
        .into_iter()
        .find(|standing| standing_text(*standing) == text)
}
