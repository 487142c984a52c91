//! Private keys.

use std::{fmt, fs, io, path::Path, sync::Arc};

use rcgen::KeyPair;
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};

use super::CertificateError;
use crate::{file, secret::Secret};

const WHAT: &str = "private key";

/// A private key. `Debug` hides it. Clones share it.
#[derive(Clone)]
pub struct PrivateKey(Arc<KeyPair>);

impl PrivateKey {
    /// Generates a key, ECDSA over P-256, with the system's randomness.
    pub fn generate() -> Result<Self, CertificateError> {
        KeyPair::generate().map(Self::of).map_err(|error| CertificateError::create(WHAT, error))
    }

    /// Parses PEM in PKCS #8, for any algorithm that TLS supports. Other sections are ignored.
    pub fn from_pem(text: &str) -> Result<Self, CertificateError> {
        // The parser's errors do not contain the key.
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let key = key.map_err(|error| CertificateError::read(WHAT, error))?;
        KeyPair::try_from(&key).map(Self::of).map_err(|error| CertificateError::read(WHAT, error))
    }

    /// Reads the key from a file. If the file does not exist, generates a key and writes it there, readable only by the
    /// owner.
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

    /// Returns the key as PEM in PKCS #8.
    #[must_use]
    pub fn to_pem(&self) -> Secret {
        self.0.serialize_pem().into()
    }

    /// Returns the public key as PEM.
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
