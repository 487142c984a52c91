//! Certificates: a generated CA with a serving certificate, or externally created ones.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use rustls::{
    CipherSuite, ConfigBuilder, ServerConfig, SupportedCipherSuite, WantsVerifier,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

mod authority;
mod clients;
mod current;

pub(crate) use self::authority::{Authority, Issued, Validity, common_name};
pub(crate) use self::clients::{ClientAuthority, ClientCertificate};
pub(crate) use self::current::CurrentCertificate;

/// The names in every generated serving certificate.
const NAMES: [&str; 7] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

/// The files of a persistent CA, without extension.
pub(crate) const CA_FILE: &str = "ca";
/// The common name of the CA.
pub(crate) const CA: &str = "windlass-ca";

/// A server's certificate chain and key.
///
/// Generated identities use ECDSA (P-256) and are signed by a generated CA. They are valid from 1975 to 4096, so they
/// need no clock. Use them for development and tests. Their keys come from the operating system, never from a seed.
#[derive(Clone)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    /// The certificate of new connections.
    current: Arc<CurrentCertificate>,
    ca: Arc<str>,
    /// The CA for client certificates, if configured.
    clients: Option<Arc<ClientAuthority>>,
    /// The same CA in PEM.
    client_ca: Option<Arc<str>>,
    /// The CA for the certificates of front proxies, if configured.
    proxies: Option<Arc<ClientAuthority>>,
    /// The same CA in PEM.
    front_proxy_ca: Option<Arc<str>>,
    policy: Policy,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// The versions and cipher suites that a server offers.
#[derive(Clone, Debug, Default)]
struct Policy {
    oldest: TlsVersion,
    /// The cipher suites of TLS 1.2; `None` for all.
    suites: Option<Vec<CipherSuite>>,
}

/// The error for an identity that cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key could not be generated.
    #[error("could not generate a certificate")]
    Generate(#[from] rcgen::Error),
    /// A file of the CA could not be read or written.
    #[error("could not use {}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The given certificates or keys are not valid PEM.
    #[error("could not read the {what} as PEM")]
    Pem {
        /// The name of the input.
        what: &'static str,
        /// The reason.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The identity has no client CA that could be replaced.
    #[error("there is no client CA to replace")]
    NoClientCa,
    /// The client CA cannot be used.
    #[error("cannot use the client CA")]
    Clients(#[from] rustls::server::VerifierBuilderError),
    /// The cipher suite is not supported.
    #[error("cipher suite {name:?} is not supported; supported are {}", supported_suites().join(", "))]
    CipherSuite {
        /// The name of the cipher suite.
        name: String,
    },
    /// The program has no TLS cryptography.
    #[error(transparent)]
    NoProvider(#[from] windlass_tls::NoProvider),
    /// The certificates and the key do not match or cannot be used.
    #[error("cannot use the certificate")]
    Unusable(#[from] rustls::Error),
}

impl TlsIdentity {
    /// Generates a CA and a serving certificate for localhost, `kubernetes.default.svc` and `names` (host names or
    /// addresses).
    pub fn generate<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self, TlsError> {
        Self::issued(&Authority::generate(CA)?, names)
    }

    /// Generates a serving certificate like [`Self::generate`], signed by the CA in `directory`. Creates the CA on
    /// first use.
    ///
    /// Blocks on the file system.
    pub fn persisted<N: Into<String>>(directory: &Path, names: impl IntoIterator<Item = N>) -> Result<Self, TlsError> {
        Self::issued(&Authority::persisted(directory, CA_FILE, CA)?, names)
    }

    /// Creates an identity from PEM: the certificate chain (leaf first), its key, and the CA that clients must trust.
    pub fn from_pem(chain: &str, key: &str, ca: &str) -> Result<Self, TlsError> {
        let (chain, key) = parse(chain, key)?;
        Self::new(chain, key, ca)
    }

    /// Replaces the certificate chain and its key, in PEM, of all clones of the identity. Existing connections keep the
    /// certificate with which they began. Clients must trust the same CA as before.
    ///
    /// # Errors
    /// Returns an error if the certificates and the key cannot be used. Then the previous ones remain.
    pub fn replace(&self, chain: &str, key: &str) -> Result<(), TlsError> {
        let (chain, key) = parse(chain, key)?;
        self.current.replace(chain, key)
    }

    pub(crate) fn current(&self) -> &CurrentCertificate {
        &self.current
    }

    /// Accepts client certificates signed by these CAs, in PEM. The common name is the user and the organizations are
    /// groups. Client certificates stay optional.
    pub fn with_client_ca(mut self, pem: &str) -> Result<Self, TlsError> {
        self.clients = Some(Arc::new(ClientAuthority::from_pem(pem)?));
        self.client_ca = Some(pem.into());
        self.rebuilt()
    }

    /// Replaces the CAs for client certificates, of all clones of the identity and of existing connections.
    ///
    /// # Errors
    /// Returns an error if the identity has no client CA, or the CAs cannot be used. Then the previous ones remain.
    pub fn replace_client_ca(&self, pem: &str) -> Result<(), TlsError> {
        let clients = self.clients.as_ref().ok_or(TlsError::NoClientCa)?;
        clients.replace(pem)
    }

    /// Accepts the certificates of front proxies signed by these CAs, in PEM. A server with the settings of
    /// [`FrontProxy`](crate::FrontProxy) lets such proxies name the user of a request in headers.
    pub fn with_front_proxy_ca(mut self, pem: &str) -> Result<Self, TlsError> {
        self.proxies = Some(Arc::new(ClientAuthority::from_pem(pem)?));
        self.front_proxy_ca = Some(pem.into());
        self.rebuilt()
    }

    /// Sets the minimum version of TLS. Defaults to TLS 1.2.
    pub fn with_min_version(mut self, oldest: TlsVersion) -> Result<Self, TlsError> {
        self.policy.oldest = oldest;
        self.rebuilt()
    }

    /// Restricts the cipher suites of TLS 1.2 to these IANA names. As in Go, the suites of TLS 1.3 are always offered,
    /// and naming one has no effect.
    pub fn with_cipher_suites<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Result<Self, TlsError> {
        let mut suites = Vec::new();
        for name in names {
            let provider = windlass_tls::provider()?;
            let found = provider.cipher_suites.iter().find(|suite| is_named(**suite, name));
            suites.push(found.ok_or_else(|| TlsError::CipherSuite { name: name.to_owned() })?.suite());
        }
        self.policy.suites = Some(suites);
        self.rebuilt()
    }

    /// Rebuilds the configuration with the current policy and client CA.
    fn rebuilt(self) -> Result<Self, TlsError> {
        let builder = server_config(&self.policy)?;
        // Both authorities accept any certificate in the handshake.
        let builder = match self.clients.as_ref().or(self.proxies.as_ref()) {
            Some(clients) => builder.with_client_cert_verifier(clients.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.config.cert_resolver.clone());
        config.ignore_client_order = self.config.ignore_client_order;
        Ok(Self { config: Arc::new(config), ..self })
    }

    /// Verifies a client's certificate chain, leaf first.
    pub(crate) fn client(&self, shown: Option<&[CertificateDer<'_>]>, now: Timestamp) -> ClientCertificate {
        let Some(chain) = shown else { return ClientCertificate::Nothing };
        let user = self.clients.as_ref().map(|clients| clients.identify(chain, now));
        let proxy = self.proxies.as_ref().map(|proxies| proxies.common_name(chain, now));
        match (proxy, user) {
            (Some(Some(name)), user) => {
                let otherwise = Box::new(user.unwrap_or(ClientCertificate::Nothing));
                ClientCertificate::Proxy { name, otherwise }
            }
            (Some(None), None | Some(ClientCertificate::Nothing)) => ClientCertificate::Unknown,
            (_, Some(user)) => user,
            (None, None) => ClientCertificate::Nothing,
        }
    }

    /// Returns a number that changes when the client CA is replaced.
    pub(crate) fn generation(&self) -> u64 {
        self.clients.as_ref().map_or(0, |clients| clients.generation())
    }

    /// Returns the CA of front proxies in PEM.
    pub(crate) fn front_proxy_ca(&self) -> Option<&Arc<str>> {
        self.front_proxy_ca.as_ref()
    }

    /// Returns the client CA in PEM.
    pub(crate) fn client_ca(&self) -> Option<&Arc<str>> {
        self.client_ca.as_ref()
    }

    /// Returns the certificate of the CA that clients must trust, in PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// Returns the configuration for a TLS server.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    fn issued<N: Into<String>>(ca: &Authority, names: impl IntoIterator<Item = N>) -> Result<Self, TlsError> {
        let Issued { chain, key } = ca.issue(serving_params(names.into_iter().map(Into::into).collect())?)?;
        Self::new(chain, key, ca.pem())
    }

    pub(crate) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        ca: &str,
    ) -> Result<Self, TlsError> {
        let current = Arc::new(CurrentCertificate::new(chain, key)?);
        let builder = server_config(&Policy::default())?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(current.clone());
        config.ignore_client_order = true;
        Ok(Self {
            config: Arc::new(config),
            current,
            ca: ca.into(),
            clients: None,
            client_ca: None,
            proxies: None,
            front_proxy_ca: None,
            policy: Policy::default(),
        })
    }
}

/// Parses a certificate chain and its key.
fn parse(chain: &str, key: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let pem = |what| move |source| TlsError::Pem { what, source };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(pem("key"))?;
    Ok((chain.map_err(pem("certificate chain"))?, key))
}

/// Returns the parameters of a serving certificate for the names of all servers and these.
pub(crate) fn serving_params(names: Vec<String>) -> Result<CertificateParams, TlsError> {
    let mut all: Vec<String> = NAMES.map(str::to_owned).into();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let mut params = CertificateParams::new(all)?;
    params.distinguished_name = common_name("kube-apiserver");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn server_config(policy: &Policy) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, TlsError> {
    let mut provider = (*windlass_tls::provider()?).clone();
    // As in Go, AES with 128 bits has priority: it costs a quarter less.
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    if let Some(suites) = &policy.suites {
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || suites.contains(&suite.suite()));
    }
    let has_tls12 = provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
    let builder = ServerConfig::builder_with_provider(Arc::new(provider));
    Ok(if policy.oldest == TlsVersion::V1_3 || !has_tls12 {
        builder.with_protocol_versions(&[&rustls::version::TLS13])?
    } else {
        builder.with_safe_default_protocol_versions()?
    })
}

/// Returns the IANA name of a cipher suite, which is also Go's.
fn suite_name(suite: SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

fn is_named(suite: SupportedCipherSuite, name: &str) -> bool {
    // Go also accepts two of the names without their hash.
    let own = suite_name(suite);
    own == name || own.strip_suffix("_SHA256").is_some_and(|short| short == name && short.ends_with("POLY1305"))
}

fn supported_suites() -> Vec<String> {
    let provider = windlass_tls::provider();
    provider.iter().flat_map(|provider| &provider.cipher_suites).map(|suite| suite_name(*suite)).collect()
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

/// Writes a file that only its owner can read, completely or not at all: to a new file with a random name, which is
/// then moved into place. An existing link is replaced, not followed. The file survives a power failure.
pub(crate) fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // The file is created with mode 600.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // Windows does not open directories as files, and keeps the order of these changes.
    if cfg!(unix) { fs::File::open(directory)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persisted_ca_is_reused() {
        let directory = tempfile::tempdir().unwrap();
        let first = TlsIdentity::persisted(directory.path(), ["example.test"]).unwrap();
        let second = TlsIdentity::persisted(directory.path(), ["192.0.2.1"]).unwrap();
        assert_eq!(first.ca_pem(), second.ca_pem());
        assert_ne!(first.ca_pem(), TlsIdentity::generate::<String>([]).unwrap().ca_pem());
    }

    #[cfg(unix)]
    #[test]
    fn private_key_file_is_private_and_replaces_a_link() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let directory = tempfile::tempdir().unwrap();
        let (key, elsewhere) = (directory.path().join("ca.key"), directory.path().join("elsewhere"));
        fs::write(&elsewhere, "untouched").unwrap();
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o666)).unwrap();
        symlink(&elsewhere, &key).unwrap();
        TlsIdentity::persisted(directory.path(), [""; 0]).unwrap();
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "untouched");
        let metadata = fs::symlink_metadata(&key).unwrap();
        assert!(metadata.is_file());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn replaced_certificate_is_for_new_connections() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let self_signed = || {
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
            (certificate.pem(), key.serialize_pem(), certificate.der().clone())
        };
        let (first, second) = (self_signed(), self_signed());
        let identity = TlsIdentity::from_pem(&first.0, &first.1, &first.0).unwrap();
        // A clone with other settings has the same certificate.
        let served = identity.clone().with_min_version(TlsVersion::V1_3).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates([first.2.clone(), second.2.clone()]);
        let client = rustls::ClientConfig::builder_with_provider(windlass_tls::provider().unwrap())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Arc::new(client);
        let connect = async || {
            let (near, far) = tokio::io::duplex(1 << 16);
            let connector = tokio_rustls::TlsConnector::from(client.clone());
            let acceptor = tokio_rustls::TlsAcceptor::from(served.config());
            let (near, far) =
                tokio::join!(connector.connect("localhost".try_into().unwrap(), near), acceptor.accept(far));
            (near.unwrap(), far.unwrap())
        };
        let shown = |stream: &tokio_rustls::client::TlsStream<tokio::io::DuplexStream>| {
            stream.get_ref().1.peer_certificates().unwrap()[0].clone()
        };
        let (mut near, mut far) = connect().await;
        assert_eq!(shown(&near), first.2);
        assert!(identity.replace(&second.0, &first.1).is_err(), "the key is another");
        assert!(identity.replace("", "no key").is_err());
        assert_eq!(shown(&connect().await.0), first.2);
        identity.replace(&second.0, &second.1).unwrap();
        assert_eq!(shown(&connect().await.0), second.2);
        near.write_all(b"still here").await.unwrap();
        near.flush().await.unwrap();
        let mut read = [0; 10];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"still here");
    }

    #[tokio::test]
    async fn client_with_an_older_tls_version_is_rejected() {
        let handshake = async |identity: TlsIdentity| {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(identity.ca_pem().as_bytes()).unwrap()).unwrap();
            let client = rustls::ClientConfig::builder_with_provider(windlass_tls::provider().unwrap())
                .with_protocol_versions(&[&rustls::version::TLS12])
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let (near, far) = tokio::io::duplex(1 << 16);
            let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
            let acceptor = tokio_rustls::TlsAcceptor::from(identity.config());
            let (client, server) =
                tokio::join!(connector.connect("localhost".try_into().unwrap(), near), acceptor.accept(far));
            (client.is_ok(), server.is_ok())
        };
        let identity = TlsIdentity::generate::<String>([]).unwrap();
        assert_eq!(handshake(identity.clone()).await, (true, true));
        assert_eq!(handshake(identity.with_min_version(TlsVersion::V1_3).unwrap()).await, (false, false));
    }

    #[test]
    fn versions_and_cipher_suites_are_restricted() {
        let identity = || TlsIdentity::generate::<String>([]).unwrap();
        let suites = |identity: TlsIdentity| {
            let config = identity.config();
            let names = config.crypto_provider().cipher_suites.iter().filter(|suite| suite.tls13().is_none());
            names.map(|suite| suite_name(*suite)).collect::<Vec<_>>()
        };
        assert!(suites(identity()).len() > 1);
        let one = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305";
        let restricted = identity().with_cipher_suites([one, "TLS_AES_128_GCM_SHA256"]).unwrap();
        assert_eq!(suites(restricted.clone()), ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"]);
        // Adding a client CA keeps the restriction.
        let ca = restricted.ca_pem().to_owned();
        assert_eq!(suites(restricted.with_client_ca(&ca).unwrap()).len(), 1);
        let error = identity().with_cipher_suites(["TLS_RSA_WITH_RC4_128_SHA"]).unwrap_err().to_string();
        assert!(
            error.starts_with("cipher suite \"TLS_RSA_WITH_RC4_128_SHA\" is not supported; supported are TLS_"),
            "{error}"
        );
    }

    #[test]
    fn invalid_pem_error_names_the_input() {
        let error = TlsIdentity::from_pem("", "not a key", "").unwrap_err();
        assert_eq!(error.to_string(), "could not read the key as PEM");
    }

    #[test]
    fn server_prefers_the_cheapest_cipher() {
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
