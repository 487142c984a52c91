//! Keys and certificates: made, read and written in PEM, signed by an authority of one's own or by a cluster's, and renewed
//! before they end.
//!
//! - [`PrivateKey`] and [`Certificate`] are read from PEM and written as such; together they are a [`KeyedCertificate`].
//! - [`CertificateAuthority`] signs: for tests, for webhooks, for whoever needs no authority that others know.
//! - [`CertificateManager`] asks a cluster for a certificate by `CertificateSigningRequest`, keeps it in a
//!   [`CertificateStore`], and asks again in time. What is in use goes to clients as a
//!   [`LiveIdentity`](crate::config::LiveIdentity), and to servers as a [`ServingCertificate`].
//!
//! Needs the feature `certificates`.
//!
//! # What is not guaranteed
//! Chains are not verified here, and nothing is revoked: whom to trust is up to those who connect.

mod authority;
mod certificate;
mod key;
mod manager;
mod request;
mod serving;
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

/// Why there is no key or certificate. No variant holds a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// It cannot be made.
    #[error("making a {what}")]
    Make {
        /// What was to be made.
        what: &'static str,
        /// Why not.
        source: BoxError,
    },
    /// It cannot be read.
    #[error("this is no {what} in PEM that can be used")]
    Read {
        /// What was to be read.
        what: &'static str,
        /// Why not.
        source: BoxError,
    },
    /// A certificate is there without its key, or with another.
    #[error("the certificate and the key do not go together")]
    Mismatch,
    /// A file cannot be used.
    #[error("{operation} {}", path.display())]
    File {
        /// What was being done: `reading`, `writing`.
        operation: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A store that is not ours has failed.
    #[error("the store of certificates has failed")]
    Store(#[source] BoxError),
    /// The server was not reached, or has refused to be asked, or the request was not signed in time.
    #[error(transparent)]
    Ask(#[from] crate::Error),
    /// The request was denied, or its signer has failed.
    #[error("the certificate signing request {request:?} was not granted: {condition}{}", told(message))]
    NotGranted {
        /// Its name.
        request: String,
        /// `Denied` or `Failed`.
        condition: String,
        /// The words of whoever decided.
        message: String,
    },
    /// The request was deleted before it was signed.
    #[error("the certificate signing request {request:?} is gone")]
    Gone {
        /// Its name.
        request: String,
    },
}

impl CertificateError {
    fn make(what: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Make { what, source: source.into() }
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
