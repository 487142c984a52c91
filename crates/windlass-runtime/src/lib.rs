//! Controllers and their manager, the counterpart of Go's controller-runtime.
//!
//! The modules, in the order in which a change passes them:
//!
//! | stage | modules | content |
//! |---|---|---|
//! | watch | [`watch`], [`predicate`] | a [`Watch`] selects objects; predicates filter their events |
//! | cache | [`cluster`], `caches` | one informer per selection, shared by all controllers; `caches` has their options |
//! | keys | `source`, `handler`, `mapping`, `key_sink`, `trigger_notes` | an event becomes keys: the object's own, its owner's, or a mapping function's |
//! | queue, worker | [`controller`], `controller_settings` | each key once; a worker reads the newest state and retries failures |
//! | reconcile | [`reconcile`], [`layer`] | a [`Reconciler`] gets a [`Context`], returns an [`Action`] or an error |
//! | reads | [`client`], `read_your_writes` | reads from the caches show the manager's own writes |
//! | writes | [`upsert`], [`status`], [`finalizers`], [`owners`] | helpers for common tasks |
//! | reports | [`events`] | Kubernetes events for users |
//! | tests | [`testing`] | a context without a manager |
//! | | [`observer`], `reporter`, `write_attribution` | the steps of the control loop and their writes |
//! | processes | [`leader_election`], `sharding` | one leader reconciles, or each process a part of the objects |
//! | manager | [`runnable`], [`manager`], [`shutdown`] | runs controllers and other runnables until the shutdown |
//! | servers | [`metrics`], [`health`], `webhook` | metrics, probes, and webhooks with their certificates |
//! | | `console`, `console_data`, `cache_labels`, `serving` | the state of the manager in a browser |
//! | settings | `config`, `units` | settings from a file or from flags (feature `config`) |
//! | tracing | `otlp` | an exporter of spans, and their propagation (feature `otlp`) |
//! | | `error`, `host` | the error type; the host and the process |
//!
//! [`contracts`] lists the guarantees of client-go and controller-runtime, with the test for each.
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
//! - Two processes that run the same manager both act, unless they use [`leader_election`] or `sharding`. These
//!   modules document their own limits.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `certificates` (default) | certificates that the program creates itself, for webhooks and metrics; needs `ring` or `aws-lc-rs` |
//! | `config` | the module `config`, with all features that it configures: `certificates`, `console`, `metrics`, `sharding` |
//! | `console` (default) | the module `console` |
//! | `flags` | command-line flags; includes `config` |
//! | `logging` | the log configured by file and flags; includes `config` |
//! | `metrics` (default) | the Prometheus registry and its server, in [`metrics`] |
//! | `otlp` | export of spans, in `otlp` |
//! | `sharding` (default) | the module `sharding` |
//! | `webhook` | the module `webhook` |
//! | `ring` (default), `aws-lc-rs`, `fips`, `openssl`, `graviola` | the TLS cryptography, see `windlass-tls` |
//! | `v1_33` to `v1_37`, `latest`, `earliest` | the Kubernetes version of the built-in types |

pub mod contracts;

pub mod predicate;
pub mod watch;

mod caches;
pub mod cluster;

mod handler;
mod key_sink;
mod trigger_notes;
mod mapping;
mod source;

pub mod controller;
mod controller_settings;

pub mod layer;
pub mod reconcile;

pub mod client;
mod read_your_writes;

pub mod finalizers;
pub mod owners;
pub mod status;
pub mod upsert;

pub mod events;

pub mod testing;

pub mod observer;
mod reporter;
mod write_attribution;

pub mod leader_election;
#[cfg(feature = "sharding")]
pub mod sharding;
#[cfg(not(feature = "sharding"))]
#[path = "no_sharding.rs"]
mod sharding;

pub mod manager;
pub mod runnable;
pub mod shutdown;

pub mod health;
pub mod metrics;
#[cfg(feature = "webhook")]
pub mod webhook;

#[cfg(feature = "console")]
pub mod console;
#[cfg(feature = "console")]
mod console_data;
#[cfg(any(feature = "console", feature = "metrics"))]
mod cache_labels;
mod serving;

#[cfg(feature = "otlp")]
pub mod otlp;

#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "config")]
mod units;

mod error;
mod host;

pub use caches::CacheOptions;
pub use client::CachedClient;
pub use cluster::Cluster;
#[cfg(feature = "console")]
pub use console::Console;
pub use controller::{Controller, ControllerHandle, WatchHandle};
pub use controller_settings::{ControllerDefaults, ControllerOverride};
pub use error::{Error, Result, Retry, RetryHint};
pub use handler::Owners;
pub use leader_election::{LeaderElection, Leadership};
pub use manager::{Manager, ManagerBuilder};
pub use observer::{
    Change, ControllerMetrics, Outcome, ReconcileEvent, ReconcileFinished, ReconcileObserver, ReconcileStarted,
    ReconcileWrote, Trigger,
};
pub use predicate::Predicate;
pub use reconcile::{Action, Context, Reconciler};
pub use runnable::{Group, ManagerHandle, Runnable, RunnableContext, RunnableHandle, Task};
pub use sharding::Shard;
#[cfg(feature = "sharding")]
pub use sharding::Sharding;
pub use watch::Watch;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
