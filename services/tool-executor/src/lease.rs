//! The lease of a running call: it ends by the monotonic clock, and a revocation that the store shows ends it sooner
//! (M21).

use std::pin::pin;
use std::time::Duration;

use chassis::{Clock, Metrics};
use futures::future::{self, Either};
use protocol::{Invocation, Phase, ToolCallDispatched, may_start_read};
use store::{Address, Decider};

use crate::names;

/// Why a call was given up while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    TimedOut,
    Revoked,
}

/// How a call's lease is watched.
pub(crate) struct Watch<'a> {
    pub decider: &'a Decider,
    pub clock: &'a dyn Clock,
    pub metrics: &'a Metrics,
    /// Between two looks at the invocation.
    pub interval: Duration,
    pub address: &'a Address,
    pub dispatch: &'a ToolCallDispatched,
    /// What is left of the lease.
    pub left: Duration,
}

impl Watch<'_> {
    /// Runs a call until it is done or its lease is over. A call that is done in the same instant counts as done.
    pub(crate) async fn over<T>(&self, call: impl Future<Output = T>) -> Result<T, Interrupted> {
        let call = pin!(call);
        let end = pin!(self.clock.sleep(self.left));
        let revoked = pin!(self.revoked());
        match future::select(call, future::select(end, revoked)).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right((Either::Left(_), _)) => Err(Interrupted::TimedOut),
            Either::Right((Either::Right(_), _)) => Err(Interrupted::Revoked),
        }
    }

    /// Returns when the invocation shows that this call may not go on. A store that does not answer revokes nothing.
    async fn revoked(&self) {
        loop {
            self.clock.sleep(self.interval).await;
            match self.decider.peek(self.address).await {
                Ok((invocation, now)) => {
                    let goes_on = match self.dispatch.effect {
                        None => may_start_read(&invocation, self.dispatch, now).is_ok(),
                        Some(_) => is_lease_open(&invocation),
                    };
                    if !goes_on {
                        self.metrics.count(names::ABORTED, &[]);
                        return;
                    }
                }
                Err(_) => self.metrics.count(names::POLL_FAILURES, &[]),
            }
        }
    }
}

/// The lease of started effects: revoked once the run is cancelling, over or absent.
fn is_lease_open(invocation: &Invocation) -> bool {
    match invocation.phase() {
        Some(Phase::Deciding(_) | Phase::Executing(_) | Phase::Suspended(_)) => true,
        Some(Phase::Cancelling(_) | Phase::Ended(_)) | None => false,
    }
}
