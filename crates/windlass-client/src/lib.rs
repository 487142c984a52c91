//! Clients for the Kubernetes API, with typed and dynamic verbs, kubeconfig support, authentication and discovery.
//!
//! This is the only Windlass crate that contains TLS, an HTTP client and credentials.
//!
//! The modules in the order of the data flow. Each depends only on modules below it:
//!
//! ```text
//! certificates        keys and certificates, created or signed by the cluster (feature `certificates`)
//! scale               the scale subresource of any resource
//! rest_mapper         maps names and kinds to resources
//! openapi             the OpenAPI documents
//! discovery           the served resources
//! table               tables, as `kubectl get` prints them
//! manifest            reads YAML and JSON documents
//! list_watch          the list and watch calls of caches
//! clientset           an accessor for each built-in resource
//! accessor            the verbs that one resource serves
//! wait                waits for a condition of an object
//! approval            approves and denies certificate signing requests
//! admin               cordons nodes, restarts workloads
//! remote_command      runs commands in containers (feature `websockets`)
//! port_forward        forwards ports of pods (feature `websockets`)
//! proxy               HTTP requests to pods, services and nodes
//! logs                the logs of containers
//! websocket           frames of the streaming protocols (feature `websockets`)
//! connect             requests to connect subresources
//! rest                requests of any verb, built from their parts
//! dynamic             resources that are known only at run time
//! resources           the objects of one resource, with all verbs
//! verbs               the builder that each verb returns; `.await` sends it; `retry_watch` resumes broken watches
//! watch_stream        a watch response, cut into events
//! list_stream         a list response, cut into objects
//! client              the client: a transport with settings and default options
//! retry               repeats a function after conflicts and other errors
//! error               the errors of calls
//! pipeline            rate limit, gate, retries, timeout
//! warnings            warnings in responses
//! write_observer      notifications of successful writes
//! response            converts a response to an object or an error
//! negotiation         the encoding of requests and responses
//! request             converts verb, resource and options to an HTTP request
//! config              the configuration: from a kubeconfig, the pod's service account, or code
//! credentials         adds credentials to requests and renews them
//! transport           one boxed `tower` service: connection pools, proxies, TLS
//! kubeconfig          kubeconfig files
//! metrics             the metrics of requests and connections
//! config_error        the errors of configurations
//! auth                the description of credentials
//! connection_options  TLS, proxy and dialer
//! environment         the environment variables and home directory
//! operation           the verb and target of a call, for errors and metrics
//! codec               encodes and decodes objects
//! frame               cuts a byte stream into objects
//! body                the body of requests and responses
//! secret              a text that is not printed
//! file                replaces files atomically
//! field_manager       the default field managers of writes
//! user_agent          the `User-Agent` header
//! ```
//!
//! [`Config`] contains the address of the server and the credentials. [`Client`] has the verbs. Each verb returns a
//! builder of [`verbs`]: required parameters are arguments, options are chained methods, and `.await` sends the request.
//! There are four ways to name a resource:
//!
//! - by its type: `client.get::<Pod>("p")`,
//! - by an accessor, which has only the verbs that the resource serves: [`Clientset`],
//! - at run time: [`Client::dynamic`] and [`Client::metadata`],
//! - by the parts of the request: [`Client::rest`].
//!
//! [`RateLimit`] and an optional [`Gate`] delay or reject requests. Requests are logged as `curl` commands without their
//! secrets, at level `debug` under `windlass_client::curl`. [`Client::from_service`] replaces the transport with another
//! service, such as an API server in this process.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `certificates` | keys and certificates, signed and renewed by the cluster; needs `ring` or `aws-lc-rs` |
//! | `clientset` (default) | [`Clientset`] |
//! | `gzip` (default) | compressed responses |
//! | `http2` (default) | HTTP/2, if the server supports it |
//! | `websockets` (default) | [`Client::exec`], [`Client::attach`], [`Client::port_forward`] |
//! | `ring` (default), `aws-lc-rs`, `fips`, `openssl`, `graviola` | the TLS cryptography, see `windlass-tls` |
//! | `v1_33` to `v1_37`, `latest`, `earliest` | the Kubernetes version of the built-in types |
//!
//! Without a feature for TLS, a program must install a provider as the process default of rustls. If it installs one,
//! that provider takes precedence over the features.
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

#[cfg(all(feature = "certificates", not(any(feature = "ring", feature = "aws-lc-rs"))))]
compile_error!(
    "the feature `certificates` of windlass-client generates keys with ring or aws-lc-rs: enable `ring` or `aws-lc-rs`"
);

#[cfg(feature = "certificates")]
pub mod certificates;
mod scale;
mod rest_mapper;
mod openapi;
mod discovery;
mod table;
mod manifest;
mod list_watch;
#[cfg(feature = "clientset")]
pub mod clientset;
mod accessor;
pub mod wait;
mod approval;
mod admin;
#[cfg(feature = "websockets")]
mod remote_command;
#[cfg(feature = "websockets")]
mod port_forward;
mod proxy;
mod logs;
#[cfg(feature = "websockets")]
mod websocket;
mod connect;
pub mod rest;
mod dynamic;
mod resources;
pub mod verbs;
mod watch_stream;
mod list_stream;
mod client;
pub mod retry;
mod error;
mod pipeline;
pub mod warnings;
mod write_observer;
mod trace;
mod response;
mod negotiation;
pub mod request;
pub mod config;
mod credentials;
mod transport;
pub mod kubeconfig;
pub mod metrics;
mod config_error;
pub mod auth;
mod connection_options;
mod environment;
mod operation;
mod codec;
mod frame;
mod transcoded;
mod body;
mod secret;
mod file;
mod field_manager;
mod user_agent;
/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

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
pub use config::{Config, ContentType};
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
#[cfg(feature = "websockets")]
pub use port_forward::{
    CONNECTION_LIMIT, ForwardedPort, LINGER, PortForward, PortForwarder, PortPair, PortPairError, PortStream,
};
pub use proxy::Proxied;
#[cfg(feature = "websockets")]
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
