//! An embedded Kubernetes API server, in process or over HTTPS.
//!
//! ```text
//! server   a handle: built, called in process (a tower service) or served on a socket (TLS, HTTP/1.1 and 2)
//!   └ http          maps requests to verbs of the registry and renders results: media types, tables, watches, errors
//!       └ authn, authz  authentication and authorization
//!       └ reviews       access reviews; tokens of service accounts
//!       └ registry      the verbs for all kinds; strategies of kinds, admission
//!           └ field_manager managed fields; server-side apply
//!           └ codec, patch  decodes request bodies into ordered value trees, by the rules of the Go types
//!           └ encoded       encodes an object once, when it is written
//!           └ watch_cache   one watch of the storage, shared by all client watches
//!           └ storage       revisions, compare-and-put, history: a trait modelled on etcd's MVCC, implemented in memory
//! discovery, openapi, table: discovery documents, schemas and tables
//! ```
//!
//! [`Server`] is the entry point:
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
//! Its responses are those of kube-apiserver 1.36 in status, headers and body. The server depends on neither the client
//! nor the runtime, and starts no controllers. As in Kubernetes, controllers do garbage collection and delete the
//! content of namespaces.

#![allow(clippy::result_large_err, reason = "a Status is sent to the client; boxing only adds an indirection")]

mod server;
mod state;
mod tls;
mod trust;
mod webhook;

mod authn;
mod authz;
mod health;
mod http;
mod identity;
mod metrics;
mod warning;

mod admission;
mod api_services;
mod bootstrap;
mod budget;
mod connect;
mod encoded;
mod kinds;
mod object;
mod registry;
mod request;
mod resource;
mod reviews;

mod apiextensions;

mod descriptions;
mod discovery;
mod openapi;
mod schemas;
mod table;

mod codec;
mod field_manager;
mod patch;
mod watch_cache;

pub mod storage;

pub use self::{
    admission::PodAccounts,
    authn::{Anonymous, KeyError, TokenIssuer},
    authz::{AccessReviewer, Authorization, AuthorizationConfiguration, AuthorizerChain, ConfigurationError},
    budget::Limits,
    http::Body,
    identity::User,
    kinds::service::{InvalidServiceCidr, ServiceCidr},
    server::{Server, ServerBuilder, Service},
    tls::{TlsError, TlsIdentity, TlsVersion},
};
