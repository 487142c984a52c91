//! Whom to trust, how to be recognised, and what to speak.

use std::{fmt, path::PathBuf};

use super::LiveIdentity;

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
    /// The caller's own certificate, where somebody keeps one fresh in memory; `identity` stands in until there is one.
    pub live_identity: Option<LiveIdentity>,
    /// No version before this one is spoken.
    pub minimum_version: TlsVersion,
    /// The cipher suites to offer, best first; `None` for all that are known.
    pub cipher_suites: Option<Vec<CipherSuite>>,
    /// What is spoken over TLS.
    pub protocols: Protocols,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2
    #[default]
    V1_2,
    /// TLS 1.3, the newest
    V1_3,
}

/// What is spoken over TLS, where the server speaks it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/2, or HTTP/1.1 for servers that know no other.
    #[default]
    Http2OrHttp1,
    /// HTTP/1.1, a connection for each request at a time: for whom something between does no good to HTTP/2.
    Http1,
}

/// A cipher suite, by its name in IANA's list: `TLS_AES_128_GCM_SHA256`. Weak ones are not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are IANA's")]
#[non_exhaustive]
pub enum CipherSuite {
    Aes128GcmSha256,
    Aes256GcmSha384,
    Chacha20Poly1305Sha256,
    EcdheEcdsaWithAes128GcmSha256,
    EcdheEcdsaWithAes256GcmSha384,
    EcdheEcdsaWithChacha20Poly1305Sha256,
    EcdheRsaWithAes128GcmSha256,
    EcdheRsaWithAes256GcmSha384,
    EcdheRsaWithChacha20Poly1305Sha256,
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

    /// The same, with a client certificate that is replaced in memory.
    #[must_use]
    pub fn with_live_identity(mut self, identity: LiveIdentity) -> Self {
        self.live_identity = Some(identity);
        self
    }

    /// The same, for a server whose certificate has another name than its address.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The same, in no older version of TLS.
    #[must_use]
    pub const fn with_minimum_version(mut self, version: TlsVersion) -> Self {
        self.minimum_version = version;
        self
    }

    /// The same, with these cipher suites, best first, and no others.
    #[must_use]
    pub fn with_cipher_suites(mut self, suites: impl IntoIterator<Item = CipherSuite>) -> Self {
        self.cipher_suites = Some(suites.into_iter().collect());
        self
    }

    /// The same, speaking only these protocols.
    #[must_use]
    pub const fn with_protocols(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }
}

impl CipherSuite {
    /// All of them: the first three are of TLS 1.3, the others of TLS 1.2.
    pub const ALL: [Self; 9] = [
        Self::Aes128GcmSha256,
        Self::Aes256GcmSha384,
        Self::Chacha20Poly1305Sha256,
        Self::EcdheEcdsaWithAes128GcmSha256,
        Self::EcdheEcdsaWithAes256GcmSha384,
        Self::EcdheEcdsaWithChacha20Poly1305Sha256,
        Self::EcdheRsaWithAes128GcmSha256,
        Self::EcdheRsaWithAes256GcmSha384,
        Self::EcdheRsaWithChacha20Poly1305Sha256,
    ];

    /// `TLS_AES_128_GCM_SHA256`
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aes128GcmSha256 => "TLS_AES_128_GCM_SHA256",
            Self::Aes256GcmSha384 => "TLS_AES_256_GCM_SHA384",
            Self::Chacha20Poly1305Sha256 => "TLS_CHACHA20_POLY1305_SHA256",
            Self::EcdheEcdsaWithAes128GcmSha256 => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            Self::EcdheEcdsaWithAes256GcmSha384 => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            Self::EcdheEcdsaWithChacha20Poly1305Sha256 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            Self::EcdheRsaWithAes128GcmSha256 => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            Self::EcdheRsaWithAes256GcmSha384 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            Self::EcdheRsaWithChacha20Poly1305Sha256 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        }
    }

    /// The suite of a name; `None` for one that is not known.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.as_str() == name)
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
