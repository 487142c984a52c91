//! Keys and certificates: creation, PEM encoding, signing by an own authority or by the cluster, and renewal.
//!
//! - [`PrivateKey`] and [`Certificate`] are read from and written as PEM. A [`KeyedCertificate`] contains both.
//! - [`CertificateAuthority`] signs certificates, for tests, webhooks and other cases in which no public authority is
//!   needed.
//! - [`CertificateManager`] obtains a certificate from a cluster with a `CertificateSigningRequest`, stores it in a
//!   [`CertificateStore`], and renews it in time. Clients use the current certificate through a
//!   [`LiveIdentity`](crate::connection_options::LiveIdentity), and servers through a [`ServingCertificate`].
//!
//! Requires the feature `certificates`.
//!
//! # What is not guaranteed
//! This module neither verifies certificate chains nor revokes certificates. The peers of a connection decide which
//! authorities they trust.

mod authority;
mod certificate;
mod key;
mod manager;
mod request;
mod serving;
mod signing;
mod store;

use std::{io, path::PathBuf};

use thiserror::Error;
use windlass_api::BoxError;

pub use authority::{CertificateAuthority, Leaf, Validity, self_signed};
pub use certificate::{Certificate, KeyedCertificate};
pub use key::PrivateKey;
pub use manager::CertificateManager;
pub use request::{CertificateRequest, Usage};
pub use serving::ServingCertificate;
pub use store::{CertificateStore, FileStore, MemoryStore};

/// The error of a key or certificate operation. No variant contains a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A key or certificate cannot be created.
    #[error("making a {what}")]
    Create {
        /// The item.
        what: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// A key or certificate cannot be parsed.
    #[error("not a usable {what} in PEM")]
    Read {
        /// The item.
        what: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// The key of a certificate is missing or does not match it.
    #[error("the key does not match the certificate")]
    Mismatch,
    /// A file operation failed.
    #[error("{operation} {}", path.display())]
    File {
        /// The operation: `reading` or `writing`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A custom store returned an error.
    #[error("the store of certificates has failed")]
    Store(#[source] BoxError),
    /// The request failed: the server was unreachable or rejected it, or the certificate was not signed in time.
    #[error(transparent)]
    Request(#[from] crate::Error),
    /// The request was denied, or its signer failed.
    #[error("the certificate signing request {request:?} was not granted: {condition}{}", told(message))]
    NotGranted {
        /// The name of the request.
        request: String,
        /// The condition: `Denied` or `Failed`.
        condition: String,
        /// The message of the condition.
        message: String,
    },
    /// The request was deleted before it was signed.
    #[error("the certificate signing request {request:?} was deleted")]
    Deleted {
        /// The name of the request.
        request: String,
    },
}

impl CertificateError {
    fn create(what: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Create { what, source: source.into() }
    }

    fn read(what: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Read { what, source: source.into() }
    }
}

fn told(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

#[cfg(test)]
mod tests;
