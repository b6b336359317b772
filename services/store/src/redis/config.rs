//! Where the Redis store is, and the bounds it works within.

use std::fmt;
use std::time::Duration;

use crate::Error;

/// Settings of a [`super::RedisStore`]; [`RedisConfig::new`] has the defaults.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// `redis://` or `rediss://` for one server; `redis+cluster://` or `rediss+cluster://`, or several addresses with
    /// commas between them, for a cluster.
    pub url: String,
    /// First part of every key; no braces, spaces or control characters.
    pub prefix: String,
    /// Fixed for the life of the stored data; at least 1.
    pub shards: u16,
    /// How long a call waits for its answer before its outcome is unknown.
    pub response_timeout_ms: u64,
    /// Multiplexed connections to each server; at least 1. The server reads 16 KiB from each before it syncs its log
    /// once for all, so they bound how many commits one sync may carry.
    pub connections: usize,
    /// How many calls may be in flight on all connections together; at least 1.
    pub window: usize,
}

impl RedisConfig {
    /// The default settings for this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: "turnwright".into(),
            shards: 16,
            response_timeout_ms: 5_000,
            connections: 16,
            window: 256,
        }
    }

    pub(super) fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.response_timeout_ms)
    }

    /// Refuses settings that no store can work with, all of them at once.
    pub(super) fn check(&self) -> Result<(), Error> {
        let strange = |c: char| matches!(c, '{' | '}') || c.is_whitespace() || c.is_control();
        let findings = [
            (self.prefix.is_empty() || self.prefix.contains(strange), "prefix: expected text without braces or spaces"),
            (self.shards == 0, "shards: expected at least 1"),
            (self.response_timeout_ms == 0, "response_timeout_ms: expected at least 1"),
            (self.connections == 0, "connections: expected at least 1"),
            (self.window == 0, "window: expected at least 1"),
        ];
        let bad: Vec<_> = findings.iter().filter(|(bad, _)| *bad).map(|(_, finding)| *finding).collect();
        if bad.is_empty() { Ok(()) } else { Err(Error::Refused(bad.join("; "))) }
    }

    /// What the URL names.
    pub(super) fn server(&self) -> Server {
        let urls: Vec<&str> = self.url.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
        let first = urls.first().copied().unwrap_or_default();
        let scheme = first.split_once("://").map_or("redis", |(scheme, _)| scheme);
        let plain = scheme.trim_end_matches("+cluster");
        if urls.len() < 2 && plain == scheme {
            return Server::Single(self.url.trim().to_owned());
        }
        let node = |url: &&str| format!("{plain}://{}", url.split_once("://").map_or(*url, |(_, rest)| rest));
        Server::Cluster(urls.iter().map(node).collect())
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("url", &redacted(&self.url))
            .field("prefix", &self.prefix)
            .field("shards", &self.shards)
            .field("response_timeout_ms", &self.response_timeout_ms)
            .field("connections", &self.connections)
            .field("window", &self.window)
            .finish()
    }
}

/// One server, or some nodes of a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Server {
    Single(String),
    Cluster(Vec<String>),
}

/// The URL without what may be a password: everything between a scheme and the last `@` of its address.
fn redacted(url: &str) -> String {
    let one = |url: &str| {
        let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
        match rest.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}://***@{host}"),
            None => url.to_owned(),
        }
    };
    url.split(',').map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_by_its_scheme_or_by_several_addresses() {
        let server = |url: &str| RedisConfig::new(url).server();
        assert_eq!(server("redis://h:1/2"), Server::Single("redis://h:1/2".into()));
        assert_eq!(server("rediss+cluster://u:p@h:1"), Server::Cluster(vec!["rediss://u:p@h:1".into()]));
        let two = Server::Cluster(vec!["redis://a:1".into(), "redis://b:2".into()]);
        for url in ["redis://a:1,redis://b:2", "redis+cluster://a:1, b:2", "redis+cluster://a:1,redis+cluster://b:2"] {
            assert_eq!(server(url), two, "{url}");
        }
    }

    #[test]
    fn a_password_is_never_printed() {
        let config = RedisConfig::new("rediss://user:canary@a:1,rediss://:can@ary@b:2");
        assert!(format!("{config:?}").contains("rediss://***@a:1,rediss://***@b:2"), "{config:?}");
    }

    #[test]
    fn bad_settings_are_reported_together() {
        let config = RedisConfig { prefix: "{a}".into(), shards: 0, window: 0, ..RedisConfig::new("redis://h") };
        let error = config.check().unwrap_err().to_string();
        assert!(["prefix", "shards", "window"].iter().all(|key| error.contains(key)), "{error}");
    }
}
