//! The program: which cluster, which registry.

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

/// Keeps a registry outside of the cluster in step with its services
#[derive(Debug, Parser)]
struct Options {
    /// The cluster to work for until it is interrupted; without it, a cluster in this process, and somebody who uses it
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// An etcd, as http://HOST:PORT; without this and --polaris, a registry in this process
    #[arg(long, conflicts_with = "polaris")]
    etcd: Option<Uri>,
    /// What all keys in etcd begin with
    #[arg(long, default_value = "kubernetes")]
    prefix: String,
    /// A Polaris, as http://HOST:PORT
    #[arg(long, requires = "token")]
    polaris: Option<Uri>,
    /// The token of a user of Polaris who may write
    #[arg(long, env = "POLARIS_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Seconds between two looks at the registry; 60, or 1 where somebody is looking on
    #[arg(long)]
    look: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let options = Options::parse();
    let mut logging = Logging::default();
    if options.kubeconfig.is_none() {
        // Then the tour tells what there is to know.
        logging.level = LogLevel::Error;
    }
    logging.init()?;
    let registry = registry(&options)?;
    let look = options.look.unwrap_or(if options.kubeconfig.is_some() { 60 } else { 1 });
    let sync = RegistrySync::with(Arc::clone(&registry)).look_every(Duration::from_secs(look));
    if let Some(path) = options.kubeconfig {
        let mut manager = Manager::new(Client::new(Config::from_file(path)?)?);
        sync.add_to(&mut manager);
        println!("working until interrupted");
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
