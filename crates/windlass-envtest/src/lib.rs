//! A test environment in one process: an API server, clients and managers, with faults, recorders and waiting.
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
//! env.client().create(&ConfigMap::named("colors").in_namespace("default")).await?;
//! let secret = env.eventually::<Secret>("colors", |_| true).await;
//! assert_eq!(secret.name(), "colors");
//! env.stop().await?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | task | API |
//! |---|---|
//! | Start a control plane | [`Environment::start`], or [`Environment::builder`] with options: a socket, a seed, an existing cluster |
//! | Install custom resources | [`Environment::define`], or [`install_from`](Environment::install_from) the manifests of a project |
//! | Wait for a condition | [`Environment::eventually`] and similar methods, or [`Expectations`] with any client: driven by watches, they fail with the last state seen |
//! | Act as another user | [`Environment::client_as`], [`Environment::kubeconfig_of`] |
//! | Serve webhooks | `Environment::serve_webhooks` (feature `webhook`) |
//! | Inject faults | [`Environment::on`] some [`RequestMatcher`]: requests fail, wait or are lost, or their responses are lost |
//! | Record requests | [`Environment::record`] |
//! | Check a program's requests against its roles | [`Environment::permissions_from`] |
//! | Send events without a server | [`FakeListWatch`] |
//! | Inject every possible fault, one per run | `explore` (feature `explore`, on by default) |
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! contracts      envtest's contracts and their tests
//! explore        fault exploration
//! permissions    a program's requests, compared with its roles
//! definitions    installation of custom resources
//! webhooks       the program's webhooks
//! users          clients and kubeconfigs of users
//! builder        the options and the start of an environment
//! environment    a control plane with clients and managers
//! expectations   waits for conditions
//! clock          the clock of an environment
//! wire           the transport of all clients, which records requests and injects faults
//! faults         the faults
//! recorder       the recorders
//! registry       the faults or recorders of an environment
//! requests       requests and their matchers
//! error          the errors
//! ```
//!
//! # What is guaranteed
//!
//! - Environments share nothing: any number can run side by side in a process.
//! - An environment in process does not use the machine's clock. Wall-clock time follows tokio's clock from the start
//!   of the environment, so a paused clock stops leases, ages and timers alike. With a seed, the time starts at a fixed
//!   date.
//! - After [`Environment::stop`] has returned, nothing of the environment is running.
//!
//! # What is not guaranteed
//!
//! - Only the controllers that the test adds are running. Nothing is garbage collected, and namespaces are not
//!   finalized, as in Go's envtest. The controllers of `windlass-controllers` can be added to a manager.
//! - Faults and recorders only apply to the environment's own clients. Requests over a socket are neither affected nor
//!   recorded.
//! - Webhooks are called over sockets, which do not work with a paused clock.

pub mod contracts;
#[cfg(feature = "explore")]
pub mod explore;
mod permissions;
mod definitions;
#[cfg(feature = "webhook")]
mod webhooks;
mod users;
mod builder;
mod environment;
mod expectations;
mod clock;
mod wire;
mod faults;
mod recorder;
mod registry;
mod requests;
mod error;

pub use builder::EnvironmentBuilder;
pub use environment::Environment;
pub use error::{Error, MissingPermissions};
pub use expectations::Expectations;
pub use faults::{Fault, Interception};
pub use permissions::Permissions;
pub use recorder::{Recorded, Recorder};
pub use requests::{RequestMatcher, Sent};
pub use windlass_cache::testing::FakeListWatch;
pub use windlass_client::Verb;
pub use windlass_server::{KubernetesVersion, User};

/// The environment's name in server logs, and its field manager.
const NAME: &str = "windlass-envtest";

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
