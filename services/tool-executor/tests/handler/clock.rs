//! A clock that stands still until it is told to move.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use chassis::Clock;

/// Moves only when the test's executor has nothing else to do.
#[derive(Default)]
pub struct VirtualClock {
    pub ms: AtomicI64,
    sleepers: Mutex<BTreeMap<i64, Vec<Waker>>>,
}

#[async_trait]
impl Clock for VirtualClock {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.ms.load(Ordering::SeqCst).unsigned_abs())
    }

    async fn sleep(&self, duration: Duration) {
        let due = self.ms.load(Ordering::SeqCst) + i64::try_from(duration.as_millis()).unwrap();
        std::future::poll_fn(|context| {
            if self.ms.load(Ordering::SeqCst) >= due {
                return Poll::Ready(());
            }
            self.sleepers.lock().unwrap().entry(due).or_default().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl VirtualClock {
    pub fn advance(&self, ms: i64) {
        self.ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Moves to the next time that somebody sleeps for.
    pub fn jump(&self) {
        let (due, wakers) = self.sleepers.lock().unwrap().pop_first().expect("nothing is left that could happen");
        self.ms.fetch_max(due, Ordering::SeqCst);
        wakers.into_iter().for_each(Waker::wake);
    }
}
