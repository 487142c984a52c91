//! Faults between clients and their server, injected by tests.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use windlass_api::Status;

use crate::{
    registry::Registry,
    requests::{RequestMatcher, Sent},
};

/// A selection of requests for a fault, created by [`Environment::on`](crate::Environment::on).
///
/// If several faults match a request, the one that was created first applies.
#[must_use = "call a method such as `fail` to inject a fault"]
#[derive(Debug)]
pub struct Interception {
    rules: Arc<Registry<Rule>>,
    requests: RequestMatcher,
    after: usize,
    times: usize,
}

/// A fault that applies to requests until it is dropped.
#[must_use = "the fault ends when dropped"]
pub struct Fault {
    rule: Arc<Rule>,
    rules: Arc<Registry<Rule>>,
}

/// The effect of a fault on one request.
pub(crate) enum Effect {
    Answer(Status),
    LoseRequest,
    LoseAnswer,
    Delay(Duration),
    /// The request waits until the value is `false` or the sender is dropped.
    Hold(watch::Receiver<bool>),
}

type Act = Box<dyn Fn(&Sent) -> Option<Effect> + Send + Sync>;

/// A fault with its requests and its counters.
pub(crate) struct Rule {
    requests: RequestMatcher,
    act: Act,
    /// The number of matching requests to skip before the fault applies.
    before: AtomicUsize,
    /// The remaining number of times that the fault applies.
    remaining: AtomicUsize,
    hits: watch::Sender<usize>,
    /// `true` while requests are held.
    holds: watch::Sender<bool>,
}

impl Interception {
    pub(crate) const fn new(rules: Arc<Registry<Rule>>, requests: RequestMatcher) -> Self {
        Self { rules, requests, after: 0, times: usize::MAX }
    }

    /// Limits the fault to this number of requests.
    pub const fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Limits the fault to one request.
    pub const fn once(self) -> Self {
        self.times(1)
    }

    /// Skips this number of matching requests first.
    pub const fn after(mut self, requests: usize) -> Self {
        self.after = requests;
        self
    }

    /// Answers the requests with this status. They do not reach the server.
    pub fn fail(self, status: Status) -> Fault {
        self.answer(move |_| Some(status.clone()))
    }

    /// Answers the requests for which the closure returns a status, whether success or failure. They do not reach the
    /// server.
    pub fn answer(self, answer: impl Fn(&Sent) -> Option<Status> + Send + Sync + 'static) -> Fault {
        self.act(move |sent| answer(sent).map(Effect::Answer))
    }

    /// Breaks the connection before the requests reach the server.
    pub fn lose(self) -> Fault {
        self.act(|_| Some(Effect::LoseRequest))
    }

    /// Breaks the connection after the server has processed the requests, so that the responses are lost.
    pub fn lose_answers(self) -> Fault {
        self.act(|_| Some(Effect::LoseAnswer))
    }

    /// Delays the requests, in tokio's time.
    pub fn delay(self, by: Duration) -> Fault {
        self.act(move |_| Some(Effect::Delay(by)))
    }

    /// Holds the requests until the fault is dropped.
    pub fn hold(self) -> Fault {
        let (holds, held) = watch::channel(true);
        self.with(holds, Box::new(move |_| Some(Effect::Hold(held.clone()))))
    }

    fn act(self, act: impl Fn(&Sent) -> Option<Effect> + Send + Sync + 'static) -> Fault {
        self.with(watch::Sender::new(false), Box::new(act))
    }

    fn with(self, holds: watch::Sender<bool>, act: Act) -> Fault {
        let Self { rules, requests, after, times } = self;
        let hits = watch::Sender::new(0);
        let (before, remaining) = (after.into(), times.into());
        let rule = Arc::new(Rule { requests, act, before, remaining, hits, holds });
        rules.add(rule.clone());
        Fault { rule, rules }
    }
}

impl Fault {
    /// Returns the number of requests to which the fault was applied.
    #[must_use]
    pub fn hits(&self) -> usize {
        *self.rule.hits.borrow()
    }

    /// Waits until the fault was applied to this number of requests.
    pub async fn happened(&self, times: usize) {
        // The sender lives as long as `self`.
        let _ = self.rule.hits.subscribe().wait_for(|hits| *hits >= times).await;
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        self.rules.remove(&self.rule);
        self.rule.holds.send_replace(false);
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("requests", &self.rule.requests)
            .field("hits", &self.hits())
            .finish_non_exhaustive()
    }
}

impl Rule {
    /// Returns the effect on a request, if the fault applies to it.
    pub(crate) fn effect_on(&self, sent: &Sent) -> Option<Effect> {
        if !self.requests.matches(sent) || take_one(&self.before) || self.remaining.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let effect = (self.act)(sent)?;
        if !take_one(&self.remaining) {
            return None;
        }
        self.hits.send_modify(|hits| *hits += 1);
        Some(effect)
    }
}

/// Decrements a counter. Returns `false` if it was zero.
fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}
