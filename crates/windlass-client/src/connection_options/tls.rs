//! TLS: trusted authorities, client certificates, versions and protocols.

use std::{fmt, path::PathBuf};

use super::LiveIdentity;

/// TLS options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// The trusted certificate authorities in PEM; `None` for those of the system.
    pub certificate_authority: Option<Pem>,
    /// The verification of the server's certificate.
    pub verification: Verification,
    /// The expected name in the server's certificate, if it differs from the address.
    pub server_name: Option<String>,
    /// The client certificate.
    pub identity: Option<Identity>,
    /// A client certificate that is replaced in memory. `identity` is used until it is set.
    pub live_identity: Option<LiveIdentity>,
    /// The minimum TLS version.
    pub minimum_version: TlsVersion,
    /// The cipher suites to offer, in order of preference; `None` for all supported ones.
    pub cipher_suites: Option<Vec<CipherSuite>>,
    /// The HTTP versions to offer.
    pub protocols: Protocols,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// The HTTP versions to offer over TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/2, or HTTP/1.1 if the server does not support HTTP/2.
    #[default]
    Http2OrHttp1,
    /// HTTP/1.1 only, with one connection per concurrent request, for networks in which intermediaries break HTTP/2.
    Http1,
}

/// A cipher suite by its IANA name, such as `TLS_AES_128_GCM_SHA256`. Weak suites are not supported.
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

/// Verification of the server's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// The certificate must be issued by a trusted authority for the server's name.
    #[default]
    Full,
    /// Any certificate is accepted. Credentials may be sent to an attacker.
    Skip,
}

/// A client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, followed by its intermediate certificates.
    pub certificate: Pem,
    /// The private key of the certificate.
    pub key: Pem,
}

/// Certificates or a key in PEM. `Debug` hides the content.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// Static content.
    Data(Vec<u8>),
    /// A file that another program may replace. It is read again after a minute, and after the server has rejected the
    /// client or failed verification. While the file is unusable, the last content remains in use. New connections use
    /// the new content, and old ones end after their current requests.
    File(PathBuf),
}

impl TlsOptions {
    /// Returns options that trust only the authorities of a PEM bundle.
    #[must_use]
    pub fn trusting(certificate_authority: impl Into<Pem>) -> Self {
        Self { certificate_authority: Some(certificate_authority.into()), ..Self::default() }
    }

    /// Returns options that accept any certificate.
    #[must_use]
    pub fn unverified() -> Self {
        Self { verification: Verification::Skip, ..Self::default() }
    }

    /// Returns these options with a client certificate.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Returns these options with a client certificate that is replaced in memory.
    #[must_use]
    pub fn with_live_identity(mut self, identity: LiveIdentity) -> Self {
        self.live_identity = Some(identity);
        self
    }

    /// Returns these options with an expected name in the server's certificate that differs from its address.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Returns these options with a minimum TLS version.
    #[must_use]
    pub const fn with_minimum_version(mut self, version: TlsVersion) -> Self {
        self.minimum_version = version;
        self
    }

    /// Returns these options with only these cipher suites, in order of preference.
    #[must_use]
    pub fn with_cipher_suites(mut self, suites: impl IntoIterator<Item = CipherSuite>) -> Self {
        self.cipher_suites = Some(suites.into_iter().collect());
        self
    }

    /// Returns these options with only these HTTP versions.
    #[must_use]
    pub const fn with_protocols(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }
}

impl CipherSuite {
    /// All supported suites: the first three for TLS 1.3, the others for TLS 1.2.
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

    /// Returns the IANA name, such as `TLS_AES_128_GCM_SHA256`.
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

    /// Returns the suite of a name; `None` if it is not supported.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.as_str() == name)
    }
}

impl Identity {
    /// Creates an identity from a certificate and its key.
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
