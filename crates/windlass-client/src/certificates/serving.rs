//! The certificate of a server, replaceable while the server runs.

use std::{fmt, fs, io, sync::Arc};

use parking_lot::Mutex;
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use windlass_api::BoxError;

use crate::connection_options::{Identity, LiveIdentity, Pem};

/// A certificate resolver that serves the current certificate on each new connection, for rustls' `with_cert_resolver`.
///
/// While there is no certificate, connections fail. If a new certificate is unusable, the previous one remains in use.
pub struct ServingCertificate {
    live: LiveIdentity,
    last: Mutex<Option<Converted>>,
}

/// The result of the last conversion, with its source.
struct Converted {
    identity: Arc<Identity>,
    /// `None` if no conversion has succeeded yet.
    certified: Option<Arc<CertifiedKey>>,
}

impl ServingCertificate {
    /// Creates a resolver for the current certificate.
    #[must_use]
    pub fn new(live: LiveIdentity) -> Self {
        Self { live, last: Mutex::default() }
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        let identity = self.live.current()?;
        let mut last = self.last.lock();
        if let Some(converted) = last.as_ref().filter(|converted| Arc::ptr_eq(&converted.identity, &identity)) {
            return converted.certified.clone();
        }
        let certified = match certified(&identity) {
            Ok(certified) => Some(Arc::new(certified)),
            Err(error) => {
                tracing::warn!(error, "the last serving certificate remains in use");
                last.take().and_then(|converted| converted.certified)
            }
        };
        *last = Some(Converted { identity, certified: certified.clone() });
        certified
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

fn certified(identity: &Identity) -> Result<CertifiedKey, BoxError> {
    let chain = CertificateDer::pem_slice_iter(&read(&identity.certificate)?).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&read(&identity.key)?)?;
    let key = windlass_tls::provider()?.key_provider.load_private_key(key)?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match()?;
    Ok(certified)
}

fn read(pem: &Pem) -> io::Result<Vec<u8>> {
    match pem {
        Pem::Data(bytes) => Ok(bytes.clone()),
        Pem::File(path) => fs::read(path),
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").finish_non_exhaustive()
    }
}
