//! Work by the clock: ticks, their replies published like a handler's, failures backed off.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use crate::retry::jittered;
use crate::seams::done_beside;
use crate::{Bus, Failure, Metrics, Periodic, Reply, RetryPolicy, Shutdown, names};

/// What every periodic of a service shares.
#[derive(Clone)]
pub(crate) struct Ticker {
    pub bus: Arc<dyn Bus>,
    pub retry: RetryPolicy,
    pub metrics: Metrics,
    pub shutdown: Shutdown,
}

enum Ticked {
    Again,
    Rest,
    Failed,
}

impl Ticker {
    /// Ticks until the shutdown. The error is a fatal failure's message.
    pub(crate) async fn run(self, periodic: Arc<dyn Periodic>) -> Result<(), String> {
        let mut backoff = self.retry.start();
        while !self.shutdown.is_triggered() {
            let rest = match self.tick(periodic.as_ref()).await? {
                Ticked::Again => {
                    backoff = self.retry.start();
                    // A periodic that always asks for more must not keep others from the thread.
                    tokio::task::yield_now().await;
                    continue;
                }
                Ticked::Rest => {
                    backoff = self.retry.start();
                    jittered(periodic.interval())
                }
                Ticked::Failed => backoff.next_delay(),
            };
            if !self.rest(rest).await {
                break;
            }
        }
        Ok(())
    }

    async fn tick(&self, periodic: &dyn Periodic) -> Result<Ticked, String> {
        let work = AssertUnwindSafe(async { periodic.tick().await }).catch_unwind().await;
        let outcome = work.unwrap_or_else(|_| Err(Failure::Retry("the periodic panicked".to_owned())));
        let (label, ticked) = match outcome {
            Ok((reply, again)) => {
                if !self.deliver(periodic, reply).await? {
                    return Ok(Ticked::Failed);
                }
                ("done", if again { Ticked::Again } else { Ticked::Rest })
            }
            Err(Failure::Fatal(message)) => return Err(format!("{}: {message}", periodic.name())),
            Err(failure) => {
                tracing::warn!(periodic = periodic.name(), %failure, "a tick failed");
                ("failed", Ticked::Failed)
            }
        };
        self.metrics.count(names::TICKS, &[("periodic", periodic.name()), ("outcome", label)]);
        Ok(ticked)
    }

    /// Publishes until everything is acknowledged. `false`: it was not, and the next tick finds the work again.
    async fn deliver(&self, periodic: &dyn Periodic, reply: Reply) -> Result<bool, String> {
        let mut backoff = self.retry.start();
        while !reply.publish.is_empty() {
            match self.bus.publish(reply.publish.clone()).await {
                Ok(()) => break,
                Err(Failure::Fatal(message)) => return Err(message),
                Err(Failure::Reject(rejection)) => {
                    tracing::error!(periodic = periodic.name(), %rejection, "the broker will never take this record");
                    return Ok(false);
                }
                Err(failure @ (Failure::Retry(_) | Failure::Unavailable(_))) => {
                    tracing::warn!(periodic = periodic.name(), %failure, "publishing failed");
                    if !self.rest(backoff.next_delay()).await {
                        return Ok(false);
                    }
                }
            }
        }
        if let Err(failure) = done_beside(reply.beside).await {
            tracing::warn!(periodic = periodic.name(), %failure, "what goes beside publishing failed");
            return Ok(false);
        }
        if let Some(receipt) = reply.receipt {
            periodic.acknowledged(receipt);
        }
        Ok(true)
    }

    /// `false`: the service stops.
    async fn rest(&self, delay: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(delay) => true,
            () = self.shutdown.triggered() => false,
        }
    }
}
