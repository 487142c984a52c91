//! Shutdown: the signal to stop, and its delivery to runnables.
//!
//! The program passes a future to [`Manager::run`](crate::Manager::run): usually [`signal`] in `main`, and any other
//! future in a test. Each group of runnables receives a [`Stop`], which it awaits alongside its work.

use tokio::sync::watch;

/// Resolves at the first SIGINT or SIGTERM (on other systems: Ctrl-C). A second signal ends the process with status 1.
///
/// If the signal handlers cannot be installed, this is logged and the future never resolves.
///
/// The task that waits for the second signal belongs to the process. It is the only task of this crate that outlives
/// its caller.
pub async fn signal() {
    let mut signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals: only killing the process will stop it");
            return std::future::pending().await;
        }
    };
    let name = signals.next().await;
    tracing::info!(signal = name, "stopping; a second signal ends the process at once");
    tokio::spawn(async move {
        let name = signals.next().await;
        tracing::warn!(signal = name, "second signal: ending the process");
        std::process::exit(1);
    });
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn install() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[allow(clippy::unnecessary_wraps, reason = "the other systems can fail")]
    fn install() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

/// The receiving side of a stop request. Clones receive the same request.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// The sending side: stops all holders of its [`Stop`]s. Dropping its last clone also stops them.
#[derive(Clone, Debug)]
pub(crate) struct Stopper(watch::Sender<bool>);

impl Stop {
    /// Resolves when a stop has been requested. Cancel-safe.
    pub async fn requested(&self) {
        // An error means that the stopper was dropped, which also requests a stop.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }

    /// Reports whether a stop has been requested.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

impl Stopper {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn handle(&self) -> Stop {
        Stop(self.0.subscribe())
    }

    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn stop_reaches_current_and_later_waiters() {
        let stopper = Stopper::new();
        let (early, clone) = (stopper.handle(), stopper.handle().clone());
        assert!(!early.is_requested());
        assert!(early.requested().now_or_never().is_none());
        stopper.stop();
        for stop in [early, clone, stopper.handle()] {
            assert!(stop.is_requested());
            assert!(stop.requested().now_or_never().is_some());
        }
    }

    #[test]
    fn a_dropped_stopper_stops() {
        let stopper = Stopper::new();
        let stop = stopper.handle();
        drop(stopper);
        assert!(stop.is_requested());
        assert!(stop.requested().now_or_never().is_some());
    }
}
