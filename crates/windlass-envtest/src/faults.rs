//! What goes wrong between clients and their server, when a test wants it to.

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
    requests::{Requests, Sent},
    wire::Taps,
};

/// Some requests, to which something is to happen. Made by [`Environment::on`](crate::Environment::on).
///
/// Where several fit a request, the first that was made acts.
#[must_use = "nothing happens before it is said what"]
#[derive(Debug)]
pub struct Interception {
    taps: Arc<Taps>,
    requests: Requests,
    after: usize,
    times: usize,
}

/// Something that happens to requests until this is dropped.
#[must_use = "dropped, it is over"]
pub struct Fault {
    rule: Arc<Rule>,
    taps: Arc<Taps>,
}

/// What happens to one request.
pub(crate) enum Effect {
    Answer(Status),
    LoseRequest,
    LoseAnswer,
    Delay(Duration),
    /// Until it is false, or its sender gone.
    Hold(watch::Receiver<bool>),
}

type Act = Box<dyn Fn(&Sent) -> Option<Effect> + Send + Sync>;

/// What happens to which requests, and how often.
pub(crate) struct Rule {
    requests: Requests,
    act: Act,
    /// So many are to be left alone yet.
    before: AtomicUsize,
    /// It is to happen so many times yet.
    remaining: AtomicUsize,
    hits: watch::Sender<usize>,
    /// True while requests are held.
    holds: watch::Sender<bool>,
}

impl Interception {
    pub(crate) const fn new(taps: Arc<Taps>, requests: Requests) -> Self {
        Self { taps, requests, after: 0, times: usize::MAX }
    }

    /// So many times at most.
    pub const fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Once.
    pub const fn once(self) -> Self {
        self.times(1)
    }

    /// Not to the first ones, but after so many.
    pub const fn after(mut self, requests: usize) -> Self {
        self.after = requests;
        self
    }

    /// The server never hears of them; this is the answer.
    pub fn fail(self, status: Status) -> Fault {
        self.answer(move |_| Some(status.clone()))
    }

    /// The server never hears of those to which this has an answer: a success, a failure, what a test makes up.
    pub fn answer(self, answer: impl Fn(&Sent) -> Option<Status> + Send + Sync + 'static) -> Fault {
        self.act(move |sent| answer(sent).map(Effect::Answer))
    }

    /// They are lost on their way: the connection breaks before the server has heard of them.
    pub fn lose(self) -> Fault {
        self.act(|_| Some(Effect::LoseRequest))
    }

    /// Their answers are lost: the server does what it is asked, and the connection breaks.
    pub fn lose_answers(self) -> Fault {
        self.act(|_| Some(Effect::LoseAnswer))
    }

    /// They take so much longer, in tokio's time.
    pub fn delay(self, by: Duration) -> Fault {
        self.act(move |_| Some(Effect::Delay(by)))
    }

    /// They wait until the fault is dropped.
    pub fn hold(self) -> Fault {
        let (holds, held) = watch::channel(true);
        self.with(holds, Box::new(move |_| Some(Effect::Hold(held.clone()))))
    }

    fn act(self, act: impl Fn(&Sent) -> Option<Effect> + Send + Sync + 'static) -> Fault {
        self.with(watch::Sender::new(false), Box::new(act))
    }

    fn with(self, holds: watch::Sender<bool>, act: Act) -> Fault {
        let Self { taps, requests, after, times } = self;
        let hits = watch::Sender::new(0);
        let (before, remaining) = (after.into(), times.into());
        let rule = Arc::new(Rule { requests, act, before, remaining, hits, holds });
        taps.add_rule(rule.clone());
        Fault { rule, taps }
    }
}

impl Fault {
    /// To how many requests it has happened.
    #[must_use]
    pub fn hits(&self) -> usize {
        *self.rule.hits.borrow()
    }

    /// Waits until it has happened to so many requests.
    pub async fn happened(&self, times: usize) {
        // The sender lives as long as this.
        let _ = self.rule.hits.subscribe().wait_for(|hits| *hits >= times).await;
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        self.taps.remove_rule(&self.rule);
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
    /// What it does to a request, if it does.
    pub(crate) fn effect_on(&self, sent: &Sent) -> Option<Effect> {
        if !self.requests.contain(sent) || take_one(&self.before) || self.remaining.load(Ordering::Relaxed) == 0 {
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

/// Counts down, and says whether there was something left.
fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}
