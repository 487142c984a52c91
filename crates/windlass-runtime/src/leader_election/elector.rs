//! Electors: the candidates of a leader election.

use std::{
    fmt::{self, Debug},
    future::Future,
    pin::pin,
    sync::Arc,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};
use windlass_api::{Clock, Entropy};
use windlass_client::Error;

use super::{
    ElectionMetrics, Leadership, NewLeader, OnStop, Timings,
    leadership::{Held, State},
    lease::{Seen, claimed, holder, released},
    lock::LeaseLock,
};
use crate::{
    error::panic_message,
    events::{Note, Recorder},
};

/// A candidate for a lease: acquires it, and renews it as long as possible.
///
/// A manager has its own elector. Use this type in programs without a manager.
#[must_use = "a candidate does nothing until it runs"]
pub struct Elector {
    setup: Setup,
    lock: LeaseLock,
    /// `None`: no lease is known.
    seen: Option<Seen>,
    state: watch::Sender<State>,
}

/// The result of a candidacy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionResult {
    /// The candidate was stopped, as the leader or before.
    Stopped,
    /// The candidate lost its leadership: the lease could not be renewed in time, or another candidate holds it.
    Lost,
}

/// The settings that an elector needs.
pub(super) struct Setup {
    pub(super) identity: Arc<str>,
    pub(super) timings: Timings,
    pub(super) on_stop: OnStop,
    pub(super) on_new_leader: Option<NewLeader>,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
    pub(super) recorder: Option<Recorder>,
    pub(super) metrics: Arc<dyn ElectionMetrics>,
}

/// The result of an attempt to acquire or renew the lease.
enum Attempt {
    Held,
    /// Another candidate holds the lease, which expires at this time unless renewed.
    HeldByOther(Instant),
    Failed,
}

impl Elector {
    pub(super) fn new(setup: Setup, lock: LeaseLock) -> Self {
        setup.metrics.lost(lock.name());
        Self { setup, lock, seen: None, state: watch::Sender::default() }
    }

    /// Returns a handle that reports the current leader while the elector runs.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        Leadership::new(self.lock.name().into(), self.setup.timings.lease_duration, self.state.subscribe())
    }

    /// Returns the identity of this candidate.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.setup.identity
    }

    /// Runs until `stop` resolves or leadership is lost. If the future is dropped, the lease expires.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> ElectionResult {
        let mut stop = pin!(stop);
        tracing::info!(lease = self.lock.describe(), identity = self.identity(), "waiting to be the leader");
        tokio::select! {
            biased;
            () = &mut stop => return ElectionResult::Stopped,
            () = self.acquire() => {}
        }
        tracing::info!(lease = self.lock.describe(), identity = self.identity(), "became the leader");
        self.record("became leader");
        self.setup.metrics.acquired(self.lock.name());

        let verdict = tokio::select! {
            biased;
            () = &mut stop => ElectionResult::Stopped,
            () = self.keep() => ElectionResult::Lost,
        };
        self.state.send_modify(|state| state.held = None);
        tracing::info!(lease = self.lock.describe(), identity = self.identity(), ?verdict, "stopped leading");
        self.record("stopped leading");
        self.setup.metrics.lost(self.lock.name());
        // A former leader may still be acting. Until it expires, the lease protects other candidates from that.
        if verdict == ElectionResult::Stopped && self.setup.on_stop == OnStop::Release {
            self.release().await;
        }
        verdict
    }

    /// Starts `work` when leadership is acquired. Runs until `stop` resolves, leadership is lost, or the work is done.
    /// Unfinished work is dropped when leadership ends, before the lease is released.
    pub async fn lead<W: Future<Output = ()>>(
        self,
        stop: impl Future<Output = ()>,
        work: impl FnOnce(Leadership) -> W,
    ) -> ElectionResult {
        let leadership = self.leadership();
        let (done, end) = tokio::sync::oneshot::channel::<()>();
        let working = async {
            let led = async {
                leadership.acquired().await;
                leadership.during(work(leadership.clone())).await
            };
            tokio::select! {
                biased;
                () = stop => {}
                _ = led => {}
            }
            drop(done);
        };
        let (verdict, ()) = tokio::join!(self.run(async { drop(end.await) }), working);
        verdict
    }

    /// Returns when this candidate is the leader.
    async fn acquire(&mut self) {
        loop {
            let attempt = self.attempt().await;
            self.publish(&attempt);
            // Jitter separates candidates that were started at the same time.
            let pause = self.setup.entropy.jitter(self.setup.timings.retry_period / 2, 1.0);
            let next = Instant::now() + pause;
            match attempt {
                Attempt::Held => return,
                Attempt::HeldByOther(expires) => sleep_until(next.min(expires)).await,
                Attempt::Failed => sleep_until(next).await,
            }
        }
    }

    /// Returns when this candidate is no longer the leader.
    async fn keep(&mut self) {
        let retry_period = self.setup.timings.retry_period;
        while let Some(Held { renewed, until }) = self.held() {
            let mut next = renewed + retry_period;
            loop {
                sleep_until(next.min(until)).await;
                // Also detects that the process was paused.
                if Instant::now() >= until {
                    tracing::warn!(lease = self.lock.describe(), "the lease could not be renewed in time");
                    return;
                }
                let Ok(attempt) = timeout_at(until, self.attempt()).await else { continue };
                self.publish(&attempt);
                match attempt {
                    Attempt::Held => break,
                    Attempt::HeldByOther(_) => {
                        tracing::warn!(lease = self.lock.describe(), "another candidate holds the lease");
                        return;
                    }
                    Attempt::Failed => next = Instant::now() + retry_period,
                }
            }
        }
    }

    /// Makes one attempt to acquire or renew the lease.
    async fn attempt(&mut self) -> Attempt {
        // The leader knows the content of the lease and need not read it.
        let mine = |seen: &Seen| seen.holder() == &*self.setup.identity;
        if self.seen.as_ref().is_some_and(|seen| mine(seen) && !seen.is_free(Instant::now())) {
            match self.claim().await {
                Ok(()) => return Attempt::Held,
                Err(error) => tracing::debug!(error = error.chain(), "cannot renew the lease without reading it"),
            }
        }
        let spec = match self.lock.get().await {
            Ok(spec) => spec,
            Err(error) => {
                tracing::warn!(lease = self.lock.describe(), error = error.chain(), "cannot read the lease");
                return Attempt::Failed;
            }
        };
        let now = Instant::now();
        self.seen = spec.map(|spec| match self.seen.take() {
            Some(seen) => seen.again(spec, now),
            None => Seen::new(spec, now),
        });
        if let Some(seen) = &self.seen {
            if seen.holder() == &*self.setup.identity {
                self.setup.metrics.slow_path(self.lock.name());
            } else if !seen.is_free(now) {
                return Attempt::HeldByOther(seen.expires());
            }
        }
        match self.claim().await {
            Ok(()) => Attempt::Held,
            Err(error) => {
                tracing::warn!(lease = self.lock.describe(), error = error.chain(), "cannot write the lease");
                Attempt::Failed
            }
        }
    }

    /// Writes this candidate's identity into the lease, if the lease is unchanged.
    async fn claim(&mut self) -> Result<(), Error> {
        let sent = Instant::now();
        let old = self.seen.as_ref().map(Seen::spec);
        let duration = self.setup.timings.lease_duration;
        let claim = claimed(old, &self.setup.identity, duration, self.setup.clock.now());
        let stored = self.lock.put(claim).await?;
        self.seen = Some(Seen::new(stored, sent));
        let until = sent + self.setup.timings.renew_deadline;
        self.state.send_modify(|state| state.held = Some(Held { renewed: sent, until }));
        Ok(())
    }

    /// Releases the lease, if this candidate still holds it.
    async fn release(&mut self) {
        let limit = Instant::now() + self.setup.timings.renew_deadline;
        match timeout_at(limit, self.try_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(lease = self.lock.describe(), error = error.chain(), "cannot release the lease");
            }
            Err(_elapsed) => tracing::warn!(lease = self.lock.describe(), "could not release the lease in time"),
        }
    }

    async fn try_release(&mut self) -> Result<(), Error> {
        loop {
            // A cancelled renewal may have been processed.
            let Some(spec) = self.lock.get().await? else { return Ok(()) };
            if holder(&spec) != &*self.setup.identity {
                return Ok(());
            }
            match self.lock.put(released(&spec, self.setup.clock.now())).await {
                Err(error) if error.is_conflict() => {}
                result => return result.map(drop),
            }
        }
    }

    fn held(&self) -> Option<Held> {
        self.state.borrow().held
    }

    /// Reports the leader if it has changed.
    fn publish(&self, attempt: &Attempt) {
        let Some(seen) = &self.seen else { return };
        if matches!(attempt, Attempt::Failed) && seen.holder().is_empty() {
            return;
        }
        let leader = seen.holder();
        if self.state.borrow().leader.as_deref() == Some(leader) {
            return;
        }
        self.state.send_modify(|state| state.leader = Some(leader.into()));
        if let Some(callback) = &self.setup.on_new_leader {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(leader)));
            if let Err(panic) = result {
                tracing::error!(panic = panic_message(&*panic), "the callback for new leaders panicked");
            }
        }
    }

    fn record(&self, what: &str) {
        if let (Some(recorder), Some(lease)) = (&self.setup.recorder, self.lock.lease()) {
            recorder.record(lease, Note::normal("LeaderElection", format!("{} {what}", self.setup.identity)));
        }
    }
}

impl Drop for Elector {
    /// Without an elector, the lease is not renewed.
    fn drop(&mut self) {
        self.state.send_modify(|state| state.held = None);
    }
}

impl Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("identity", &self.setup.identity)
            .field("lock", &self.lock)
            .finish_non_exhaustive()
    }
}
