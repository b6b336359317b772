//! What a failure of Redis means to a caller: try again, give up on the data, or change the settings.

use redis::{ErrorKind, RedisError};

use crate::Error;

/// Codes of replies after which the same call may succeed. A call that was refused with one of them wrote nothing; a
/// script is refused before it starts.
const TRANSIENT: [&str; 14] = [
    "OOM",
    "READONLY",
    "BUSY",
    "LOADING",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "TRYAGAIN",
    "MOVED",
    "ASK",
    "NOSCRIPT",
    "UNBLOCKED",
    "UNKILLABLE",
];

/// Codes of replies that only other settings can change.
const SETTINGS: [&str; 4] = ["NOAUTH", "WRONGPASS", "NOPERM", "NOPROTO"];

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        let message = error.to_string();
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => return Error::Refused(message),
            ErrorKind::UnexpectedReturnType => return Error::Corrupt(message),
            _ => {}
        }
        match error.code() {
            // No reply, so the outcome is unknown, whatever the reason.
            None => Error::Retryable(message),
            Some(code) if TRANSIENT.contains(&code) => Error::Retryable(message),
            Some(code) if SETTINGS.contains(&code) || message.contains("ACL failure in script") => {
                Error::Refused(message)
            }
            Some(_) if message.contains("max number of clients reached") => Error::Retryable(message),
            Some(_) => Error::Corrupt(message),
        }
    }
}

/// Whether the server does not know a script (any more).
pub(super) fn is_unknown_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replied(code: &str) -> Error {
        let reply = format!("-{code} some detail\r\n");
        redis::parse_redis_value(reply.as_bytes()).unwrap().extract_error().unwrap_err().into()
    }

    #[test]
    fn a_reply_that_may_change_by_itself_is_retryable() {
        for code in ["OOM", "READONLY", "BUSY", "LOADING", "CLUSTERDOWN", "MISCONF", "MOVED", "ASK", "TRYAGAIN"] {
            assert!(matches!(replied(code), Error::Retryable(_)), "{code}: {:?}", replied(code));
        }
    }

    #[test]
    fn a_reply_about_the_data_is_corrupt_and_one_about_settings_is_refused() {
        assert!(matches!(replied("WRONGTYPE"), Error::Corrupt(_)));
        assert!(matches!(replied("ERR"), Error::Corrupt(_)));
        assert!(matches!(replied("NOAUTH"), Error::Refused(_)));
        assert!(matches!(replied("NOPERM"), Error::Refused(_)));
    }

    #[test]
    fn a_lost_connection_is_retryable() {
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert!(matches!(Error::from(lost), Error::Retryable(_)));
    }
}
