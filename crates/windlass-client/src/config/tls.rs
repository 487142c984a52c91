//! Whom to trust, and how to be recognised.

use std::{fmt, path::PathBuf};

/// What holds for connections with TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// PEM certificates of the authorities to trust; `None` for those of the system.
    pub certificate_authority: Option<Pem>,
    /// Whether the server's certificate is checked.
    pub verification: Verification,
    /// The name that the server's certificate must be for, where it is not that of the address.
    pub server_name: Option<String>,
    /// The caller's own certificate.
    pub identity: Option<Identity>,
}

/// Whether the server's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// It must be issued by an authority that is trusted, for the server's name.
    #[default]
    Full,
    /// Whoever answers is the server. Credentials sent to it may go to anybody.
    Skip,
}

/// A client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then those that lead to its authority.
    pub certificate: Pem,
    /// The key of the first certificate.
    pub key: Pem,
}

/// Certificates or a key, in PEM. `Debug` hides what they are.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// What does not change.
    Data(Vec<u8>),
    /// A file that somebody else may replace. It is read again when a minute has passed, and when the server has
    /// refused the caller or could not be trusted; while it cannot be used, what was last read stands. New connections
    /// use what is new, and old ones end with the requests that they carry.
    File(PathBuf),
}

impl TlsOptions {
    /// Trusts the authorities of a PEM bundle, and no others.
    #[must_use]
    pub fn trusting(certificate_authority: impl Into<Pem>) -> Self {
        Self { certificate_authority: Some(certificate_authority.into()), ..Self::default() }
    }

    /// Trusts whoever answers.
    #[must_use]
    pub fn unverified() -> Self {
        Self { verification: Verification::Skip, ..Self::default() }
    }

    /// The same, with a client certificate.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The same, for a server whose certificate has another name than its address.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

impl Identity {
    /// A certificate and its key.
    pub fn new(certificate: impl Into<Pem>, key: impl Into<Pem>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }
}

impl From<Vec<u8>> for Pem {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Data(bytes)
    }
}

impl From<&[u8]> for Pem {
    fn from(bytes: &[u8]) -> Self {
        Self::Data(bytes.to_vec())
    }
}

impl From<String> for Pem {
    fn from(text: String) -> Self {
        Self::Data(text.into_bytes())
    }
}

impl From<&str> for Pem {
    fn from(text: &str) -> Self {
        Self::Data(text.into())
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(bytes) => write!(f, "Data({} bytes)", bytes.len()),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}
