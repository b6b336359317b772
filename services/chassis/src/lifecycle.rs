//! The one stop signal of a service: set once, by a signal, by a fatal failure or by the caller, seen everywhere.

use std::sync::Arc;

use tokio::sync::watch;

/// Asks a service to drain and return. Clones share one signal.
#[derive(Debug, Clone)]
pub struct Shutdown {
    sender: Arc<watch::Sender<bool>>,
}

impl Shutdown {
    pub fn new() -> Self {
        Self { sender: Arc::new(watch::Sender::new(false)) }
    }

    /// A signal that SIGTERM or SIGINT sets. Must be called inside a tokio runtime.
    pub fn on_signals() -> Result<Self, std::io::Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let shutdown = Self::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let trigger = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
                _ = interrupt.recv() => tracing::info!("SIGINT: draining"),
            }
            trigger.trigger();
        });
        Ok(shutdown)
    }

    pub fn trigger(&self) {
        self.sender.send_replace(true);
    }

    pub fn is_triggered(&self) -> bool {
        *self.sender.borrow()
    }

    /// Returns once the signal is set.
    pub async fn triggered(&self) {
        let mut receiver = self.sender.subscribe();
        // `self` holds the sender, so waiting cannot fail.
        let _ = receiver.wait_for(|set| *set).await;
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}
