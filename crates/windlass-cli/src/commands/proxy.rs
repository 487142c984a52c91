//! `windlass proxy`: serves the API server on a local port without authentication, like `kubectl proxy`.
//!
//! Every client that reaches the port acts as the user of the kubeconfig. So it listens on loopback by default. It
//! accepts only requests whose `Host` is a local name: a web page whose own name resolves to this address is rejected.
//! Requests from pages of another origin are rejected as well. By default, it forwards neither exec nor attach.

mod filter;
mod forward;

use std::{
    error::Error,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use clap::Args;
use http::Request;
use windlass_client::Client;
use windlass_runtime::shutdown;
use windlass_serve::{Application, RequestBody};

use crate::{connection::Connection, control_plane::listen, serving::serve};
use filter::{Filter, Patterns};
use forward::Forward;

/// The flags of `windlass proxy`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Port to listen on; 0 selects a free port
    #[arg(long, short, default_value_t = 8001, value_name = "PORT")]
    port: u16,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDR")]
    address: IpAddr,
    /// Path prefix under which the API is served
    #[arg(long, default_value = "/", value_name = "PREFIX")]
    api_prefix: String,
    /// Accepted values of the Host header: regular expressions, separated by commas
    #[arg(long, default_value = r"^localhost$,^127\.0\.0\.1$,^\[::1\]$", value_name = "REGEX,...")]
    accept_hosts: Patterns,
    /// Accepted paths
    #[arg(long, default_value = "^.*", value_name = "REGEX,...")]
    accept_paths: Patterns,
    /// Rejected paths
    #[arg(long, default_value = "^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach", value_name = "REGEX,...")]
    reject_paths: Patterns,
    /// Rejected methods
    #[arg(long, default_value = "^$", value_name = "REGEX,...")]
    reject_methods: Patterns,
    /// Origins of pages that may send requests, such as https://dashboard.example; none by default
    #[arg(long, default_value = "^$", value_name = "REGEX,...")]
    accept_origins: Patterns,
    /// Accept every request, from any client. Dangerous if others can reach the port
    #[arg(long)]
    disable_filter: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let address = SocketAddr::new(options.address, options.port);
    let listener = listen(address, "set another port with --port N, or use --port 0 for a free one").await?;
    super::announce(&format!("Starting to serve on {}\n", listener.local_addr()?));
    serve(listener, application(options.forward(client)), shutdown::signal()).await;
    Ok(())
}

fn application(forward: Forward) -> impl Application {
    let forward = Arc::new(forward);
    move |request: Request<RequestBody>| {
        let forward = Arc::clone(&forward);
        async move { forward.answer(request).await }
    }
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
        // No rate limit: the clients determine the request rate.
        Forward::new(client.without_rate_limit(), &self.api_prefix, filter)
    }
}

#[cfg(test)]
mod tests;
