//! An embedded Kubernetes API server, in process or over HTTPS.
//!
//! ```text
//! server   a value: built, asked in process (a tower service) or put on a socket (TLS, HTTP/1.1 and 2)
//!   └ http          a request becomes a verb of the registry, its result an answer: media types, tables, watches, errors
//!       └ authn, authz  who asks, and whether they may
//!       └ reviews       the same, put as objects; tokens of service accounts
//!       └ registry      what the verbs mean, for all kinds; strategies of kinds, admission
//!           └ field_manager who owns which field; server-side apply
//!           └ codec, patch  request bodies become ordered value trees, as the Go types would have it
//!           └ encoded       an object is encoded once, when it is written
//!           └ watch_cache   one watch of the storage, shared by all watches of clients
//!           └ storage       revisions, compare-and-put, history: a trait after etcd's MVCC, in memory here
//! discovery, openapi, table: what is served, described and printed
//! ```
//!
//! [`Server`] is the way in:
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use windlass_server::Server;
//! # use tower::ServiceExt as _;
//!
//! let server = Server::builder().build();
//! let request = http::Request::get("/api/v1/namespaces/default").body(String::new())?;
//! let response = server.service().oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! What it answers is what kube-apiserver 1.36 answers, in status, headers and body. It knows neither the client nor the
//! runtime, and starts no controllers: garbage collection and the end of namespaces are controllers here as there.

#![allow(clippy::result_large_err, reason = "a Status is what is sent: boxing each would buy nothing but a detour")]

mod server;
mod tls;
mod trust;
mod webhook;

mod authn;
mod authz;
mod health;
mod http;
mod metrics;
mod warning;

mod admission;
mod bootstrap;
mod connect;
mod encoded;
mod kinds;
mod registrations;
mod registry;
mod reviews;

mod apiextensions;

mod descriptions;
mod discovery;
mod openapi;
mod table;

mod codec;
mod field_manager;
mod patch;
mod watch_cache;

pub mod storage;

pub use self::{
    admission::PodAccounts,
    authn::{Anonymous, KeyError, TokenIssuer, User},
    authz::{AccessReviewer, Authorization, AuthorizationConfiguration, AuthorizerChain, ConfigurationError},
    http::Body,
    kinds::service::{InvalidServiceCidr, ServiceCidr},
    server::{Limits, Server, ServerBuilder, Service},
    tls::{TlsError, TlsIdentity, TlsVersion},
};
