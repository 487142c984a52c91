//! Controllers and their manager, the counterpart of Go's controller-runtime.
//!
//! The path of a change through the modules:
//!
//! 1. A [`Watch`] selects objects. The [`cluster`] runs one informer per selection, shared by all controllers
//!    (`source`).
//! 2. An event that passes the [`predicate`] becomes keys (`handler`): the object's own key, its owner's, or keys from
//!    a mapping function.
//! 3. The queue of the [`controller`] holds each key once.
//! 4. A worker takes a key, reads the newest cached state of its object and calls the [`Reconciler`] ([`reconcile`]).
//! 5. The reconciler compares the desired state with the observed state and writes changes through the client in its
//!    [`Context`]. It returns an [`Action`], or an error with a [`Retry`] policy. Reads come from the caches
//!    ([`client`]). Helpers cover common tasks: [`upsert`], [`finalizers`], [`owners`].
//! 6. The [`manager`] runs controllers and other runnables until the [`shutdown`]. If several processes run the same
//!    manager, only the elected leader reconciles ([`leader_election`]), or each reconciles a part of the objects
//!    ([`sharding`]). Settings come from code, from a file or from flags (feature `config`).
//!
//! Controllers record [`events`] for users. [`metrics`] counts what happens, an [`observer`] sees each step, and the
//! [`console`] shows it in a browser. The kubelet probes the manager's [`health`]. [`contracts`] lists the guarantees
//! of client-go and controller-runtime, with the test for each.
//!
//! # Guarantees
//!
//! - A controller never reconciles one object twice at the same time, whatever its concurrency.
//! - No reconcile begins before all caches of its controller hold their initial lists.
//! - The last state that a cache has received is always reconciled: a change during a reconcile leads to another one.
//! - A panic of a reconciler, predicate, mapper or observer is contained.
//! - When [`Manager::run`] returns, no task of the manager is running.
//!
//! # Not guaranteed
//!
//! - Not every state is seen: an object may change several times between two reconciles.
//! - Caches lag behind the server, so a reconciler may read an object that another client has changed since.
//! - Two processes that run the same manager both act, unless they use [`leader_election`] or [`sharding`]. These
//!   modules document their own limits.

pub mod contracts;

mod error;
mod host;
pub mod shutdown;
#[cfg(feature = "config")]
mod units;

pub mod predicate;
pub mod watch;

mod caches;
pub mod cluster;
pub mod events;
mod read_your_writes;

pub mod client;
pub mod reconcile;

pub mod finalizers;
pub mod owners;
pub mod status;
pub mod upsert;

mod console_data;
pub mod observer;
mod reporter;

mod handler;
mod source;

pub mod leader_election;
pub mod sharding;

mod controller_settings;
pub mod runnable;

pub mod controller;
pub mod layer;
mod write_attribution;

pub mod console;
pub mod health;
pub mod metrics;
mod serving;
#[cfg(feature = "webhook")]
pub mod webhook;

pub mod manager;

#[cfg(feature = "config")]
pub mod config;

pub use caches::CacheOptions;
pub use client::CachedClient;
pub use cluster::Cluster;
pub use console::Console;
pub use controller::{Controller, ControllerHandle, WatchHandle};
pub use controller_settings::{ControllerDefaults, ControllerOverride};
pub use error::{Error, Result};
pub use handler::Owners;
pub use leader_election::{LeaderElection, Leadership};
pub use manager::{Manager, ManagerBuilder};
pub use observer::{
    Change, ControllerMetrics, Outcome, ReconcileEvent, ReconcileFinished, ReconcileObserver, ReconcileStarted,
    ReconcileWrote, Trigger,
};
pub use predicate::Predicate;
pub use reconcile::{Action, Context, Reconciler, Retry};
pub use runnable::{Group, ManagerHandle, Runnable, RunnableContext, RunnableHandle, Task};
pub use sharding::{Shard, Sharding};
pub use watch::Watch;
