//! The state of the faults of a run.
//!
//! The faults of a plan strike in their order: the second one counts only after the first one has struck. Each strikes
//! at most once.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    plan::{Effect, Fault, Plan, Point},
    record::Injection,
};

/// A request of the gateway to the run, which owns the processes.
#[derive(Debug)]
pub(crate) enum Command {
    /// Kill the process and start the next one.
    Crash { process: usize },
    /// Kill the process, begin the earlier view, and start the next one.
    Rewind { process: usize },
    /// Start another process beside this one, and send `()` once it leads or a limit has passed.
    Depose { process: usize, resume: oneshot::Sender<()> },
}

/// The faults of a run.
#[derive(Debug)]
pub(crate) struct Injections {
    plan: Plan,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of faults that have struck. The next one is armed.
    struck: usize,
    /// The end of the gap in progress.
    gap_end: Option<Point>,
    injections: Vec<Injection>,
}

impl Injections {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, state: Mutex::default() }
    }

    /// Returns the fault that strikes next.
    pub(crate) fn armed(&self) -> Option<&Fault> {
        self.plan.faults().get(self.state.lock().struck)
    }

    /// Returns the effect of the armed fault if it strikes at this point, and arms the next one. `accepts` selects the
    /// effects that the caller can apply.
    pub(crate) fn strike(&self, point: &Point, accepts: impl FnOnce(&Effect) -> bool) -> Option<Effect> {
        let mut state = self.state.lock();
        let fault = self.plan.faults().get(state.struck)?;
        if fault.point != *point || !accepts(&fault.effect) {
            return None;
        }
        state.struck += 1;
        if let Effect::Gap { until } = &fault.effect {
            state.gap_end = Some(until.clone());
        }
        Some(fault.effect.clone())
    }

    /// Ends the gap in progress if this point is its end.
    pub(crate) fn ends_gap(&self, point: &Point) -> bool {
        self.state.lock().gap_end.take_if(|end| *end == *point).is_some()
    }

    /// Ends the gap in progress, if any.
    pub(crate) fn end_gap(&self) {
        self.state.lock().gap_end = None;
    }

    /// Reports whether events of the resource may be held from some point on.
    pub(crate) fn affects_events_of(&self, resource: &str) -> bool {
        self.plan.faults().iter().any(|fault| match &fault.effect {
            Effect::Lag | Effect::Gap { .. } => fault.point.resource == resource,
            Effect::Rewind { .. } => true,
            _ => false,
        })
    }

    /// Records an injection.
    pub(crate) fn note(&self, (step, at): (usize, Duration), description: String) {
        tracing::debug!(description, "injected a fault");
        self.state.lock().injections.push(Injection { at, step, description });
    }

    /// Reports whether a fault struck in a step.
    pub(crate) fn have_struck_in(&self, step: usize) -> bool {
        self.state.lock().injections.iter().any(|injection| injection.step == step)
    }

    /// Returns the recorded injections.
    pub(crate) fn take(&self) -> Vec<Injection> {
        std::mem::take(&mut self.state.lock().injections)
    }
}
