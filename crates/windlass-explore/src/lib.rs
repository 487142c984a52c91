//! Fault exploration and mutation testing of Kubernetes operators in any language, without changes to the operator.
//!
//! An [`Exploration`] starts an unmodified program against an embedded cluster and plays steps, such as creating and
//! deleting custom resources. It records some runs without faults, and then repeats the run with one fault injected at
//! each recorded write and event. A run with a different outcome is a [`Finding`](findings::Finding). With
//! [`Exploration::mutate`], it changes one field of a custom resource at a time instead.
//!
//! The program reaches the cluster through a gateway, a TLS server in this process. The gateway knows the program by its
//! token, records its requests, and injects faults into its requests, responses and watches. The cluster has no part in
//! it, so the steps and the built-in controllers are not affected. Upgraded connections of `exec` pass through the gateway
//! without faults.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! report       results as text, JSON, HTML and JUnit
//! exploration  the runs without faults, the plans, the replays of findings
//! mutations    chooses changes of custom resources from their schemas
//! planner      chooses faults from the runs without faults
//! findings     compares a run with the runs without faults
//! normal       the state of a cluster without the parts that differ from run to run
//! run          one run: the cluster, the program, the steps
//! steps        the files of steps, and their execution
//! program      the processes of the program, and their logs
//! isolation    the namespaces of these processes
//! cluster      the server, the controllers, and the observer of all objects
//! gateway      the requests of the program: attribution, recording, faults, watches
//! history      the changes of all objects and the requests of the program, with their points and originators
//! injection    the fault of a run: where it strikes, and whether it has struck
//! patterns     the names that programs generate, learned from runs without faults
//! record       the record of a run
//! error        the errors
//! plan         plans: faults at points, or a change of a custom resource
//! ```

pub mod report;
pub mod exploration;
mod mutations;
mod planner;
pub mod findings;
pub mod normal;
mod run;
mod steps;
mod program;
pub mod isolation;
mod cluster;
mod gateway;
mod history;
mod injection;
mod patterns;
pub mod record;
mod error;
pub mod plan;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use error::{Error, Result};
pub use exploration::{Exploration, Results};
pub use isolation::Isolation;
pub use plan::Plan;
pub use run::{Invariant, Scenario};
pub use steps::Step;
pub use windlass_controllers::{BuiltIn, Controllers, ControllersError, PodAnswers, PodAnswersError};
pub use windlass_server::{RuntimeConfig, RuntimeConfigError};
