//! How controllers came to be what they are: the same work by three programs, and what each asks of the API server.
//!
//! ```text
//! cargo run -p evolution                                              # the table
//! cargo run -p evolution -- run shared --kubeconfig PATH              # one of them, in a cluster, until it is interrupted
//! ```
//!
//! | program | how it learns what to do |
//! |---|---|
//! | [`polling`](Program::Polling) | a loop asks for everything, again and again |
//! | [`informers`](Program::Informers) | each controller lists once and watches from there, with a cache of its own |
//! | [`shared`](Program::Shared) | all controllers have one informer and one cache for each kind, and a queue each |
//!
//! The work: each Deployment and each StatefulSet has as many pods as it asks for. What is decided (`work.rs`) is the same in all
//! three; `controller.rs` is the same in the two that watch. Real Deployments have ReplicaSets between them and their pods, and
//! roll out changes; here only the way of the news is of interest.
//!
//! The page about it is `docs/examples/evolution.md`.

mod controller;
mod informers;
mod measure;
mod polling;
mod program;
mod shared;
mod work;

pub use measure::{Measured, Workload, measure, table};
pub use program::{Program, UnknownProgram};
