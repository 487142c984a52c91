//! The identity of this server at other API servers.

use std::{fmt, path::Path, sync::Arc};

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use crate::tls::{Authority, CurrentCertificate, Issued, TlsError, common_name};

/// The client certificate by which extension API servers recognize the requests of this server: the flags
/// `--proxy-client-cert-file` and `--proxy-client-key-file` of kube-apiserver.
#[derive(Clone)]
pub struct ProxyIdentity {
    current: Arc<CurrentCertificate>,
}

/// The error for a client certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyIdentityError {
    /// The certificates or the key are not valid PEM.
    #[error("could not read the {what} of the proxy client as PEM")]
    Pem {
        /// The name of the input.
        what: &'static str,
        /// The reason.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The certificates and the key do not match or cannot be used.
    #[error("cannot use the certificate of the proxy client")]
    Unusable(#[from] TlsError),
}

impl ProxyIdentity {
    /// The common name of a generated certificate.
    pub const NAME: &str = "front-proxy-client";

    /// The files of a persistent CA, without extension, and its common name.
    pub(crate) const CA: (&str, &str) = ("front-proxy-ca", "windlass-front-proxy-ca");

    /// Reads the certificate chain (leaf first) and its key from PEM.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, ProxyIdentityError> {
        let (chain, key) = parse(chain, key)?;
        Ok(Self::new(chain, key)?)
    }

    /// Replaces the certificate chain and its key, in PEM, of all clones of the identity and of servers that have it. Existing
    /// connections keep the certificate with which they began.
    ///
    /// # Errors
    /// Returns an error if the certificates and the key cannot be used. Then the previous ones remain.
    pub fn replace(&self, chain: &str, key: &str) -> Result<(), ProxyIdentityError> {
        let (chain, key) = parse(chain, key)?;
        Ok(self.current.replace(chain, key)?)
    }

    pub(crate) fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        Ok(Self { current: Arc::new(CurrentCertificate::new(chain, key)?) })
    }

    pub(crate) fn current(&self) -> &Arc<CurrentCertificate> {
        &self.current
    }

    /// Returns the parameters of a generated certificate.
    pub(crate) fn params() -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(Self::NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params
    }

    /// Generates a certificate for the name [`Self::NAME`], and a CA that signs it. Also returns the CA in PEM: other API
    /// servers find it in the ConfigMap `extension-apiserver-authentication`, if this server accepts it
    /// ([`TlsIdentity::with_front_proxy_ca`](crate::TlsIdentity::with_front_proxy_ca)).
    ///
    /// It is valid from 1975 to 4096, like a generated [`TlsIdentity`](crate::TlsIdentity).
    pub fn generate() -> Result<(Self, String), TlsError> {
        Self::issued(&Authority::generate(Self::CA.1)?)
    }

    /// Generates a certificate like [`Self::generate`], signed by the CA in `directory`. Creates the CA on first use.
    ///
    /// Blocks on the file system.
    pub fn persisted(directory: &Path) -> Result<(Self, String), TlsError> {
        Self::issued(&Authority::persisted(directory, Self::CA.0, Self::CA.1)?)
    }

    fn issued(ca: &Authority) -> Result<(Self, String), TlsError> {
        let Issued { chain, key } = ca.issue(Self::params())?;
        Ok((Self::new(chain, key)?, ca.pem().to_owned()))
    }
}

/// Parses a certificate chain and its key.
fn parse(chain: &str, key: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ProxyIdentityError> {
    let error = |what| move |source| ProxyIdentityError::Pem { what, source };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(error("key"))?;
    Ok((chain.map_err(error("certificate chain"))?, key))
}

impl fmt::Debug for ProxyIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyIdentity").finish_non_exhaustive()
    }
}
