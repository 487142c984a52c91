//! The gates of the program's watches, one for each resource.
//!
//! An open gate lets all events pass. A held one lets those up to a revision pass. An expired one ends the watches with
//! code 410, also those that begin later at an older revision, as after a compaction.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::plan::Scope;

/// The gates of all resources.
#[derive(Debug)]
pub(crate) struct Gates {
    state: Mutex<State>,
    /// Changes with each state.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The held resources.
    holds: HashMap<String, Hold>,
    /// The rewound resources.
    view: Option<View>,
    /// `true` while the response to a write is held.
    is_stalled: bool,
    /// The revisions below which the history of a resource is lost.
    expired: HashMap<String, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// Events with higher revisions are held.
    above: u64,
    /// The step in which a gap ends. The watches end with it. `None` for a lag.
    gap_end: Option<usize>,
}

/// Resources as of an earlier revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) scope: Scope,
    pub(crate) revision: u64,
}

impl View {
    fn covers(&self, resource: &str) -> bool {
        match &self.scope {
            Scope::Resource(covered) => covered == resource,
            Scope::All => true,
        }
    }
}

impl State {
    fn is_holding(&self) -> bool {
        !self.holds.is_empty() || self.view.is_some() || self.is_stalled
    }
}

impl Default for Gates {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl Gates {
    /// Holds the events of a resource above a revision. `gap_end` is the step in which a gap ends; its watches end at the
    /// release.
    pub(crate) fn hold(&self, resource: &str, above: u64, gap_end: Option<usize>) {
        self.state.lock().holds.insert(resource.to_owned(), Hold { above, gap_end });
        self.changed.send_replace(());
    }

    /// Ends the watches of a resource, and loses its history below a revision.
    pub(crate) fn expire(&self, resource: &str, below: u64) {
        let mut state = self.state.lock();
        state.holds.remove(resource);
        state.expired.insert(resource.to_owned(), below);
        drop(state);
        self.changed.send_replace(());
    }

    /// Begins a view.
    pub(crate) fn rewind(&self, view: View) {
        self.state.lock().view = Some(view);
        self.changed.send_replace(());
    }

    /// Holds a response, and returns a future that waits for the next release.
    pub(crate) fn stall(&self) -> impl Future<Output = ()> + Send {
        let mut changed = self.subscribe();
        self.state.lock().is_stalled = true;
        async move {
            // The sender is a field of this value.
            let _ = changed.wait_for(|()| !self.state.lock().is_stalled).await;
        }
    }

    /// Opens all gates, and ends the view. Watches that expire lose the history below `latest`. Returns `false` if nothing
    /// was held.
    pub(crate) fn release(&self, latest: u64) -> bool {
        let mut state = self.state.lock();
        if !state.is_holding() {
            return false;
        }
        state.view = None;
        state.is_stalled = false;
        for (resource, hold) in std::mem::take(&mut state.holds) {
            if hold.gap_end.is_some() {
                state.expired.insert(resource, latest);
            }
        }
        drop(state);
        self.changed.send_replace(());
        true
    }

    /// Reports whether any gate is held.
    pub(crate) fn is_holding(&self) -> bool {
        self.state.lock().is_holding()
    }

    /// Reports whether gates are held, and each is part of a gap that ends in a later step.
    pub(crate) fn is_gap_beyond(&self, step: usize) -> bool {
        let state = self.state.lock();
        let is_beyond = |hold: &Hold| hold.gap_end.is_some_and(|end| end > step);
        state.view.is_none() && !state.is_stalled && !state.holds.is_empty() && state.holds.values().all(is_beyond)
    }

    /// Reports whether an event is held.
    pub(crate) fn holds(&self, resource: &str, revision: u64) -> bool {
        let state = self.state.lock();
        let is_later = |above: u64| revision > above;
        state.holds.get(resource).is_some_and(|hold| is_later(hold.above))
            || state.view.as_ref().is_some_and(|view| view.covers(resource) && is_later(view.revision))
    }

    /// Returns the revision at which a read of a resource is served. `version` is the resource version of the request: a
    /// read at 0 or at a version that the view includes may be stale, and one without a version may not.
    pub(crate) fn view_of(&self, resource: &str, version: &str) -> Option<u64> {
        let oldest: u64 = version.parse().ok()?;
        let state = self.state.lock();
        let view = state.view.as_ref().filter(|view| view.covers(resource) && oldest <= view.revision);
        view.map(|view| view.revision)
    }

    /// Reports whether a watch that has seen the events up to a revision has lost its history.
    pub(crate) fn is_expired(&self, resource: &str, seen: u64) -> bool {
        self.state.lock().expired.get(resource).is_some_and(|below| seen < *below)
    }

    /// Returns a receiver that changes with the gates.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}
