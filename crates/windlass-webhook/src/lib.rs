//! Webhooks for API servers: admission, conversion, authentication and authorization.
//!
//! The path of a call through the modules:
//!
//! 1. A [`Server`] accepts connections over TLS. Its certificate may be replaced while it runs ([`CertificateFiles`]).
//! 2. [`Webhooks`] finds the endpoint for the path ([`WebhookPath`]) and reads the body within limits.
//! 3. An [`admission`] review goes to a mutator, a validator or a handler. A [`conversion`] review goes to the hub of
//!    the kind. A token or access review goes to an authenticator or authorizer ([`reviews`]).
//! 4. The call is counted ([`WebhookMetrics`]).
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

mod body;
pub mod contracts;
mod endpoint;
mod path;
mod review;

pub mod admission;
pub mod conversion;
pub mod reviews;

mod webhooks;

mod certificates;
mod server;

mod metrics;

pub use certificates::{CertificateError, CertificateFiles};
pub use metrics::WebhookMetrics;
pub use path::{PathError, WebhookPath};
pub use server::{NotReady, Readiness, ServeError, Server};
pub use webhooks::{RegisterError, Webhooks, WebhooksBuilder};

#[cfg(test)]
mod testing;
