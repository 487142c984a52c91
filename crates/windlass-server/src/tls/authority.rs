//! A CA of this server, generated or kept in files.

use std::{fs, io, path::Path};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{TlsError, write_secret};

/// A CA: the key, and the certificate in PEM. It is valid from 1975 to 4096.
#[derive(Debug)]
pub(crate) struct Authority {
    name: &'static str,
    key: KeyPair,
    certificate: String,
}

/// A signed certificate with its key.
pub(crate) struct Issued {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Authority {
    /// Generates a CA with a common name.
    pub(crate) fn generate(name: &'static str) -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = params(name).self_signed(&key)?.pem();
        Ok(Self { name, key, certificate })
    }

    /// Reads the CA from the files `FILE.crt` and `FILE.key`. Creates them on first use.
    ///
    /// Blocks on the file system.
    pub(crate) fn persisted(directory: &Path, file: &str, name: &'static str) -> Result<Self, TlsError> {
        let (certificate_path, key_path) =
            (directory.join(format!("{file}.crt")), directory.join(format!("{file}.key")));
        if !key_path.exists() || !certificate_path.exists() {
            let Self { key, certificate, .. } = Self::generate(name)?;
            in_file(directory, fs::create_dir_all(directory))?;
            in_file(&key_path, write_secret(&key_path, &key.serialize_pem()))?;
            in_file(&certificate_path, write_secret(&certificate_path, &certificate))?;
        }
        let key = KeyPair::from_pem(&in_file(&key_path, fs::read_to_string(&key_path))?)?;
        let certificate = in_file(&certificate_path, fs::read_to_string(&certificate_path))?;
        Ok(Self { name, key, certificate })
    }

    /// Returns the certificate of the CA in PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.certificate
    }

    /// Signs a certificate with a new key.
    pub(crate) fn issue(&self, mut certificate: CertificateParams) -> Result<Issued, TlsError> {
        certificate.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        certificate.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        // A CA always has the same parameters, so they are not parsed from its certificate.
        let certificate = certificate.signed_by(&key, &Issuer::new(params(self.name), &self.key))?;
        let der = PrivateKeyDer::try_from(key.serialize_der()).map_err(|why| rustls::Error::General(why.to_owned()))?;
        Ok(Issued { chain: vec![certificate.der().clone()], key: der })
    }
}

/// Returns a distinguished name with a common name only.
pub(crate) fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    params
}

fn in_file<T>(path: &Path, result: io::Result<T>) -> Result<T, TlsError> {
    result.map_err(|source| TlsError::File { path: path.to_owned(), source })
}
