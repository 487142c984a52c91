//! The serving certificate, loaded from files that may be replaced while it is in use.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use thiserror::Error;
use windlass_api::{BoxError, ErrorChain};

use crate::metrics::WebhookMetrics;

/// The default interval at which the files are checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// A PEM certificate and its key, in two files.
///
/// The files are checked once per second. New content is used for new connections; existing connections continue. If
/// the pair is invalid, for example half written, the previous one stays in use.
#[must_use]
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    interval: Duration,
    on_change: Box<dyn Fn(&CertifiedKey) + Send + Sync>,
}

/// The reason why a certificate cannot be used. Never contains the key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("reading {}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The files do not contain a PEM certificate and a PEM key, or the two do not match.
    #[error("using {} with {}", certificate.display(), key.display())]
    Pair {
        /// The path of the certificate.
        certificate: PathBuf,
        /// The path of the key.
        key: PathBuf,
        /// The cause.
        source: BoxError,
    },
}

/// The certificate in use, for rustls.
pub(crate) struct Loaded {
    files: CertificateFiles,
    metrics: Arc<dyn WebhookMetrics>,
    current: Mutex<Option<Current>>,
}

struct Current {
    certified: Arc<CertifiedKey>,
    /// The bytes of both files. Both are compared, because a new key may be written before its certificate.
    read: (Vec<u8>, Vec<u8>),
}

impl CertificateFiles {
    /// Uses a certificate and a key from these files.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let on_change = Box::new(|_: &CertifiedKey| {});
        Self { certificate: certificate.into(), key: key.into(), interval: INTERVAL, on_change }
    }

    /// Uses `tls.crt` and `tls.key` in a directory, such as a mounted Secret of type `kubernetes.io/tls`.
    pub fn in_directory(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        Self::new(directory.join("tls.crt"), directory.join("tls.key"))
    }

    /// Sets the interval at which the files are checked. Defaults to 1 s.
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets a function that is called with the first certificate and with each new one.
    pub fn on_change(mut self, told: impl Fn(&CertifiedKey) + Send + Sync + 'static) -> Self {
        self.on_change = Box::new(told);
        self
    }

    /// Loads the files. Returns an error if they are invalid. Later invalid content only leaves the previous
    /// certificate in use.
    pub(crate) fn load(self, metrics: Arc<dyn WebhookMetrics>) -> Result<Loaded, CertificateError> {
        let loaded = Loaded { files: self, metrics, current: Mutex::new(None) };
        loaded.read()?;
        Ok(loaded)
    }
}

impl Loaded {
    /// Checks the files forever.
    pub(crate) async fn follow(&self) {
        loop {
            tokio::time::sleep(self.files.interval).await;
            if let Err(error) = self.read() {
                let error = ErrorChain(&error);
                tracing::error!(%error, "cannot load the new serving certificate, the previous one stays in use");
            }
        }
    }

    /// Loads the files if they have changed. Blocks on the file system for two small files.
    fn read(&self) -> Result<(), CertificateError> {
        let result = self.read_pair();
        self.metrics.certificate_read(result.is_ok());
        if let Some(certified) = result? {
            tracing::info!(file = %self.files.certificate.display(), "a new serving certificate is in use");
            (self.files.on_change)(&certified);
        }
        Ok(())
    }

    /// Returns the new certificate, or `None` if the files are unchanged.
    fn read_pair(&self) -> Result<Option<Arc<CertifiedKey>>, CertificateError> {
        let CertificateFiles { certificate, key, .. } = &self.files;
        let file =
            |path: &Path| fs::read(path).map_err(|source| CertificateError::File { path: path.to_owned(), source });
        let read = (file(certificate)?, file(key)?);
        if self.current.lock().as_ref().is_some_and(|current| current.read == read) {
            return Ok(None);
        }
        let certified = certified(&read.0, &read.1).map_err(|source| CertificateError::Pair {
            certificate: certificate.clone(),
            key: key.clone(),
            source,
        })?;
        let certified = Arc::new(certified);
        *self.current.lock() = Some(Current { certified: Arc::clone(&certified), read });
        Ok(Some(certified))
    }
}

impl ResolvesServerCert for Loaded {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.lock().as_ref().map(|current| Arc::clone(&current.certified))
    }
}

fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, BoxError> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
    let key = windlass_tls::provider()?.key_provider.load_private_key(PrivateKeyDer::from_pem_slice(key)?)?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match()?;
    Ok(certified)
}

impl fmt::Debug for CertificateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { certificate, key, interval, .. } = self;
        let mut debug = f.debug_struct("CertificateFiles");
        debug.field("certificate", certificate).field("key", key).field("interval", interval).finish_non_exhaustive()
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

#[cfg(test)]
mod tests;
