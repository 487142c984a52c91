//! A certificate that can be replaced while connections use it.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::{
    SignatureScheme,
    client::ResolvesClientCert,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::TlsError;

/// The certificate chain and the key of new connections. Existing connections keep theirs.
#[derive(Debug)]
pub(crate) struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

fn certified(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<CertifiedKey>, TlsError> {
    let provider = windlass_tls::provider()?;
    Ok(Arc::new(CertifiedKey::from_der(chain, key, &provider)?))
}

impl CurrentCertificate {
    pub(crate) fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        Ok(Self(RwLock::new(certified(chain, key)?)))
    }

    /// Replaces the certificate. After an error, the previous one remains.
    pub(crate) fn replace(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), TlsError> {
        *self.0.write() = certified(chain, key)?;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.get().cert.clone()
    }

    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read())
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

impl ResolvesClientCert for CurrentCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
