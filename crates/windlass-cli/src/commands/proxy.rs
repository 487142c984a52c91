//! `windlass proxy`: the API server on a local port without credentials of its own, as `kubectl proxy` gives it.
//!
//! Every client that reaches the port acts as the user of the kubeconfig. So it listens on loopback by default, and answers only
//! requests whose `Host` names it (a web page that has its own name point here is refused) and that do not come from a
//! page of another origin. By default it passes no exec and no attach on.

mod filter;
mod forward;

use std::{
    error::Error,
    net::{IpAddr, SocketAddr},
};

use clap::Args;
use windlass_client::Client;
use windlass_runtime::shutdown;

use crate::{connection::Connection, control_plane::listen, serving::serve};
use filter::{Filter, Patterns};
use forward::Forward;

/// The flags of `windlass proxy`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Where to listen; 0 takes a free port
    #[arg(long, short, default_value_t = 8001, value_name = "PORT")]
    port: u16,
    /// On which address to listen
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDR")]
    address: IpAddr,
    /// What stands before the server's paths here
    #[arg(long, default_value = "/", value_name = "PREFIX")]
    api_prefix: String,
    /// Which hosts may be asked for: regular expressions, separated by commas
    #[arg(long, default_value = r"^localhost$,^127\.0\.0\.1$,^\[::1\]$", value_name = "REGEX,...")]
    accept_hosts: Patterns,
    /// Which paths are passed on
    #[arg(long, default_value = "^.*", value_name = "REGEX,...")]
    accept_paths: Patterns,
    /// Which of those are not
    #[arg(long, default_value = "^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach", value_name = "REGEX,...")]
    reject_paths: Patterns,
    /// Which methods are not passed on
    #[arg(long, default_value = "^$", value_name = "REGEX,...")]
    reject_methods: Patterns,
    /// Pages of which other origins may send requests, such as https://dashboard.example; none by default
    #[arg(long, default_value = "^$", value_name = "REGEX,...")]
    accept_origins: Patterns,
    /// Passes everything on, from everywhere. Not where others can reach the port
    #[arg(long)]
    disable_filter: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let address = SocketAddr::new(options.address, options.port);
    let listener = listen(address, "--port N names another, --port 0 takes one that is free").await?;
    super::announce(&format!("Starting to serve on {}\n", listener.local_addr()?));
    serve(listener, options.forward(client), shutdown::signal()).await;
    Ok(())
}

impl Options {
    fn forward(&self, client: Client) -> Forward {
        let filter = (!self.disable_filter).then(|| Filter {
            hosts: self.accept_hosts.clone(),
            paths: self.accept_paths.clone(),
            rejected_paths: self.reject_paths.clone(),
            rejected_methods: self.reject_methods.clone(),
            origins: self.accept_origins.clone(),
        });
        // How often it is asked is up to those who ask.
        Forward::new(client.without_rate_limit(), &self.api_prefix, filter)
    }
}

#[cfg(test)]
mod tests;
