//! Takes changed files while the service runs: registry and policies are read again on an interval and taken, both
//! together, when they have changed and can be used. What cannot be used is refused aloud, and what is in force stays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use chassis::registry::{Registry, RegistryProblems};
use chassis::{Failure, Metrics, Periodic, Reply};
use protocol::Digest;

use crate::policy::{Policy, PolicyFiles, PolicyProblems};
use crate::{DecisionLimits, Judge, SchemaProblems};

/// Looks at the files, by `outcome`: `taken` or `refused`, each once a version.
const RELOADS: &str = "turnwright.reloads";
const INTERVAL: Duration = Duration::from_secs(2);

/// Why files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error(transparent)]
    Registry(#[from] RegistryProblems),
    #[error(transparent)]
    Policy(#[from] PolicyProblems),
    #[error(transparent)]
    Schema(#[from] SchemaProblems),
}

/// What is in force, with the digests of the files it came from.
pub(crate) struct Current {
    pub judge: Judge,
    pub registry_digest: Digest,
    pub policy_digest: Digest,
}

impl Current {
    pub fn new(registry: &Registry, policy: Arc<Policy>) -> Result<Self, SchemaProblems> {
        let (registry_digest, policy_digest) = (registry.digest, policy.digest);
        let judge = Judge::new(registry, policy, DecisionLimits::default())?;
        Ok(Self { judge, registry_digest, policy_digest })
    }

    fn digests(&self) -> (Digest, Digest) {
        (self.registry_digest, self.policy_digest)
    }
}

/// What is in force, for whoever judges and for whoever replaces it.
pub(crate) type InForce = Arc<RwLock<Arc<Current>>>;

pub(crate) fn in_force(shared: &InForce) -> Arc<Current> {
    shared.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Re-reads a configuration directory. A version is taken when two looks in a row find the same: an editor, or several
/// files copied one after the other, must not be caught in the middle.
pub struct Reload {
    shared: InForce,
    directory: PathBuf,
    metrics: Metrics,
    looks: Mutex<Looks>,
}

/// What the last looks found.
#[derive(Default)]
struct Looks {
    last: Option<Seen>,
    refused: Option<Seen>,
}

/// A version of the files: the digests of what could be read, or what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Readable(Digest, Digest),
    Unreadable(Unusable),
}

impl Reload {
    pub(crate) fn new(shared: InForce, directory: PathBuf, metrics: Metrics) -> Self {
        Self { shared, directory, metrics, looks: Mutex::default() }
    }

    fn look(&self) {
        let read = read(&self.directory);
        let seen = match &read {
            Ok((registry, files)) => Seen::Readable(registry.digest, files.digest()),
            Err(why) => Seen::Unreadable(why.clone()),
        };
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = looks.last.replace(seen.clone()).is_some_and(|last| last == seen);
        let (registry_digest, policy_digest) = in_force(&self.shared).digests();
        if seen == Seen::Readable(registry_digest, policy_digest) {
            looks.refused = None;
            return;
        }
        if !settled || looks.refused.as_ref() == Some(&seen) {
            return;
        }
        match read.and_then(|(registry, files)| Ok(Current::new(&registry, Arc::new(Policy::compile(&files)?))?)) {
            Ok(current) => {
                let (registry, policy) = current.digests();
                tracing::info!(%registry, %policy, "changed files are in force");
                *self.shared.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(current);
                looks.refused = None;
                self.metrics.count(RELOADS, &[("outcome", "taken")]);
            }
            Err(why) => {
                tracing::error!(%why, "changed files are refused; the version before stays in force");
                looks.refused = Some(seen);
                self.metrics.count(RELOADS, &[("outcome", "refused")]);
            }
        }
    }
}

fn read(directory: &Path) -> Result<(Arc<Registry>, PolicyFiles), Unusable> {
    Ok((Registry::read(directory)?, PolicyFiles::read(directory)?))
}

#[async_trait]
impl Periodic for Reload {
    fn name(&self) -> &'static str {
        "reload"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        self.look();
        Ok((Reply::default(), false))
    }
}
