//! Clients for the Kubernetes API, with typed and dynamic verbs, kubeconfig support, authentication and discovery.
//!
//! This is the only Windlass crate that contains TLS, an HTTP client and credentials.
//!
//! A call passes through the modules in this order:
//!
//! 1. [`config`]: the address of the server and the credentials, from a kubeconfig, from the pod's service account, or
//!    set explicitly.
//! 2. [`Client`]: the verbs. Each verb returns a builder of [`verbs`]. Required parameters are arguments, options are
//!    chained methods, and `.await` sends the request. Typed verbs name the kind (`client.get::<Pod>("p")`);
//!    [`Client::dynamic`] and [`Client::metadata`] provide the same verbs for a resource that is only known at run
//!    time. [`Clientset`] has an accessor for each built-in resource, with the verbs that the resource serves.
//!    [`Client::rest`] builds requests of any verb from their parts.
//! 3. [`request`]: verb, resource and options become an `http::Request` value. This module sends nothing.
//! 4. `pipeline`: applies the rate limit ([`RateLimit`]) and an optional [`Gate`], sends requests and retries them.
//!    [`warnings`] and [`metrics`] are reported here.
//! 5. `transport` and [`auth`]: the one boxed `tower` service that carries requests, with credentials, TLS and the
//!    connection pool. Requests are logged here as `curl` commands without their secrets, at level `debug` under
//!    `windlass_client::curl`. [`Client::from_service`] replaces the transport with another service, such as an API
//!    server in this process.
//! 6. `response`, `frame`: the response becomes an object, an [`Error`], or a stream that is cut into objects while it
//!    arrives.
//!
//! The optional feature `certificates` creates keys and certificates, and has the cluster sign and renew them.
//!
//! Other APIs of this crate:
//!
//! - Pods: [`Client::logs`], [`Client::exec`], [`Client::attach`], [`Client::port_forward`].
//! - Certificate signing requests: [`Client::approve`].
//! - The scale subresource of any resource: [`Scales`].
//! - Discovery of the served resources: [`Discovery`], [`RestMapper`], [`OpenApi`].
//! - The list and watch calls of caches: [`ResourceListWatch`].
//!
//! # What is not guaranteed
//! A write that fails with [`Error::Transport`] may have been carried out. The client retries it only if the server has
//! certainly not started it, or if the server asks for a retry.
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

mod environment;
mod file;
mod secret;
mod user_agent;

mod body;
mod codec;
mod frame;
mod operation;

pub mod auth;
mod config_error;
mod connection_options;
pub mod kubeconfig;
pub mod metrics;

mod transport;

mod credentials;

pub mod config;

pub mod request;
mod response;
pub mod warnings;
mod write_observer;

mod pipeline;

mod error;

mod client;

mod list_stream;
mod watch_stream;

pub mod verbs;

mod resources;

mod accessor;
#[cfg(feature = "clientset")]
pub mod clientset;
mod dynamic;
pub mod rest;
pub mod retry;
pub mod wait;

mod connect;
mod websocket;

mod admin;
mod approval;
mod logs;
mod port_forward;
mod proxy;
mod remote_command;

mod discovery;
mod list_watch;
mod manifest;
mod openapi;
mod rest_mapper;
mod scale;
mod table;

#[cfg(feature = "certificates")]
pub mod certificates;

#[cfg(test)]
mod testing;

pub use accessor::{Accessor, Custom, Served, can};
pub use admin::Restart;
pub use approval::ApprovalRequest;
pub use auth::{Auth, AuthError, Impersonation};
pub use body::Body;
pub use client::Client;
#[cfg(feature = "clientset")]
pub use clientset::Clientset;
pub use config::Config;
pub use config_error::ConfigError;
pub use discovery::{
    CachedDiscovery, DiscoveredGroup, DiscoveredResource, DiscoveredSubresource, DiscoveredVersion, Discovery,
    FailedVersion, Peers, ServerVersion, cache_folder,
};
pub use error::{Error, Result, Tolerate};
pub use kubeconfig::Kubeconfig;
pub use list_watch::ResourceListWatch;
pub use logs::{LINE_LIMIT, LogSource, LogStream, Logs};
pub use manifest::{ManifestError, read_manifests};
pub use metrics::{ClientMetrics, TransportMetrics};
pub use openapi::{OpenApi, OpenApiPath, OpenApiRoot};
pub use operation::{Operation, Verb};
pub use pipeline::{Gate, Outgoing, OverloadBackoff, RateLimit};
pub use port_forward::{
    CONNECTION_LIMIT, ForwardedPort, LINGER, PortForward, PortForwarder, PortPair, PortPairError, PortStream,
};
pub use proxy::Proxied;
pub use remote_command::{CommandOutput, Exec, ExitStatus, RemoteCommand, Stdin, Stdout, TerminalSize};
pub use resources::Resources;
pub use rest_mapper::{DeferredRestMapper, MappingError, RestMapper, guess_plural};
pub use scale::{Scalable, Scales};
pub use secret::Secret;
pub use table::{Columns, GetTable, Headers, Table, TableColumn, TableEvent, TableRow, TableWriter, TextLayout};
pub use transport::{Closing, Transport, Upgraded};
pub use user_agent::user_agent;
pub use warnings::{Warning, WarningHandler};
pub use watch_stream::{Bookmark, WatchEvent};
pub use write_observer::{Stored, WriteObserver};

/// Arguments of verbs.
pub use windlass_api::{DeleteOptions, DryRun, FieldValidation, Preconditions, Propagation};
