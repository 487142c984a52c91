//! Certificates: a CA of our own and a serving certificate from it, or somebody else's.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    CipherSuite, ConfigBuilder, ServerConfig, WantsVerifier,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::authn::{ClientAuthority, Shown};

/// The names that a serving certificate is always for.
const NAMES: [&str; 7] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

/// The files of a CA that outlives the process.
const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";

/// What a server proves itself with.
///
/// Generated ones are ECDSA (P-256), signed by a CA that is generated as well, and valid from 1975 to 4096: they need no
/// clock, and serve development and tests. Their keys come from the operating system, never from a seed.
#[derive(Clone)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    ca: Arc<str>,
    /// Who certifies clients, if anybody does.
    clients: Option<Arc<ClientAuthority>>,
    /// The same, in PEM.
    client_ca: Option<Arc<str>>,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key could not be made.
    #[error("could not generate a certificate")]
    Generate(#[from] rcgen::Error),
    /// A file of the CA could not be read or written.
    #[error("could not use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Certificates or keys that were given are not PEM.
    #[error("could not read the {what} as PEM")]
    Pem {
        /// Of what.
        what: &'static str,
        /// Why not.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The authority of clients cannot be used.
    #[error("the authority of clients cannot be used")]
    Clients(#[from] rustls::server::VerifierBuilderError),
    /// The certificates and the key do not go together, or cannot be used.
    #[error("the certificate cannot be used")]
    Unusable(#[from] rustls::Error),
}

impl TlsIdentity {
    /// A new CA and a serving certificate for localhost, `kubernetes.default.svc`, and `names` (host names or addresses).
    pub fn generate<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let ca = ca_params().self_signed(&key)?.pem();
        Self::issued(&key, &ca, names)
    }

    /// A serving certificate as of [`Self::generate`], from the CA in `directory`; the CA is made on first use.
    ///
    /// Blocks on the file system.
    pub fn persisted<N: Into<String>>(directory: &Path, names: impl IntoIterator<Item = N>) -> Result<Self, TlsError> {
        let (certificate_path, key_path) = (directory.join(CA_CERTIFICATE), directory.join(CA_KEY));
        if !key_path.exists() || !certificate_path.exists() {
            let key = KeyPair::generate()?;
            let certificate = ca_params().self_signed(&key)?.pem();
            in_file(directory, fs::create_dir_all(directory))?;
            in_file(&key_path, write_secret(&key_path, &key.serialize_pem()))?;
            in_file(&certificate_path, fs::write(&certificate_path, certificate))?;
        }
        let key = KeyPair::from_pem(&in_file(&key_path, fs::read_to_string(&key_path))?)?;
        let certificate = in_file(&certificate_path, fs::read_to_string(&certificate_path))?;
        Self::issued(&key, &certificate, names)
    }

    /// Certificates and key that somebody else made, in PEM: the chain, leaf first; its key; the CA that clients are to
    /// trust.
    pub fn from_pem(chain: &str, key: &str, ca: &str) -> Result<Self, TlsError> {
        let pem = |what| move |source| TlsError::Pem { what, source };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(pem("key"))?;
        Self::new(chain.map_err(pem("certificate chain"))?, key, ca)
    }

    /// The same, which asks clients for certificates: who shows one of these authorities, in PEM, is the user that it names,
    /// a member of its organizations. Clients need not have one.
    pub fn with_client_ca(self, pem: &str) -> Result<Self, TlsError> {
        let clients = Arc::new(ClientAuthority::from_pem(pem)?);
        let mut config = server_config()?
            .with_client_cert_verifier(clients.clone())
            .with_cert_resolver(self.config.cert_resolver.clone());
        config.alpn_protocols.clone_from(&self.config.alpn_protocols);
        config.ignore_client_order = self.config.ignore_client_order;
        Ok(Self { config: Arc::new(config), clients: Some(clients), client_ca: Some(pem.into()), ..self })
    }

    /// Who has shown these certificates, leaf first.
    pub(crate) fn client(&self, shown: Option<&[CertificateDer<'_>]>, now: Timestamp) -> Shown {
        match (&self.clients, shown) {
            (Some(clients), Some(chain)) => clients.identify(chain, now),
            _ => Shown::Nothing,
        }
    }

    /// The authority of clients, in PEM.
    pub(crate) fn client_ca(&self) -> Option<&Arc<str>> {
        self.client_ca.as_ref()
    }

    /// The certificate of the CA that clients are to trust, in PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    fn issued<N: Into<String>>(
        ca_key: &KeyPair,
        ca: &str,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, TlsError> {
        let mut all: Vec<String> = NAMES.map(str::to_owned).into();
        for name in names {
            let name = name.into();
            if !all.contains(&name) {
                all.push(name);
            }
        }
        let mut params = CertificateParams::new(all)?;
        params.distinguished_name = common_name("kube-apiserver");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        // The CA is always made from the same parameters, so they need not be read out of its certificate.
        let certificate = params.signed_by(&key, &Issuer::new(ca_params(), ca_key))?;
        let der = PrivateKeyDer::try_from(key.serialize_der()).map_err(|why| rustls::Error::General(why.to_owned()))?;
        Self::new(vec![certificate.der().clone()], der, ca)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>, ca: &str) -> Result<Self, TlsError> {
        let mut config = server_config()?.with_no_client_auth().with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ignore_client_order = true;
        Ok(Self { config: Arc::new(config), ca: ca.into(), clients: None, client_ca: None })
    }
}

fn server_config() -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, rustls::Error> {
    let mut provider = ring::default_provider();
    // As in Go, AES with 128 bits comes first: it costs a quarter less.
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    ServerConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions()
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("windlass-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn in_file<T>(path: &Path, result: io::Result<T>) -> Result<T, TlsError> {
    result.map_err(|source| TlsError::File { path: path.to_owned(), source })
}

#[cfg(unix)]
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(not(unix))]
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persisted_ca_is_used_again() {
        let directory = std::env::temp_dir().join(format!("windlass-tls-{}", windlass_api::Entropy::os().uuid()));
        let first = TlsIdentity::persisted(&directory, ["example.test"]).unwrap();
        let second = TlsIdentity::persisted(&directory, ["192.0.2.1"]).unwrap();
        assert_eq!(first.ca_pem(), second.ca_pem());
        assert_ne!(first.ca_pem(), TlsIdentity::generate::<String>([]).unwrap().ca_pem());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_is_no_pem_is_refused_by_its_name() {
        let error = TlsIdentity::from_pem("", "not a key", "").unwrap_err();
        assert_eq!(error.to_string(), "could not read the key as PEM");
    }

    #[test]
    fn the_server_chooses_the_cipher_and_the_cheapest_first_with_or_without_clients_certificates() {
        let plain = TlsIdentity::generate::<String>([]).unwrap();
        let ca = plain.ca_pem().to_owned();
        for identity in [plain.clone(), plain.with_client_ca(&ca).unwrap()] {
            let config = identity.config();
            assert!(config.ignore_client_order);
            let first = config.crypto_provider().cipher_suites[0].suite();
            assert_eq!(first, CipherSuite::TLS13_AES_128_GCM_SHA256);
        }
    }
}
