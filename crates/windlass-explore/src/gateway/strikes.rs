//! Faults before a write is stored, and faults that any change causes.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, header};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time};

use super::{
    Answer, Gateway,
    answer::{failure, refusal},
    call::Call,
    gates::View,
    incarnation::Incarnation,
};
use crate::{
    history::text,
    injection::Command,
    plan::{Effect, Fault, Point, Side},
    record::{CONFLICT, Change, ChangeVerb},
};

/// The duration of a delay.
const DELAY: Duration = Duration::from_secs(2);

/// The time limit for another process to become the leader.
const DEPOSITION: Duration = Duration::from_mins(2);

/// The outcome of the faults before a write.
pub(super) enum Before {
    /// The write is not executed.
    Answered(Answer),
    /// The write is executed. `marked` is the object to which another client wrote just before.
    Execute { marked: Option<Call> },
}

/// A delayed write, until it is dropped.
struct Delay<'g>(&'g Gateway);

impl<'g> Delay<'g> {
    fn begin(gateway: &'g Gateway) -> Self {
        gateway.state.lock().delayed += 1;
        gateway.activity.notify_one();
        Self(gateway)
    }
}

impl Drop for Delay<'_> {
    fn drop(&mut self) {
        self.0.state.lock().delayed -= 1;
        self.0.history.touch();
    }
}

impl Gateway {
    /// Injects the armed fault if it strikes before this write is stored.
    pub(super) async fn strike_before(
        &self,
        process: &Arc<Incarnation>,
        call: &Call,
        request: &Request<Bytes>,
    ) -> Before {
        let answered = self.struck_before(process, call, request).await;
        answered.unwrap_or(Before::Execute { marked: None })
    }

    async fn struck_before(&self, process: &Arc<Incarnation>, call: &Call, request: &Request<Bytes>) -> Option<Before> {
        let Fault { point: armed, effect } = self.injections.armed()?;
        let is_here = call.namespace.is_empty() || call.namespace == armed.namespace;
        if armed.resource != call.resource() || !is_here || !is_before(effect, armed.verb) {
            return None;
        }
        let predicted = self.predict(call, request).await;
        let (point, object, effect) = predicted.into_iter().find_map(|(point, object)| {
            let effect = self.injections.strike(&point, |effect| is_before(effect, point.verb))?;
            Some((point, object, effect))
        })?;
        let (number, change) = (process.number(), point.explained());
        let note = |text: String| self.injections.note(self.history.now(), text);
        match effect {
            Effect::Refused(with) => {
                note(format!("refused a write of process {number} with {}: {change}", with.code()));
                let refusal = refusal(with, call, text(&object, "/metadata/name"));
                return Some(Before::Answered(Answer::Response(failure(&refusal))));
            }
            Effect::Delayed => {
                note(format!("delayed a write of process {number} by {DELAY:?}: {change}"));
                let _delay = Delay::begin(self);
                time::sleep(DELAY).await;
            }
            Effect::Conflict => {
                let marked = Call {
                    name: text(&object, "/metadata/name").to_owned(),
                    namespace: text(&object, "/metadata/namespace").to_owned(),
                    ..call.clone()
                };
                let outcome = self.mark(&marked, true).await;
                note(format!("{outcome} just before a write of process {number}: {change}"));
                return Some(Before::Execute { marked: Some(marked) });
            }
            Effect::Deposed => {
                note(format!("held a write of process {number} until another process leads: {change}"));
                let _delay = Delay::begin(self);
                let (resume, resumed) = oneshot::channel();
                // The run has ended if the receiver is dropped.
                let _ = self.commands.send(Command::Depose { process: number, resume });
                let _ = time::timeout(DEPOSITION, resumed).await;
                note(format!("executed the held write of process {number}"));
            }
            _ => {}
        }
        None
    }

    /// Writes to an object as another client: adds or removes an annotation. Returns what happened.
    pub(super) async fn mark(&self, call: &Call, is_marked: bool) -> String {
        let value = if is_marked { json!("true") } else { Value::Null };
        let patch = json!({"metadata": {"annotations": {CONFLICT: value}}});
        let request = Request::patch(call.path())
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Bytes::from(patch.to_string()));
        let Ok(request) = request else { return format!("could not write to {}", call.object()) };
        let (status, response) = self.ask(request).await;
        if status != 200 {
            return format!("could not write to {}: {}", call.object(), text(&response, "/message"));
        }
        format!("another client wrote to {}", call.object())
    }

    /// Injects the armed fault if it strikes at a change by anyone. Called for each change, before any watch of the program
    /// delivers it.
    pub(crate) fn observed(&self, change: &Change) {
        let Change { point, revision, .. } = change;
        let resource = &point.resource;
        if self.injections.ends_gap(point) {
            self.gates.expire(resource, *revision);
            let note = format!("ended the watches of {resource} with code 410: {}", point.explained());
            self.injections.note(self.history.now(), note);
            self.history.touch();
        }
        let destination = self.injections.armed().and_then(|fault| match &fault.effect {
            Effect::Rewind { side, to, .. } if fault.point == *point => self.destination(*side, to, change),
            _ => None,
        });
        let accepts = |effect: &Effect| match effect {
            Effect::Lag | Effect::Gap { .. } => true,
            Effect::Rewind { .. } => destination.is_some(),
            _ => false,
        };
        let Some(effect) = self.injections.strike(point, accepts) else { return };
        let explained = point.explained();
        let note = match effect {
            Effect::Rewind { scope, side, to } => {
                let revision = destination.unwrap_or_default();
                let view = View { scope, revision };
                let last = self.last_open_process();
                match last {
                    Some(process) => {
                        self.state.lock().next_view = Some(view);
                        self.end_process(process, Command::Rewind { process });
                    }
                    // The next process is being started already.
                    None => self.gates.rewind(view),
                }
                let (side, to) = (side.as_str(), to.explained());
                format!("killed the program; the next process sees the state {side} the {to}; at the {explained}")
            }
            effect => {
                let gap_end = if let Effect::Gap { until } = &effect { Some(until.step) } else { None };
                self.gates.hold(resource, revision - 1, gap_end);
                format!("held the events of {resource}, from the {explained}")
            }
        };
        self.injections.note(self.history.now(), note);
    }

    /// Returns the revision before or after a change, which may be the current one.
    fn destination(&self, side: Side, to: &Point, current: &Change) -> Option<u64> {
        let revision = if current.point == *to { current.revision } else { self.history.revision_at(to)? };
        Some(match side {
            Side::Before => revision - 1,
            Side::After => revision,
        })
    }

    fn last_open_process(&self) -> Option<usize> {
        let state = self.state.lock();
        state.processes.values().rfind(|process| !process.is_closed()).map(|last| last.number())
    }

    /// Closes a process, and requests its end.
    pub(super) fn end_process(&self, process: usize, command: Command) {
        self.state.lock().is_restarting = true;
        self.close(process);
        // The run has ended if the receiver is dropped.
        let _ = self.commands.send(command);
    }
}

/// Reports whether an effect strikes before a write is stored.
fn is_before(effect: &Effect, verb: ChangeVerb) -> bool {
    match effect {
        Effect::Refused(_) | Effect::Delayed | Effect::Deposed => true,
        // An object that does not exist has no other writers.
        Effect::Conflict => verb != ChangeVerb::Create,
        _ => false,
    }
}
