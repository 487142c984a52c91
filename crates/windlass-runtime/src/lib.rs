//! Controllers: what turns changes in a cluster into work, and work into changes.
//!
//! The way of a change, and the module of each station:
//!
//! 1. A [`Watch`] says what is watched; the [`cluster`] has one informer for it, shared by all that ask (`source`).
//! 2. An event that passes the [`predicate`] becomes keys (`handler`): the object's own, its owner's, or what a function
//!    says.
//! 3. Keys wait in a queue of the [`controller`], each once.
//! 4. A worker takes a key, looks up the newest state of its object and calls the [`Reconciler`] ([`reconcile`]).
//! 5. The reconciler brings the world closer to what the object asks for, through the client in its [`Context`], and says
//!    what is next: an [`Action`]; after an error, a [`Retry`]. What it reads comes from the caches ([`client`]); what it
//!    often has to do is at hand ([`upsert`], [`finalizers`], [`owners`]).
//! 6. The [`manager`] runs controllers and what else belongs to them until the [`shutdown`]; where several processes run
//!    the same, in the one that is elected ([`leader_election`]), or in each for a part of the objects ([`sharding`]). What
//!    whoever runs it may choose stands in a file, or in flags (`config`, a feature).
//!
//! What people should know of it is told by [`events`]. What happens can be counted ([`metrics`]) and watched ([`observer`]), with
//! a browser, too ([`console`]); the kubelet asks for its [`health`]. What client-go and controller-runtime promise, and which
//! test holds it here, is in [`contracts`].
//!
//! # What is guaranteed
//!
//! - A controller never reconciles one object twice at the same time, whatever its concurrency.
//! - No reconcile begins before all caches of its controller hold their initial lists.
//! - Each state that a cache has seen last is reconciled: a change during a reconcile leads to another one.
//! - A panic of a reconciler, predicate, mapper or observer is contained.
//! - Nothing of a manager runs any more when [`Manager::run`] has returned.
//!
//! # What is not
//!
//! - Not every state is seen: between two reconciles there may have been many.
//! - Caches lag behind the server; a reconciler may read what it has itself overwritten since.
//! - Two processes that run the same manager both act, unless they hold a [`leader_election`] or share their keys by
//!   [`sharding`]. What even these do not guarantee is said there.

mod caches;
pub mod client;
pub mod cluster;
pub mod watch;

mod source;

mod handler;
pub mod predicate;

pub mod controller;
pub mod finalizers;
pub mod layer;
pub mod owners;
pub mod reconcile;
pub mod status;
pub mod upsert;

pub mod events;

pub mod leader_election;
pub mod sharding;

#[cfg(feature = "webhook")]
pub mod webhook;

pub mod manager;
pub mod shutdown;

#[cfg(feature = "config")]
pub mod config;

pub mod console;
pub mod health;
pub mod metrics;
pub mod observer;

mod own_writes;
mod serving;
mod writes;

pub mod contracts;

mod error;
mod host;

pub use caches::CacheOptions;
pub use client::CachedClient;
pub use cluster::Cluster;
pub use console::Console;
pub use controller::{Controller, ControllerDefaults, ControllerHandle, ControllerOverride, Watching};
pub use error::{Error, Result};
pub use handler::Owners;
pub use leader_election::{LeaderElection, Leadership};
pub use manager::{Added, Group, Manager, ManagerBuilder, ManagerHandle, Runnable, Running, Task};
pub use metrics::ControllerMetrics;
pub use observer::{
    Change, Outcome, ReconcileEvent, ReconcileFinished, ReconcileObserver, ReconcileStarted, ReconcileWrote, Trigger,
};
pub use predicate::Predicate;
pub use reconcile::{Action, Context, Reconciler, Retry};
pub use sharding::{Shard, Sharding};
pub use watch::Watch;
