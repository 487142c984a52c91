//! Webhooks: what an API server asks before it writes, converts, or lets somebody in.
//!
//! The way of a call, and the module of each station:
//!
//! 1. A [`Server`] takes connections over TLS, with a certificate that may change meanwhile ([`CertificateFiles`]).
//! 2. [`Webhooks`] find what stands behind its path ([`WebhookPath`]), and read its body with care.
//! 3. A review of [`admission`] goes to a mutator, a validator or a handler; one for [`conversion`] to the hub of the kind;
//!    one of [`reviews`] to whoever knows tokens or rights.
//! 4. What happened is counted ([`WebhookMetrics`]).
//!
//! In a program with a manager, the server is one of its runnables, and windlass-runtime makes the certificates and tells
//! the API server whom to trust, if asked to (its feature `webhook`).
//!
//! # What is guaranteed
//!
//! - Every call that can be read is answered, as the review that it was and with its uid, whatever a handler does: a panic is
//!   an answer too.
//! - A new certificate breaks no connection and fails no call.
//! - What has begun when the server is to stop is answered within the grace period.
//!
//! # What is not
//!
//! - Who calls is not known, unless clients have to show a certificate ([`Server::client_ca`]).
//! - A handler may take as long as it likes: it is the API server that gives up (after 10 s by default), and a call that it
//!   has given up is dropped where its handler waits.

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
