//! The program: connects to a cluster and runs the manager.

use std::path::PathBuf;

use clap::Parser;
use ingress_manager::{controller, tour};
use windlass::{
    Client, Manager, ReconcileEvent, api::BoxError, client::Config, runtime::ReconcileWrote, server::Server, shutdown,
};
use windlass_controllers::{BuiltIn, Controllers};

/// Creates an Ingress for each Service with the annotation `ingress/http`
#[derive(Debug, Parser)]
struct Options {
    /// Path of the kubeconfig of a cluster to run in until interrupted; without it, runs a demonstration with a cluster
    /// in this process
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let Some(path) = Options::parse().kubeconfig else { return show().await };
    let manager = manager(Client::new(Config::from_file(path)?)?);
    println!("running until interrupted");
    Ok(manager.run(shutdown::signal()).await?)
}

fn manager(client: Client) -> Manager {
    let mut manager = Manager::new(client);
    manager.add(controller());
    manager.on_reconcile(|event: &ReconcileEvent<'_>| {
        if let ReconcileEvent::Wrote(ReconcileWrote { controller, operation, status, .. }) = event {
            println!("loop  {controller}: {operation}: {}", status.map_or("no answer".into(), |code| code.to_string()));
        }
    });
    manager
}

/// Runs a cluster, the manager and the demonstration in this process.
async fn show() -> Result<(), BoxError> {
    let server = Server::builder().build();
    let client = Client::from_service(server.service(), "default");
    let mut manager = manager(client.clone());
    Controllers::of([BuiltIn::GarbageCollector]).add_to(&mut manager);
    tokio::select! {
        ended = manager.run(std::future::pending()) => ended?,
        seen = tour(&client) => seen?,
    }
    server.stop();
    Ok(())
}
