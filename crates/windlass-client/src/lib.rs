//! Clients for the Kubernetes API: the only crate of Windlass with TLS, an HTTP client and credentials.
//!
//! A call walks through the modules in this order:
//!
//! 1. [`config`]: where the server is and who is calling, from a kubeconfig, from the pod's service account, or given.
//! 2. [`Client`]: the verbs. Each returns a builder of [`verbs`]; required things are arguments, optional things are
//!    chained, `.await` sends. Typed verbs name the kind (`client.get::<Pod>("p")`); [`Client::dynamic`] and
//!    [`Client::metadata`] give the same verbs over a resource that is known at run time.
//!    [`Clientset`] has an accessor for each built-in resource, with the verbs that it serves.
//!    [`Client::rest`] builds requests of any verb, part by part.
//! 3. [`request`]: verb, resource and options become an `http::Request`, as a value; nothing is sent there.
//! 4. `pipeline`: requests wait for their turn ([`RateLimit`]), pass a [`Gate`] where there is one, are sent, and sent again
//!    where that is right; [`warnings`] and [`metrics`] learn of it here.
//! 5. `transport` and [`auth`]: the one boxed `tower` service that carries requests; credentials, TLS, connection pool.
//!    Requests are logged here as `curl` commands without their secrets: at `debug`, under `windlass_client::curl`.
//!    [`Client::from_service`] puts another service in its place, such as an API server in this process.
//! 6. `response`, `frame`: what comes back becomes an object, an [`Error`], or a stream that is cut into objects while it
//!    arrives.
//!
//! `certificates`, a feature, makes keys and certificates and has a cluster sign and renew them.
//!
//! Beside the verbs stand what is behind an object ([`Client::logs`], [`Client::exec`], [`Client::attach`],
//! [`Client::port_forward`]), what is decided of certificates ([`Client::approve`]), the scale of anything ([`Scales`]),
//! what a server serves ([`Discovery`], [`RestMapper`], [`OpenApi`]) and
//! [`ResourceListWatch`], the seam to the caches.
//!
//! # What is not guaranteed
//! A write that fails with [`Error::Transport`] may have been carried out. It is sent again only when the server has
//! certainly not begun with it, or asks for it.
//!
//! ```no_run
//! # async fn example() -> windlass_client::Result<()> {
//! use windlass_client::Client;
//! # use windlass_api::k8s_openapi;
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
//!
//! let client = Client::try_default().await?;
//! let pod = client.get::<Pod>("web-0").within("shop").await?;
//! for deployment in client.list::<Deployment>().within("shop").labels("app=web").await? {
//!     client.update_status(&deployment).await?;
//! }
//! # let _ = pod;
//! # Ok(())
//! # }
//! ```

pub mod auth;
#[cfg(feature = "certificates")]
pub mod certificates;
pub mod config;

mod transport;

mod accessor;
mod client;
#[cfg(feature = "clientset")]
pub mod clientset;
mod dynamic;
mod resources;
pub mod verbs;

pub mod request;
pub mod rest;

pub mod metrics;
mod pipeline;
pub mod retry;
pub mod wait;
pub mod warnings;

mod frame;
mod list_stream;
mod response;
mod watch_stream;
mod written;

mod approval;
mod behind;
mod logs;
mod port_forward;
mod proxy;
mod remote_command;
mod upkeep;
mod websocket;

mod discovery;
mod list_watch;
mod manifest;
mod openapi;
mod rest_mapper;
mod scale;
mod table;

mod error;
mod file;
mod user_agent;

#[cfg(test)]
mod testing;

pub use accessor::{Accessor, Custom, Served, can};
pub use approval::Decide;
pub use auth::{Auth, AuthError, Impersonation, Secret};
pub use client::Client;
#[cfg(feature = "clientset")]
pub use clientset::Clientset;
pub use config::{Config, ConfigError, Kubeconfig};
pub use discovery::{
    CachedDiscovery, DiscoveredGroup, DiscoveredResource, DiscoveredSubresource, DiscoveredVersion, Discovery,
    FailedVersion, Peers, ServerVersion, cache_folder,
};
pub use error::{Error, Operation, Result, Tolerate, Verb};
pub use list_watch::ResourceListWatch;
pub use logs::{LINE_LIMIT, LogSource, LogStream, Logs};
pub use manifest::{ManifestError, read_manifests};
pub use metrics::{ClientMetrics, TransportMetrics};
pub use openapi::{OpenApi, OpenApiPath, OpenApiRoot};
pub use pipeline::{Gate, Outgoing, OverloadBackoff, RateLimit};
pub use port_forward::{
    CONNECTION_LIMIT, ForwardedPort, LINGER, PortForward, PortForwarder, PortPair, PortPairError, PortStream,
};
pub use proxy::Proxied;
pub use remote_command::{CommandOutput, Exec, ExitStatus, RemoteCommand, Stdin, Stdout, TerminalSize};
pub use resources::Resources;
pub use rest_mapper::{DeferredRestMapper, MappingError, RestMapper, guess_plural};
pub use scale::{Scalable, Scales};
pub use table::{Columns, GetTable, Headers, Table, TableColumn, TableEvent, TableRow, TableWriter, TextLayout};
pub use transport::{Body, Closing, Transport, Upgraded};
pub use upkeep::Restart;
pub use user_agent::user_agent;
pub use warnings::{Warning, WarningHandler};
pub use watch_stream::{Bookmark, WatchEvent};
pub use written::{Stored, WriteObserver};

/// Arguments of the verbs.
pub use windlass_api::{DeleteOptions, DryRun, FieldValidation, Preconditions, Propagation};
