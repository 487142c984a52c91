//! Tests of the runtime against a simulated `ListWatch`, in process and under paused time.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod fake;
mod leases;
mod objects;
mod seen;

mod additions;
mod admin;
#[cfg(all(feature = "config", feature = "webhook"))]
mod configured;
mod console;
mod controllers;
mod election;
mod errors;
mod events;
mod helpers;
mod managers;
mod mappers;
mod own_writes;
mod reads;
mod sharding;
mod spans;
mod test_contexts;
mod triggers;
