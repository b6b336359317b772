//! Identities and other newtypes of the protocol (M15). Every one is derived from content and position, never from
//! chance: this module has no source of randomness and no clock.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number_newtype {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl $name {
            /// The one after this.
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_newtype!(
    /// The whole task. Chosen by the caller; the key of every message.
    InvocationId
);
uuid_newtype!(
    /// One logical request of one turn: UUIDv5(invocation, step, round, ordinal).
    CallId
);
uuid_newtype!(
    /// One try of a call: UUIDv5(Call ID, attempt number).
    AttemptId
);
uuid_newtype!(
    /// One published message: UUIDv5(invocation, version, ordinal, event hash). Equal whenever it is published again.
    EventId
);

text_newtype!(
    /// Whose task this is; proven by ingress, never by the payload alone (S4).
    Tenant
);
text_newtype!(
    /// On whose behalf the run acts.
    Actor
);
text_newtype!(
    /// The caller's name for the kind of task; on every event and metric (M25).
    TaskType
);
text_newtype!(
    /// Names an agent profile.
    AgentName
);
text_newtype!(
    /// Names a tool of the registry.
    ToolName
);
text_newtype!(
    /// One business change, stable over retries and restarts, enforced by its owner (M15). Lower-case hex of a SHA-256.
    EffectKey
);

number_newtype!(
    /// The number of events an invocation has: the state version.
    Version, u64
);
number_newtype!(
    /// A turn's number inside its invocation, from 1.
    Step, u32
);
number_newtype!(
    /// A repair inside a step, from 0.
    Round, u32
);
number_newtype!(
    /// A run between suspensions, from 1.
    Segment, u32
);
number_newtype!(
    /// One try of a call, from 1.
    AttemptNumber, u32
);
number_newtype!(
    /// One question to an effect's owner, from 1.
    Probe, u32
);
number_newtype!(
    /// Raised whenever a shard was rebuilt or restored from an older copy.
    Epoch, u64
);

impl Epoch {
    /// Nothing was rebuilt yet.
    pub(crate) fn is_first(&self) -> bool {
        *self == Self::default()
    }
}

impl CallId {
    /// The Call ID at a position of a plan.
    pub fn derive(invocation: InvocationId, step: Step, round: Round, ordinal: u32) -> Self {
        Self(Uuid::new_v5(&invocation.0, format!("call/{step}/{round}/{ordinal}").as_bytes()))
    }
}

impl AttemptId {
    /// The Attempt ID of a call's n-th try.
    pub fn derive(call: CallId, number: AttemptNumber) -> Self {
        Self(Uuid::new_v5(&call.0, format!("attempt/{number}").as_bytes()))
    }
}

impl EventId {
    /// The identity of the `ordinal`-th message that the event at `basis` causes.
    pub fn derive(invocation: InvocationId, basis: Basis, ordinal: u32) -> Self {
        let name = format!("event/{}/{ordinal}/{}", basis.version, basis.hash);
        Self(Uuid::new_v5(&invocation.0, name.as_bytes()))
    }

    /// The identity of an answer to a message with that basis. `name` tells the answers to one basis apart: what answers,
    /// and which call, attempt or probe.
    pub fn answer(invocation: InvocationId, basis: Basis, name: &str) -> Self {
        let name = format!("answer/{}/{}/{name}", basis.version, basis.hash);
        Self(Uuid::new_v5(&invocation.0, name.as_bytes()))
    }
}

/// Milliseconds since the Unix epoch, by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This time plus so many milliseconds; saturates.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to this; zero when `earlier` is later.
    pub fn ms_since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these parts, each prefixed by its length, under a domain name so that two uses never collide.
    pub fn of(domain: &str, parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in std::iter::once(&domain.as_bytes()).chain(parts) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Reads 64 hexadecimal digits, of either case.
    pub fn from_hex(text: &str) -> Option<Self> {
        fn digit(byte: u8) -> Option<u8> {
            match byte {
                b'0'..=b'9' => Some(byte - b'0'),
                b'a'..=b'f' => Some(byte - b'a' + 10),
                b'A'..=b'F' => Some(byte - b'A' + 10),
                _ => None,
            }
        }
        let text: &[u8; 64] = text.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_chunks::<2>().0) {
            *byte = digit(pair[0])? * 16 + digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// The 64 lower-case digits.
    fn hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.hex()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex = self.hex();
        serializer.serialize_str(std::str::from_utf8(&hex).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;

        impl serde::de::Visitor<'_> for Hex {
            type Value = Digest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Digest, E> {
                Digest::from_hex(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Hex)
    }
}

/// What a message was based on: the event that caused it. Every internal message carries one, every answer echoes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Basis {
    pub version: Version,
    pub hash: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_from_its_hexadecimal_form_and_from_nothing_else() {
        let digest = Digest::of("a", &[b"b"]);
        let text = digest.to_string();
        assert_eq!(text.len(), 64);
        assert_eq!(Digest::from_hex(&text), Some(digest));
        assert_eq!(Digest::from_hex(&text.to_uppercase()), Some(digest));
        assert_eq!(Digest(std::array::from_fn(|i| i as u8)).to_string()[..8], *"00010203");
        for wrong in ["", &text[1..], &format!("{text}0"), &text.replacen(&text[..1], "+", 1)] {
            assert_eq!(Digest::from_hex(wrong), None);
        }
    }

    #[test]
    fn a_digest_is_the_same_text_in_json_and_in_messages_for_people() {
        let digest = Digest::of("a", &[b"b"]);
        assert_eq!(format!("{digest:?}"), digest.to_string());
        assert_eq!(serde_json::to_value(digest).unwrap(), serde_json::json!(digest.to_string()));
        assert_eq!(serde_json::from_value::<Digest>(serde_json::json!(digest.to_string())).unwrap(), digest);
        for wrong in [serde_json::json!("00"), serde_json::json!(7)] {
            let error = serde_json::from_value::<Digest>(wrong).unwrap_err().to_string();
            assert!(error.ends_with("expected 64 hexadecimal digits"), "{error}");
        }
    }

    #[test]
    fn parts_and_domains_never_run_together() {
        assert_ne!(Digest::of("a", &[b"bc"]), Digest::of("ab", &[b"c"]));
        assert_ne!(Digest::of("a", &[b"b", b"c"]), Digest::of("a", &[b"bc"]));
    }
}
