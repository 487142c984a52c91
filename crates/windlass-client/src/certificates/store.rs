//! Where a certificate is kept from one run of a program to the next.

use std::{fmt, fs, io, path::PathBuf};

use parking_lot::Mutex;

use super::{CertificateError, KeyedCertificate};
use crate::file;

/// Keeps one certificate with its key. Its methods may block.
pub trait CertificateStore: fmt::Debug + Send + Sync + 'static {
    /// What is kept; `None` when nothing is.
    fn load(&self) -> Result<Option<KeyedCertificate>, CertificateError>;

    /// Keeps this in place of what was kept.
    fn save(&self, keyed: &KeyedCertificate) -> Result<(), CertificateError>;
}

/// In one file, certificate and key together, which is replaced as a whole and which nobody else may read.
///
/// The same file may be named as certificate and as key in a kubeconfig, or in an
/// [`Identity`](crate::config::Identity).
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

/// For as long as it lives.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Option<KeyedCertificate>>);

impl FileStore {
    /// In this file. Folders are made when it is first written.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn failed(&self, operation: &'static str) -> impl FnOnce(io::Error) -> CertificateError + '_ {
        move |source| CertificateError::File { operation, path: self.path.clone(), source }
    }
}

impl CertificateStore for FileStore {
    fn load(&self) -> Result<Option<KeyedCertificate>, CertificateError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => KeyedCertificate::from_pem(&text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("reading")(error)),
        }
    }

    fn save(&self, keyed: &KeyedCertificate) -> Result<(), CertificateError> {
        file::replace(&self.path, keyed.to_pem().expose().as_bytes()).map_err(self.failed("writing"))
    }
}

impl CertificateStore for MemoryStore {
    fn load(&self) -> Result<Option<KeyedCertificate>, CertificateError> {
        Ok(self.0.lock().clone())
    }

    fn save(&self, keyed: &KeyedCertificate) -> Result<(), CertificateError> {
        *self.0.lock() = Some(keyed.clone());
        Ok(())
    }
}
