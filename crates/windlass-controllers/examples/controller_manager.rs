//! Runs the built-in controllers for a cluster that has an API server only, like kube-controller-manager.
//!
//! ```sh
//! KUBECONFIG=cluster.kubeconfig cargo run -p windlass-controllers --example controller_manager -- \
//!     --controllers '*,-nodes,-cronjob' --leader-elect
//! ```
//!
//! `--help` lists the flags, `--print-config` the settings of a configuration file. `cargo xtask long
//! explore-controllers` explores this program with faults.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::Parser;
use windlass_api::ErrorChain;
use windlass_cache::{InformerOptions, InitialSync};
use windlass_client::warnings::IgnoreWarnings;
use windlass_controllers::Controllers;
use windlass_runtime::{
    Error, Manager, Result,
    config::{ManagerConfiguration, ManagerFlags},
    shutdown,
};

/// Runs the built-in controllers
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    manager: ManagerFlags,
    /// Controllers to run, separated by commas; * runs all, a leading - excludes one
    #[arg(long, value_name = "a,b", default_value = "*,-nodes")]
    controllers: Controllers,
    /// PEM file with the certificate authority of the API server, for the ConfigMap kube-root-ca.crt of each namespace;
    /// without it, there are no such ConfigMaps
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// Fill the caches by lists, which a lagging API server may answer from an earlier state, as client-go does before
    /// 0.35; by default by watches, which begin with the current state
    #[arg(long)]
    list_first: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let config = options.manager.configuration_or_exit(defaults());
    match run(options, &config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %ErrorChain(&error), "the controllers failed");
            ExitCode::FAILURE
        }
    }
}

/// Returns the default configuration, which the configuration file and flags override.
fn defaults() -> ManagerConfiguration {
    let mut defaults = ManagerConfiguration::default();
    defaults.leader_election.id = "windlass-controller-manager".into();
    defaults.leader_election.namespace = Some("kube-system".into());
    defaults.leader_election.release_on_cancel = true;
    defaults
}

async fn run(options: Options, config: &ManagerConfiguration) -> Result<()> {
    config.logging.init()?;
    // API servers warn about the deprecated Endpoints, which the controllers write intentionally.
    let client = config.client.connect()?.with_warnings(IgnoreWarnings);
    let how = if options.list_first { InitialSync::List } else { InitialSync::Watch };
    let caches = InformerOptions::default().initial_sync(how);
    let mut manager = Manager::builder(client).caches(caches).configured(config)?.build();
    let mut controllers = options.controllers;
    if let Some(path) = &options.root_ca_file {
        let read = fs::read_to_string(path);
        let pem = read.map_err(|error| Error::other(format!("cannot read {}: {error}", path.display())))?;
        controllers = controllers.root_ca(pem);
    }
    controllers.add_to(&mut manager);
    manager.run(shutdown::signal()).await
}
