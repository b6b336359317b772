//! What a commit must be before any store looks at it.

use protocol::{Digest, Version};

use crate::{Commit, Error};

/// Refuses a commit that is not well formed; see [`Commit`].
pub(crate) fn check(commit: &Commit) -> Result<(), Error> {
    let mut last = commit.expected.unwrap_or_default().version;
    let refuse = |why: String| Err(Error::Refused(format!("{}: {why}", commit.address.id)));
    if commit.events.is_empty() {
        let stub = commit.expected.is_none() && commit.stub_quota.is_some();
        if !stub || commit.snapshot.version != Version(0) || commit.snapshot.head != Digest::default() {
            return refuse("a commit without events must be a version-0 stub with a quota".into());
        }
        return Ok(());
    }
    if commit.stub_quota.is_some() {
        return refuse("a commit with events is not a stub and has no quota".into());
    }
    for event in &commit.events {
        if event.version != last.next() {
            return refuse(format!("event {} does not follow version {last}", event.version));
        }
        last = event.version;
    }
    let head = commit.events.last().map(|event| event.hash);
    if commit.snapshot.version != last || Some(commit.snapshot.head) != head {
        return refuse("the snapshot is not at the last event's version and hash".into());
    }
    Ok(())
}
