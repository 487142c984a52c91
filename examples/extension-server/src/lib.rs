//! An API server of its own that extends a cluster, as an example to run and copy.
//!
//! It serves ferries in two versions, with its own storage, defaults, validation and conversion. The cluster forwards the
//! requests for `ferries.example.com` to it, authenticates the users, and decides what they may do.
//!
//! ```text
//! cargo run --release -- up &                                  # writes windlass.kubeconfig
//! export KUBECONFIG=$PWD/windlass.kubeconfig
//! cargo run -p extension-server
//! kubectl get ferries
//! ```
//!
//! | file | content |
//! |---|---|
//! | `api.rs` | the versions of a ferry, and their rules |
//! | `cluster.rs` | the trust in the cluster, and the registration there |
//! | `main.rs` | the program |

use std::{future::Future, sync::Arc};

use tokio::net::TcpListener;
use windlass::{
    api::BoxError,
    client::Client,
    server::{Anonymous, AuthorizerChain, ExtensionApi, Server, TlsIdentity},
};

pub mod api;
mod cluster;

/// Serves ferries for the cluster of a client until `stop` is ready.
pub async fn serve(client: Client, stop: impl Future<Output = ()> + Send) -> Result<(), BoxError> {
    let (proxy, proxy_ca) = cluster::front_proxy(&client).await?;
    let identity = TlsIdentity::generate([cluster::SERVER_NAME])?.with_front_proxy_ca(&proxy_ca)?;
    let server = Server::builder()
        .extension(ExtensionApi::new().definition_with(api::definition()?, api::FerryRules))
        .front_proxy(proxy)
        .anonymous(Anonymous::Refused)
        .authorizers(AuthorizerChain::reviewed_by(Arc::new(cluster::Reviewer(client.clone()))))
        .build();
    server.start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let serving = async { server.serve(listener, identity.clone(), stop).await.map_err(BoxError::from) };
    let registered = cluster::register(&client, port, identity.ca_pem());
    let ((), ()) = tokio::try_join!(serving, registered)?;
    Ok(())
}
