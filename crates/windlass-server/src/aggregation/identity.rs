//! The identity of this server at other API servers.

use std::{fmt, path::Path, sync::Arc};

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use crate::tls::{Authority, Issued, TlsError, common_name};

/// The files of a persistent CA, without extension, and its common name.
const CA_FILE: &str = "front-proxy-ca";
const CA: &str = "windlass-front-proxy-ca";

/// The client certificate by which extension API servers recognize the requests of this server: the flags
/// `--proxy-client-cert-file` and `--proxy-client-key-file` of kube-apiserver.
#[derive(Clone)]
pub struct ProxyIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

/// The error for a client certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("could not read the {what} of the proxy client as PEM")]
pub struct ProxyIdentityError {
    what: &'static str,
    source: rustls::pki_types::pem::Error,
}

impl ProxyIdentity {
    /// The common name of a generated certificate.
    pub const NAME: &str = "front-proxy-client";

    /// Reads the certificate chain (leaf first) and its key from PEM.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, ProxyIdentityError> {
        let error = |what| move |source| ProxyIdentityError { what, source };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(error("key"))?;
        Ok(Self { chain: chain.map_err(error("certificate chain"))?, key: Arc::new(key) })
    }

    /// Generates a certificate for the name [`Self::NAME`], and a CA that signs it. Also returns the CA in PEM: other API
    /// servers find it in the ConfigMap `extension-apiserver-authentication`, if this server accepts it
    /// ([`TlsIdentity::with_front_proxy_ca`](crate::TlsIdentity::with_front_proxy_ca)).
    ///
    /// It is valid from 1975 to 4096, like a generated [`TlsIdentity`](crate::TlsIdentity).
    pub fn generate() -> Result<(Self, String), TlsError> {
        Self::issued(&Authority::generate(CA)?)
    }

    /// Generates a certificate like [`Self::generate`], signed by the CA in `directory`. Creates the CA on first use.
    ///
    /// Blocks on the file system.
    pub fn persisted(directory: &Path) -> Result<(Self, String), TlsError> {
        Self::issued(&Authority::persisted(directory, CA_FILE, CA)?)
    }

    fn issued(ca: &Authority) -> Result<(Self, String), TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(Self::NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let Issued { chain, key } = ca.issue(params)?;
        Ok((Self { chain, key: Arc::new(key) }, ca.pem().to_owned()))
    }

    pub(super) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    pub(super) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

impl fmt::Debug for ProxyIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyIdentity").finish_non_exhaustive()
    }
}
