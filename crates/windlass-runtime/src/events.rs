//! Events: what a controller tells people, stored beside the objects that it is about.
//!
//! A [`Recorder`] takes a [`Note`] about an object and returns at once; a task of the manager writes it as an Event of the
//! core API, which `kubectl describe` and `kubectl events` show.
//!
//! # What is guaranteed
//!
//! - Recording never waits and never fails: a controller works as well where nobody can write events.
//! - A note that comes again counts up the event that is there; ten different notes for one reason within ten minutes
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
mod writer;

pub use note::{Note, Severity};
pub(crate) use recorder::{Outlet, Queue};
pub use recorder::{Recorded, Recorder, reference};
pub(crate) use writer::Writer;
