//! Load tests of Kubernetes API servers, with the service level indicators of SIG Scalability.
//!
//! A [`Workload`] describes objects and phases, in YAML. [`Load`] plays it against a cluster, and returns [`Results`]:
//! the latency of requests by verb, resource and scope, the startup of pods, the latency of watches, and whether the
//! service level objectives are met. [`report`] formats them.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! report      results as text, JSON and HTML
//! load        a run
//! watcher     watches of the objects and pods of a run
//! executor    sends the requests at their times
//! plan        the requests of a phase
//! results     percentiles and objectives
//! samples     the measurements
//! cluster     resources, names, creation and deletion
//! tracker     the objects of a run
//! workload    the file format
//! template    objects with placeholders
//! expression  arithmetic expressions
//! error       the errors
//! number      conversions of numbers
//! ```
//!
//! # What is guaranteed
//!
//! - The load is open-loop: each request has an intended start, and its latency is counted from it. If the server or the
//!   limit of concurrent requests delays a request, the delay is part of the latency.
//! - A run changes only objects that it created: they are in namespaces with random names, or have random names. At the
//!   end, it deletes the objects with the label of the run.
//! - A failed request is counted by its reason and does not end the run. It counts against the objective.
//!
//! # What is not guaranteed
//!
//! - The times of pods are compared with the clock of this program. The clocks of server and program have to agree.
//! - A program that is killed leaves its objects. Delete the namespaces with the label `load.windlass.dev/run`.

pub mod report;
mod load;
mod watcher;
mod executor;
mod plan;
mod results;
mod samples;
mod cluster;
mod tracker;
mod workload;
mod template;
mod expression;
mod error;
mod number;
/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use error::{Error, Result};
pub use load::{Keep, Load};
pub use results::{Interval, Percentiles, PhaseResult, PodResult, RequestResult, Results, SloResult};
pub use workload::{Limits, Size, Workload};
