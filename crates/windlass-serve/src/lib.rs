//! The HTTP server behind all servers of Windlass: the API server, webhooks, metrics, probes, the console, and
//! `windlass proxy`.
//!
//! [`HttpServer`] has the limits and serves a listener. An [`Application`] answers its requests: a function, or a type
//! with state for each connection ([`Connection`]).
//!
//! ```
//! # async fn example(listener: tokio::net::TcpListener) {
//! use http::{Request, Response};
//! use windlass_serve::{HttpServer, RequestBody};
//!
//! let hello = |request: Request<RequestBody>| async move { Response::new(request.uri().path().to_owned()) };
//! HttpServer::new().connections(100).serve(listener, hello, std::future::pending()).await;
//! # }
//! ```
//!
//! The modules in the order of the data flow. Each depends only on modules below it:
//!
//! ```text
//! serve             accepts connections up to the limit, and shuts down
//! acceptor          accepts with a pause after each failure
//! connection        one connection: TLS handshake, HTTP version, requests
//! upgrade           continues a connection with another protocol
//! preface           recognizes HTTP/2 by its first bytes
//! heads             the time limit for a request head
//! coalesced_writes  sends what HTTP/2 writes at once together
//! socket            closes a connection without losing its last response
//! write_timeout     fails a connection whose peer does not read
//! erased            applications without their types, so that connections are compiled once
//! application       the interface of applications
//! body              request and response bodies
//! streams           the tasks of HTTP/2 streams, and their time limit
//! activity          the requests of each connection, to find idle ones
//! http_server       the entry point: HttpServer and its limits
//! ```
//!
//! # Guarantees
//!
//! - A process without free file descriptors does not spin: the server pauses between attempts, and closes idle
//!   connections.
//! - At the maximum number of connections, those that have been idle longest give way to new ones.
//! - A peer that is silent or slow holds a connection for a limited time only: during the TLS handshake, before and
//!   within a request head, and while a response waits to be read. The last limit also applies to each HTTP/2 stream.
//! - A response that is sent before its request was read completely arrives: the connection is closed after the client
//!   has read it, or after one second.
//! - After shutdown begins, no connection is accepted. Requests in progress end within the grace period, or are cut
//!   off. When [`HttpServer::serve`] returns or is dropped, none of its tasks and connections is left. This includes
//!   connections that continue with another protocol by [`Upgrade`]. Those that an application upgrades with hyper
//!   belong to the application.
//!
//! # Runtime
//!
//! A worker of tokio's runtime runs 61 tasks before it looks for sockets that are ready. Beside connections that send
//! large responses, small requests then wait for tens of milliseconds. Programs that mainly serve set
//! [`event_interval`](tokio::runtime::Builder::event_interval) to a lower number; `windlass up` has 8.
//!
//! # Not guaranteed
//!
//! - Request bodies have no limits in time or size; applications set them.
//! - HTTP/2 connections without requests are pinged, but have no idle timeout. They give way at the limit.
//! - Memory is not limited beyond the HTTP/2 windows and the size of a head. An application can account for it, and
//!   close connections ([`Connection::closed`]).

mod serve;
mod acceptor;
mod connection;
mod upgrade;
mod preface;
mod heads;
mod coalesced_writes;
mod socket;
mod write_timeout;
mod erased;
mod application;
mod body;
mod streams;
mod activity;
mod http_server;

pub use self::{
    application::{Application, Connection},
    body::RequestBody,
    http_server::{HttpServer, Protocols},
    upgrade::{Upgrade, UpgradedStream},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests;
