//! Keeps an external registry in sync with the services of a cluster, for programs that use the registry for service
//! discovery.
//!
//! ```text
//! cargo run -p registry-sync                                                    # a cluster and a registry in this process
//! cargo run -p registry-sync -- --etcd http://127.0.0.1:2379                    # the cluster in this process, a real etcd
//! cargo run -p registry-sync -- --polaris http://127.0.0.1:8090 --kubeconfig PATH
//! ```
//!
//! | file | content |
//! |---|---|
//! | `entry.rs` | the registry's entry of a service, computed without a cluster |
//! | `registry.rs` | the trait of registries, and their errors |
//! | `sync_state.rs` | the memory of synced entries: distinguishes new, changed and deleted services |
//! | `services.rs`, `namespaces.rs` | the two controllers |
//! | `drift.rs` | the check for changes in the registry, once a minute |
//! | `memory.rs`, `etcd.rs`, `polaris.rs`, `wire.rs` | registries |
//! | `tour.rs`, `main.rs` | the demonstration; command-line flags |
//!
//! # What is guaranteed
//!
//! - The registry finally matches the cluster, whatever it responds in the meantime. If a response is missing, late or
//!   invalid, the service is marked as unconfirmed, and unconfirmed services are written again.
//! - Entries of other programs are not changed.
//!
//! # What is not guaranteed
//!
//! - Entries do not expire. While the program is down, the registry keeps the last synced state; with a lease, it would
//!   become empty.
//! - Two copies of the program both write the same entries. Run a single copy, or use leader election.

mod drift;
mod entry;
mod etcd;
mod sync_state;
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
pub use memory::{Behavior, Memory};
pub use polaris::Polaris;
pub use registry::{Registry, RegistryError};
pub use sync::RegistrySync;
pub use tour::{RegistryReader, cluster, tour};
