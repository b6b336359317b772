//! The scripts, and how one is called: by digest, and by its text only when the server does not know it.

use std::borrow::Cow;
use std::sync::LazyLock;

use redis::{Cmd, Value};

use super::connection::Connection;
use super::error::is_unknown_script;
use crate::stats::count;
use crate::{Error, Stats};

/// One script. The text is what the server keeps; the digest names it.
pub(super) struct Script {
    text: &'static str,
    digest: LazyLock<String>,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) static $name: Script = Script {
            text: include_str!(concat!("scripts/", $file)),
            digest: LazyLock::new(|| redis::Script::new(include_str!(concat!("scripts/", $file))).get_hash().to_owned()),
        };)*
    };
}

scripts! {
    COMMIT = "commit.lua";
    LOAD = "load.lua";
    THAW = "thaw.lua";
    FENCE = "fence.lua";
    FREEZE = "freeze.lua";
    JOURNAL = "journal.lua";
    LEASE = "lease.lua";
    DUE_TIMERS = "due_timers.lua";
    DROP_TIMER = "drop_timer.lua";
    PENDING_OUTBOX = "pending_outbox.lua";
    NOW = "now.lua";
    EXPIRABLE = "expirable.lua";
    EXPIRE_RUN = "expire_run.lua";
    EXPIRE_EVIDENCE = "expire_evidence.lua";
}

/// One call of a script: all its keys, then all its arguments.
pub(super) struct Call<'a> {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<Cow<'a, [u8]>>,
}

impl<'a> Call<'a> {
    pub fn new(script: &'static Script, keys: impl IntoIterator<Item = String>) -> Self {
        Self { script, keys: keys.into_iter().collect(), args: Vec::new() }
    }

    pub fn bytes(mut self, arg: &'a [u8]) -> Self {
        self.args.push(Cow::Borrowed(arg));
        self
    }

    pub fn text(self, arg: &'a str) -> Self {
        self.bytes(arg.as_bytes())
    }

    /// An argument that is made for this call, such as a number.
    pub fn made(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.args.push(Cow::Owned(arg.into()));
        self
    }

    /// A number as text.
    pub fn number(self, arg: impl ToString) -> Self {
        self.made(arg.to_string())
    }

    /// Sends the call. One round trip, but for the first one after a server has started or flushed its scripts.
    pub async fn send(self, connection: &Connection, stats: &Stats) -> Result<Value, Error> {
        let sent = match connection.send(&self.command("EVALSHA", &self.script.digest), stats).await {
            Err(error) if is_unknown_script(&error) => {
                count(&stats.retries, 1);
                connection.send(&self.command("EVAL", self.script.text), stats).await
            }
            sent => sent,
        };
        sent.map_err(|error| counted(error.into(), stats))
    }

    fn command(&self, name: &'static str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys);
        for arg in &self.args {
            command.arg(&**arg);
        }
        command
    }
}

/// Counts an error after which a caller may try again.
pub(super) fn counted(error: Error, stats: &Stats) -> Error {
    if matches!(error, Error::Retryable(_)) {
        count(&stats.unavailable, 1);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key a script touches is in KEYS, so that a cluster can check its slot. An indexed name is the only way a
    /// script may name one.
    #[test]
    fn no_script_makes_up_a_key() {
        let scripts = [
            &COMMIT,
            &LOAD,
            &THAW,
            &FENCE,
            &FREEZE,
            &JOURNAL,
            &LEASE,
            &DUE_TIMERS,
            &DROP_TIMER,
            &PENDING_OUTBOX,
            &NOW,
            &EXPIRABLE,
            &EXPIRE_RUN,
            &EXPIRE_EVIDENCE,
        ];
        for script in scripts {
            assert!(script.text.starts_with("#!lua"), "{}", script.text);
            for call in script.text.split("redis.call('").skip(1) {
                let (name, rest) = call.split_once('\'').unwrap();
                assert!(name == "TIME" || name == "INFO" || rest.starts_with(", KEYS["), "{name}{rest}");
            }
        }
    }
}
