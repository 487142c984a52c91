//! An embedded Kubernetes API server, in process or over HTTPS.
//!
//! ```text
//! server   a value: built, asked in process (a tower service) or put on a socket (TLS, HTTP/1.1 and 2)
//!   └ http          a request becomes a verb of the registry, its result an answer: media types, tables, watches, errors
//!       └ authn         who asks, and whether they may
//!       └ registry      what the verbs mean, for all kinds; strategies of kinds, admission
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

#[cfg(feature = "wip")]
mod server;
#[cfg(feature = "wip")]
mod tls;

#[cfg(feature = "wip")]
mod authn;
#[cfg(feature = "wip")]
mod health;
#[cfg(feature = "wip")]
mod http;
#[cfg(feature = "wip")]
mod warning;

#[cfg(feature = "wip")]
mod admission;
#[cfg(feature = "wip")]
mod bootstrap {
    pub(crate) async fn start(_: std::sync::Arc<dyn crate::storage::Storage>, _: windlass_api::Clock, _: windlass_api::Entropy, _: &str) -> Result<crate::registry::Registry, windlass_api::Status> { todo!() }
}
#[cfg(feature = "wip")]
mod kinds { pub(crate) fn resources() -> Vec<std::sync::Arc<crate::registry::ResourceInfo>> { todo!() } }
#[cfg(feature = "wip")]
mod registry;
#[cfg(feature = "wip")]
mod encoded;

#[cfg(feature = "wip")]
mod discovery;
#[cfg(feature = "wip")]
mod openapi;
#[cfg(feature = "wip")]
mod table;

mod codec;
mod patch;
mod watch_cache;

pub mod storage;

#[cfg(feature = "wip")]
pub use self::{
    http::Body,
    server::{Server, ServerBuilder, Service},
    tls::{TlsError, TlsIdentity},
};
