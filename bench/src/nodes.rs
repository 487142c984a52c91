//! Simulated nodes for a control plane without nodes. Windlass and the real control plane use the same program.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use windlass_api::BoxError;
use windlass_client::{Client, Config};
use windlass_controllers::{BuiltIn, Controllers, Pace};
use windlass_runtime::{Manager, shutdown};

/// The flags of `windlass-bench nodes`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the control plane
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The number of nodes
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// The start time of a container, in milliseconds
    #[arg(long, default_value_t = 0)]
    start: u64,
}

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let client = Client::new(Config::from_file(&options.kubeconfig)?)?.without_rate_limit();
    let mut manager = Manager::new(client);
    let start = Duration::from_millis(options.start);
    Controllers::of([BuiltIn::Nodes]).nodes(options.nodes).pace(Pace::new(start, start)).add_to(&mut manager);
    Ok(manager.run(shutdown::signal()).await?)
}
