//! Events: messages of controllers about objects, stored as Kubernetes Events.
//!
//! A [`Recorder`] takes a [`Note`] about an object and returns at once. A task of the manager writes it as an Event
//! through the core API or events.k8s.io ([`EventApi`]). `kubectl describe` and `kubectl events` show it.
//!
//! # Guarantees
//!
//! - Recording never waits and never fails. A controller also works if it may not write events.
//! - With the core API, a repeated note increments the count of the existing event. From the tenth different note with
//!   the same reason within ten minutes on, notes are combined into one event. The events of a component about one
//!   object are limited to a burst of 25 and then one per five minutes.
//! - Events recorded before the manager stops are written before it has stopped, if the server accepts them at once.
//!
//! # Not guaranteed
//!
//! - Not every note becomes an event: notes above the limits, and events that the server refuses, are dropped. Do not
//!   base logic on events.

mod bounded_map;
mod correlator;
mod note;
mod recorder;
mod series;
mod writer;

pub use note::{Note, Severity};
pub(crate) use recorder::{EventSender, Queue};
pub use recorder::{RecordedEvents, Recorder, reference};
pub(crate) use writer::Writer;

/// The API for writing events. The server serves each event through both APIs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventApi {
    /// `v1`: equal events are counted, similar events are combined, and events above the limits are dropped.
    #[default]
    Core,
    /// `events.k8s.io/v1`: events that differ only in their text form a series. The count of a series is written when
    /// it begins, every 30 minutes, and after six minutes without a new event. No event is dropped.
    Series,
}
