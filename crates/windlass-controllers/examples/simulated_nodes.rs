//! Runs simulated nodes for a cluster that has a control plane but no machines. A scheduler binds pods to them, and the
//! pods pass from Pending to Running without running containers.
//!
//! ```sh
//! KUBECONFIG=cluster.kubeconfig cargo run -p windlass-controllers --example simulated_nodes -- 3
//! ```
//!
//! The argument is the number of nodes, 3 by default. When the program ends, the nodes stay in the cluster and become
//! not ready.

use windlass_controllers::{BuiltIn, Controllers};
use windlass_runtime::{Manager, shutdown};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = match std::env::args().nth(1) {
        Some(number) => number.parse().map_err(|error| format!("the number of nodes, {number:?}: {error}"))?,
        None => 3,
    };
    let mut manager = Manager::try_default().await?;
    Controllers::of([BuiltIn::Nodes]).nodes(nodes).add_to(&mut manager);
    Ok(manager.run(shutdown::signal()).await?)
}
