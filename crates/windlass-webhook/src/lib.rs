//! Webhooks for API servers: admission, conversion, authentication and authorization.
//!
//! The modules, in the order in which a call passes them:
//!
//! | module | content |
//! |---|---|
//! | `server` | a [`Server`] accepts connections over TLS |
//! | `certificates` | reloads the certificate while the server runs ([`CertificateFiles`]) |
//! | `webhooks`, `path` | [`Webhooks`] finds the endpoint for the path ([`WebhookPath`]) |
//! | `body`, `review` | reads the body within limits, and the review in it |
//! | `endpoint` | the interface of the following three |
//! | [`admission`] | an admission review goes to a mutator, a validator or a handler |
//! | [`conversion`] | a conversion review goes to the hub of the kind |
//! | [`reviews`] | a token or access review goes to an authenticator or an authorizer |
//! | `metrics` | each call is counted ([`WebhookMetrics`]) |
//! | `trace` | each call has a span |
//!
//! [`contracts`] lists the guarantees of controller-runtime, with the test for each.
//!
//! In a program with a manager, the server is a runnable. windlass-runtime can also create the certificates and inject
//! the `caBundle` (feature `webhook`).
//!
//! # Guarantees
//!
//! - Every readable call is answered with a review of the same kind and version, and with its UID, even if the handler
//!   panics.
//! - A new certificate breaks no connection and fails no call.
//! - Calls that have begun before a stop are answered within the grace period.
//!
//! # Not guaranteed
//!
//! - Callers are not authenticated, unless clients must present a certificate ([`Server::client_ca`]).
//! - Handlers have no time limit. The API server gives up after its timeout (10 s by default). The handler of an
//!   abandoned call is dropped at its next await point.

pub mod contracts;

mod certificates;
mod server;

mod path;
mod webhooks;

mod body;
mod endpoint;
mod review;

pub mod admission;
pub mod conversion;
pub mod reviews;

mod metrics;
mod trace;

pub use certificates::{CertificateError, CertificateFiles};
pub use metrics::WebhookMetrics;
pub use path::{PathError, WebhookPath};
pub use server::{NotReady, Readiness, ServeError, Server};
pub use webhooks::{RegisterError, Webhooks, WebhooksBuilder};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod testing;
