//! A single binary for the whole suite, because linking takes the most time.
#![allow(clippy::unwrap_used, reason = "tests, and what only they call")]

mod audit;
mod authentication;
mod caches;
mod cases;
mod client;
mod compaction;
mod console;
mod default_roles;
mod derived;
mod election;
mod environment;
mod errors;
mod events;
mod informers;
mod loops;
mod metrics;
mod operators;
mod policies;
mod process;
mod sharding;
mod shutdown;
mod storage_migration;
mod webhooks;
mod wire;
