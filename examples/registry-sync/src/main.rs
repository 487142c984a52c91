//! The program: connects to the cluster and the registry.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use http::Uri;
use registry_sync::{Etcd, Memory, Polaris, Registry, RegistrySync, cluster, tour};
use windlass::{
    Client, Manager,
    api::BoxError,
    client::Config,
    config::{LogLevel, Logging},
    server::Server,
    shutdown,
};

/// Keeps an external registry in sync with the services of a cluster
#[derive(Debug, Parser)]
struct Options {
    /// Path of the kubeconfig of a cluster to run in until interrupted; without it, runs a demonstration with a cluster
    /// in this process
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Address of an etcd, as http://HOST:PORT; without this and --polaris, a registry in this process
    #[arg(long, conflicts_with = "polaris")]
    etcd: Option<Uri>,
    /// Prefix of all keys in etcd
    #[arg(long, default_value = "kubernetes")]
    prefix: String,
    /// Address of a Polaris, as http://HOST:PORT
    #[arg(long, requires = "token")]
    polaris: Option<Uri>,
    /// Token of a Polaris user with write access
    #[arg(long, env = "POLARIS_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Seconds between two checks of the registry; defaults to 60, or to 1 in the demonstration
    #[arg(long)]
    check_interval: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let options = Options::parse();
    let mut logging = Logging::default();
    if options.kubeconfig.is_none() {
        // The demonstration prints its own output.
        logging.level = LogLevel::Error;
    }
    logging.init()?;
    let registry = registry(&options)?;
    let seconds = options.check_interval.unwrap_or(if options.kubeconfig.is_some() { 60 } else { 1 });
    let sync = RegistrySync::with(Arc::clone(&registry)).check_every(Duration::from_secs(seconds));
    if let Some(path) = options.kubeconfig {
        let mut manager = Manager::new(Client::new(Config::from_file(path)?)?);
        sync.add_to(&mut manager);
        println!("running until interrupted");
        return Ok(manager.run(shutdown::signal()).await?);
    }
    let server = Server::builder().build();
    let client = Client::from_service(server.service(), "default");
    let mut manager = Manager::new(client.clone());
    cluster(&mut manager);
    sync.add_to(&mut manager);
    tokio::select! {
        ended = manager.run(std::future::pending()) => ended?,
        seen = tour(&client, registry) => seen?,
    }
    server.stop();
    Ok(())
}

fn registry(options: &Options) -> Result<Arc<dyn Registry>, BoxError> {
    Ok(match (&options.etcd, &options.polaris) {
        (Some(address), _) => Arc::new(Etcd::new(Client::new(Config::new(address.clone()))?, &options.prefix)),
        (None, Some(address)) => {
            let client = Client::new(Config::new(address.clone()))?;
            Arc::new(Polaris::new(client, options.token.as_deref().unwrap_or_default())?)
        }
        (None, None) => Arc::new(Memory::default()),
    })
}
