//! The evolution of controllers: three programs that do the same work, and the requests that each sends to the API
//! server.
//!
//! ```text
//! cargo run -p evolution                                              # the table
//! cargo run -p evolution -- run shared --kubeconfig PATH              # one of them, in a cluster, until it is interrupted
//! ```
//!
//! | program | how it learns of changes |
//! |---|---|
//! | [`polling`](Program::Polling) | a loop lists all objects periodically |
//! | [`informers`](Program::Informers) | each controller lists once and then watches, with its own caches |
//! | [`shared`](Program::Shared) | all controllers share one informer and one cache per kind; each has its own queue |
//!
//! The work: each Deployment and each StatefulSet gets its desired number of pods. The decisions (`work.rs`) are the
//! same in all three programs; `controller.rs` is the same in the two that watch. Real Deployments create ReplicaSets
//! instead of pods, and roll out changes. These programs only show how changes reach a controller.
//!
//! The documentation page is `docs/examples/evolution.md`.

mod controller;
mod informers;
mod measure;
mod polling;
mod program;
mod shared;
mod work;

pub use measure::{Measured, Measurement, measure, table};
pub use program::{Program, UnknownProgram};
