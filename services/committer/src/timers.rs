//! Due timers become inputs: no service sleeps in a handler, the store's clock wakes every invocation.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chassis::{Failure, Metrics, Periodic, Reply};
use futures::StreamExt;
use protocol::{Ignored, Input, TimerName};
use store::{Address, Decider, DueTimer, Refusal};

use crate::handler::{count, failure, store_failure};
use crate::{CommitterConfig, Leases, relay};

/// Fires the due timers of the shards this process holds.
pub struct Timers {
    pub decider: Decider,
    pub leases: Arc<Leases>,
    pub config: CommitterConfig,
    pub metrics: Metrics,
}

/// Invocations woken side by side, so that many due at once do not arrive as a wall.
const CONCURRENCY: usize = 16;

impl Timers {
    async fn fire(&self, address: Address, timers: Vec<DueTimer>) -> Result<store::Decided, Failure> {
        let mut inputs = Vec::new();
        let mut known = Vec::new();
        for timer in timers {
            match timer.name.parse::<TimerName>() {
                Ok(name) => {
                    inputs.push(Input::TimerFired(name));
                    known.push(timer);
                }
                Err(error) => {
                    tracing::error!(%error, "a stored timer is dropped");
                    self.decider.store.drop_timer(&timer).await.map_err(store_failure)?;
                }
            }
        }
        let decided = self.decider.decide(&address, &inputs).await.map_err(failure)?;
        count(&self.metrics, &decided);
        for (timer, outcome) in known.iter().zip(&decided.outcomes) {
            // Nothing waits for it any more: without this it would stay due for ever.
            if let Err(Refusal::Ignored(Ignored::Stale | Ignored::NotYet | Ignored::UnknownInvocation)) = outcome {
                self.decider.store.drop_timer(timer).await.map_err(store_failure)?;
            }
        }
        Ok(decided)
    }
}

#[async_trait]
impl Periodic for Timers {
    fn name(&self) -> &'static str {
        "timers"
    }

    fn interval(&self) -> Duration {
        self.config.timer_interval
    }

    async fn tick(&self) -> Result<(Reply, bool), Failure> {
        let shards = self.leases.held().await?;
        let store = &self.decider.store;
        let asked = shards.iter().map(|shard| store.due_timers(*shard, self.config.timer_batch));
        let mut due: Vec<(Address, Vec<DueTimer>)> = Vec::new();
        for timers in futures::future::join_all(asked).await {
            for timer in timers.map_err(store_failure)? {
                match due.last_mut() {
                    Some((address, list)) if *address == timer.address => list.push(timer),
                    _ => due.push((timer.address.clone(), vec![timer])),
                }
            }
        }
        let mut fired = futures::stream::iter(due)
            .map(|(address, timers)| self.fire(address, timers))
            .buffer_unordered(CONCURRENCY);
        let mut reply = Reply::default();
        let (mut failed, mut woken) = (None, false);
        while let Some(decided) = fired.next().await {
            match decided {
                Ok(decided) => {
                    woken |= decided.outcomes.iter().any(Result::is_ok);
                    relay::say(&mut reply, decided)?;
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            // What did go through is published all the same; the rest is still due.
            Some(error) if reply.publish.is_empty() => Err(error),
            Some(_) => Ok((reply, false)),
            // Where nothing moved (a frozen invocation), the next tick can wait.
            None => Ok((reply, woken)),
        }
    }

    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        self.decider.store.acknowledge(relay::references(receipt));
    }
}
