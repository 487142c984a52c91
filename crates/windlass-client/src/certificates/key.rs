//! Private keys.

use std::{fmt, fs, io, path::Path, sync::Arc};

use rcgen::KeyPair;
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};

use super::CertificateError;
use crate::{auth::Secret, file};

const WHAT: &str = "private key";

/// A private key. `Debug` hides it; clones share it.
#[derive(Clone)]
pub struct PrivateKey(Arc<KeyPair>);

impl PrivateKey {
    /// A new one, ECDSA over P-256, made by the system's randomness.
    pub fn generate() -> Result<Self, CertificateError> {
        KeyPair::generate().map(Self::of).map_err(|error| CertificateError::make(WHAT, error))
    }

    /// Reads PEM: PKCS #8, of any kind that TLS is spoken with. What stands beside it in the text is passed over.
    pub fn from_pem(text: &str) -> Result<Self, CertificateError> {
        // Its errors do not hold the key.
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let key = key.map_err(|error| CertificateError::read(WHAT, error))?;
        KeyPair::try_from(&key).map(Self::of).map_err(|error| CertificateError::read(WHAT, error))
    }

    /// Reads the key from a file, or makes one and writes it there, for nobody else to read, if there is no such file.
    ///
    /// Blocks on the file system.
    pub fn load_or_generate(path: &Path) -> Result<Self, CertificateError> {
        let failed = |operation| move |source| CertificateError::File { operation, path: path.to_owned(), source };
        match fs::read_to_string(path) {
            Ok(text) => Self::from_pem(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = Self::generate()?;
                file::replace(path, key.to_pem().expose().as_bytes()).map_err(failed("writing"))?;
                Ok(key)
            }
            Err(error) => Err(failed("reading")(error)),
        }
    }

    /// The key as PEM, PKCS #8.
    #[must_use]
    pub fn to_pem(&self) -> Secret {
        self.0.serialize_pem().into()
    }

    /// What others may know of it, as PEM.
    #[must_use]
    pub fn public_pem(&self) -> String {
        self.0.public_key_pem()
    }

    pub(super) fn pair(&self) -> &KeyPair {
        &self.0
    }

    fn of(pair: KeyPair) -> Self {
        Self(Arc::new(pair))
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").finish_non_exhaustive()
    }
}
