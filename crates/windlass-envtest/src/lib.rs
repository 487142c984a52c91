//! A test environment in one process: an API server, clients and managers, and what tests want to do to them.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use windlass_api::{ObjectBuilder, ObjectExt as _, k8s_openapi::api::core::v1::{ConfigMap, Secret}};
//! use windlass_envtest::Environment;
//! use windlass_runtime::{Action, Context, Controller};
//!
//! async fn reconcile(config: Arc<ConfigMap>, cx: Context) -> windlass_runtime::Result<Action> {
//!     let secret = Secret::named(config.name()).in_namespace("default");
//!     cx.client().apply(&secret).await?;
//!     Ok(Action::await_change())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
//! let env = Environment::start().await; // in process, without a socket: the clock may be paused
//! let mut manager = env.manager();
//! manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
//! env.run(manager);
//!
//! env.client().create(&ConfigMap::named("colours").in_namespace("default")).await?;
//! let secret = env.eventually::<Secret>("colours", |_| true).await;
//! assert_eq!(secret.name(), "colours");
//! env.stop().await?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | a test wants | it has |
//! |---|---|
//! | a control plane | [`Environment::start`], or [`Environment::builder`] with choices: a socket, a seed, a real cluster in its place |
//! | its kinds | [`Environment::define`], or [`install_from`](Environment::install_from) the manifests of a project |
//! | to wait | [`Environment::eventually`] and its like, or [`Expectations`] of any client: driven by watches, they fail with the last state seen |
//! | others than the administrator | [`Environment::client_as`], [`Environment::kubeconfig_of`] |
//! | its webhooks called | `Environment::serve_webhooks` (feature `webhook`) |
//! | things to go wrong | [`Environment::on`] some [`Requests`]: they fail, wait, are lost, or their answers are |
//! | to know what was asked | [`Environment::record`] |
//! | to hold what its program calls against its roles | [`Environment::permissions_from`] |
//! | events without a server | [`FakeListWatch`] |
//! | everything to go wrong, one thing after the other | `explore` (feature `explore`, on by default) |
//!
//! # What is guaranteed
//!
//! - Environments share nothing: any number runs side by side in a process.
//! - In process nothing needs the clock of the machine: wall-clock time is tokio's, from the moment that the environment
//!   starts, so that a paused clock stands still for leases, ages and timers alike. With a seed, it begins at a fixed time.
//! - When [`Environment::stop`] has returned, nothing of the environment runs any more.
//!
//! # What is not
//!
//! - No controllers run but those that the test adds: nothing is garbage collected, and namespaces do not end, as in Go's
//!   envtest. Those of `windlass-controllers` can be added to a manager.
//! - Faults and recorders are between the environment's own clients and the server. Whoever comes over a socket is not heard.
//! - Webhooks are called over sockets, which do not go together with a paused clock.

mod builder;
mod clock;
pub mod contracts;
mod definitions;
mod environment;
mod error;
mod expectations;
#[cfg(feature = "explore")]
pub mod explore;
mod faults;
mod permissions;
mod recorder;
mod requests;
mod users;
#[cfg(feature = "webhook")]
mod webhooks;
mod wire;

pub use builder::EnvironmentBuilder;
pub use environment::Environment;
pub use error::Error;
pub use expectations::Expectations;
pub use faults::{Fault, Interception};
pub use permissions::{Missing, Permissions};
pub use recorder::{Recorded, Recorder};
pub use requests::{Requests, Sent};
pub use windlass_cache::testing::FakeListWatch;
pub use windlass_client::Verb;
pub use windlass_server::User;

/// What the environment does goes by this name in logs of servers and in managedFields.
const NAME: &str = "windlass-envtest";
