//! Keeps a registry outside of the cluster in step with its services, for programs that look their peers up there.
//!
//! ```text
//! cargo run -p registry-sync                                                    # a cluster and a registry in this process
//! cargo run -p registry-sync -- --etcd http://127.0.0.1:2379                    # the cluster in this process, a real etcd
//! cargo run -p registry-sync -- --polaris http://127.0.0.1:8090 --kubeconfig PATH
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `entry.rs` | what a registry is to know of a service: a value, made without a cluster |
//! | `registry.rs` | what a registry must be able to do, and how it fails |
//! | `known.rs` | what has been synced: decides between first seen, changed and deleted |
//! | `services.rs`, `namespaces.rs` | the two loops |
//! | `drift.rs` | what the registry has become of its own accord, looked at every minute |
//! | `memory.rs`, `etcd.rs`, `polaris.rs`, `wire.rs` | registries |
//! | `tour.rs`, `main.rs` | somebody who uses it; flags |
//!
//! # What is guaranteed
//!
//! - The registry ends as the cluster is, whatever it answers meanwhile: an answer that does not come, comes late or makes no
//!   sense leaves the service in doubt, and what is in doubt is written again.
//! - What others have in the registry is left alone.
//!
//! # What is not
//!
//! - Entries do not expire. While the program is down, the registry shows what was last true; a lease would empty it.
//! - Of two copies of the program both write the same; run one, or elect a leader.

mod drift;
mod entry;
mod etcd;
mod known;
mod memory;
mod namespaces;
mod polaris;
mod registry;
mod services;
mod sync;
mod tour;
mod wire;

pub use entry::{Entry, Instance};
pub use etcd::Etcd;
pub use memory::{Memory, Mood};
pub use polaris::Polaris;
pub use registry::{Registry, RegistryError};
pub use sync::RegistrySync;
pub use tour::{Look, cluster, tour};
