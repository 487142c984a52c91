//! Events: what a controller tells people, stored beside the objects that it is about.
//!
//! A [`Recorder`] takes a [`Note`] about an object and returns at once; a task of the manager writes it as an Event, by the
//! core API or by events.k8s.io ([`EventApi`]). `kubectl describe` and `kubectl events` show it.
//!
//! # What is guaranteed
//!
//! - Recording never waits and never fails: a controller works as well where nobody can write events.
//! - By the core API, a note that comes again counts up the event that is there; ten different notes for one reason within ten minutes
//!   become one event that stands for all that follow; what a component says of one object is limited to 25 events at once
//!   and one in five minutes then.
//! - What was recorded before the manager stops is written before it has stopped, if the server takes it at once.
//!
//! # What is not
//!
//! - That every note becomes an event: what is too much is dropped, and so is what a server refuses. No logic may hang on
//!   events.

mod correlator;
mod note;
mod recent;
mod recorder;
mod series;
mod writer;

pub use note::{Note, Severity};
pub(crate) use recorder::{Outlet, Queue};
pub use recorder::{Recorded, Recorder, reference};
pub(crate) use writer::Writer;

/// The API that events are written by. The server shows each in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventApi {
    /// `v1`: what is the same is counted up, what is alike combined, what is too much dropped.
    #[default]
    Core,
    /// `events.k8s.io/v1`: what is alike, whatever its text, is a series, whose number is written when it begins, every half
    /// hour, and when nothing was added for six minutes. Nothing is dropped.
    Series,
}
