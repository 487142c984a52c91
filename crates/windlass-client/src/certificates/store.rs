//! Storage of certificates across restarts of a program.

use std::{fmt, fs, io, path::PathBuf};

use parking_lot::Mutex;

use super::{CertificateError, KeyedCertificate};
use crate::file;

/// A store for one certificate with its key. The methods may block.
pub trait CertificateStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the stored certificate; `None` if there is none.
    fn load(&self) -> Result<Option<KeyedCertificate>, CertificateError>;

    /// Stores a certificate, replacing the previous one.
    fn save(&self, keyed: &KeyedCertificate) -> Result<(), CertificateError>;
}

/// A store in one file that contains certificate and key. The file is replaced atomically and is readable only by its
/// owner.
///
/// A kubeconfig or an [`Identity`](crate::connection_options::Identity) may name the same file as certificate and as key.
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

/// A store in memory, for the lifetime of the value.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Option<KeyedCertificate>>);

impl FileStore {
    /// Creates a store in this file. Missing folders are created on the first write.
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
