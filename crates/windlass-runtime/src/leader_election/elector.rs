//! One candidate.

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

/// A candidate for a lease: tries to get it, then keeps it as long as it can.
///
/// A manager has its own; this is for programs without one.
#[must_use = "a candidate does nothing until it runs"]
pub struct Elector {
    setup: Setup,
    lock: LeaseLock,
    /// `None`: there is no lease, as far as known.
    seen: Option<Seen>,
    state: watch::Sender<State>,
}

/// How a candidacy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was stopped, whether it led or not.
    Stopped,
    /// It led, and could not go on: the lease could not be renewed in time, or is somebody else's.
    Lost,
}

/// What an election says, as far as the elector needs it.
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

/// What an attempt to get or to keep the lease led to.
enum Attempt {
    Held,
    /// It is somebody else's, who has that long to renew it.
    HeldByOther(Instant),
    Failed,
}

impl Elector {
    pub(super) fn new(setup: Setup, lock: LeaseLock) -> Self {
        setup.metrics.lost(lock.name());
        Self { setup, lock, seen: None, state: watch::Sender::default() }
    }

    /// Tells who leads, while this runs.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        Leadership::new(self.lock.name().into(), self.setup.timings.lease_duration, self.state.subscribe())
    }

    /// The name of this candidate.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.setup.identity
    }

    /// Runs until `stop` resolves or leadership is lost. To be dropped is to let the lease expire.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Verdict {
        let mut stop = pin!(stop);
        tracing::info!(lease = self.lock.describe(), identity = self.identity(), "waiting to be the leader");
        tokio::select! {
            biased;
            () = &mut stop => return Verdict::Stopped,
            () = self.acquire() => {}
        }
        tracing::info!(lease = self.lock.describe(), identity = self.identity(), "became the leader");
        self.record("became leader");
        self.setup.metrics.acquired(self.lock.name());

        let verdict = tokio::select! {
            biased;
            () = &mut stop => Verdict::Stopped,
            () = self.keep() => Verdict::Lost,
        };
        self.state.send_modify(|state| state.held = None);
        tracing::info!(lease = self.lock.describe(), identity = self.identity(), ?verdict, "stopped leading");
        self.record("stopped leading");
        self.setup.metrics.lost(self.lock.name());
        // Who has lost it may still be acting: the lease protects others from that until it expires.
        if verdict == Verdict::Stopped && self.setup.on_stop == OnStop::Release {
            self.release().await;
        }
        verdict
    }

    /// Runs until `stop` resolves, leadership is lost, or the work is done that is begun with it. Work that is not done is
    /// dropped when leadership ends, and before the lease is released.
    pub async fn lead<W: Future<Output = ()>>(
        self,
        stop: impl Future<Output = ()>,
        work: impl FnOnce(Leadership) -> W,
    ) -> Verdict {
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

    /// Returns when this candidate leads.
    async fn acquire(&mut self) {
        loop {
            let attempt = self.attempt().await;
            self.publish(&attempt);
            // Candidates that were started together do not stay together.
            let pause = self.setup.entropy.jitter(self.setup.timings.retry_period / 2, 1.0);
            let next = Instant::now() + pause;
            match attempt {
                Attempt::Held => return,
                Attempt::HeldByOther(expires) => sleep_until(next.min(expires)).await,
                Attempt::Failed => sleep_until(next).await,
            }
        }
    }

    /// Returns when this candidate cannot lead any more.
    async fn keep(&mut self) {
        let retry_period = self.setup.timings.retry_period;
        while let Some(Held { renewed, until }) = self.held() {
            let mut next = renewed + retry_period;
            loop {
                sleep_until(next.min(until)).await;
                // Also when the process was stopped meanwhile.
                if Instant::now() >= until {
                    tracing::warn!(lease = self.lock.describe(), "the lease could not be renewed in time");
                    return;
                }
                let Ok(attempt) = timeout_at(until, self.attempt()).await else { continue };
                self.publish(&attempt);
                match attempt {
                    Attempt::Held => break,
                    Attempt::HeldByOther(_) => {
                        tracing::warn!(lease = self.lock.describe(), "the lease is somebody else's");
                        return;
                    }
                    Attempt::Failed => next = Instant::now() + retry_period,
                }
            }
        }
    }

    /// Tries once to get the lease, or to keep it.
    async fn attempt(&mut self) -> Attempt {
        // Who leads knows what the lease says, and need not ask.
        let mine = |seen: &Seen| seen.holder() == &*self.setup.identity;
        if self.seen.as_ref().is_some_and(|seen| mine(seen) && !seen.is_free(Instant::now())) {
            match self.claim().await {
                Ok(()) => return Attempt::Held,
                Err(error) => tracing::debug!(error = error.chain(), "cannot renew the lease as it was"),
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

    /// Writes this candidate's name into the lease, if it is as it was seen.
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

    /// Gives the lease up, if it is still this candidate's.
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
            // A renewal that was cut short may have been carried out.
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

    /// Tells who leads, if it is somebody else than before.
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
        if let Some(tell) = &self.setup.on_new_leader {
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tell(leader)));
            if let Err(panic) = told {
                tracing::error!(panic = panic_message(&*panic), "who is told of new leaders panicked");
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
    /// Nobody leads whose lease nobody renews.
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
