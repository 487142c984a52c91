//! A CA of this server, generated or kept in files.

use std::{fs, io, path::Path, time::Duration};

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use super::{TlsError, write_secret};

/// A CA: the key, and the certificate in PEM. By default it is valid from 1975 to 4096.
#[derive(Debug)]
pub(crate) struct Authority {
    name: &'static str,
    key: KeyPair,
    certificate: String,
    /// The end of its validity; `None` for the default.
    end: Option<Timestamp>,
}

/// The time for which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// The time by which the start of validity is moved back, because clocks differ.
const CLOCK_SKEW: Duration = Duration::from_mins(5);

impl Validity {
    pub(crate) fn starting(now: Timestamp, lifetime: Duration) -> Self {
        let end = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        Self { start: now.checked_sub(CLOCK_SKEW).unwrap_or(now), end }
    }

    fn apply(self, params: &mut CertificateParams) {
        let date = |time: Timestamp| {
            let seconds = u64::try_from(time.as_second()).unwrap_or_default();
            rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
        };
        (params.not_before, params.not_after) = (date(self.start), date(self.end));
    }
}

/// A signed certificate with its key.
pub(crate) struct Issued {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Authority {
    /// Generates a CA with a common name.
    pub(crate) fn generate(name: &'static str) -> Result<Self, TlsError> {
        Self::new(name, None)
    }

    /// Generates a CA that expires.
    pub(crate) fn generate_for(name: &'static str, validity: Validity) -> Result<Self, TlsError> {
        Self::new(name, Some(validity))
    }

    fn new(name: &'static str, validity: Option<Validity>) -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = params(name);
        if let Some(validity) = validity {
            validity.apply(&mut params);
        }
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { name, key, certificate, end: validity.map(|validity| validity.end) })
    }

    /// Reads the CA from the files `FILE.crt` and `FILE.key`. Creates them on first use.
    ///
    /// Blocks on the file system.
    pub(crate) fn persisted(directory: &Path, file: &str, name: &'static str) -> Result<Self, TlsError> {
        Self::read_or(directory, file, name, None)
    }

    /// Reads the CA like [`Self::persisted`]. A created one has this validity. An expired one is replaced, because no client
    /// can use it.
    ///
    /// Blocks on the file system.
    pub(crate) fn persisted_for(
        directory: &Path,
        file: &str,
        name: &'static str,
        now: Timestamp,
        validity: Validity,
    ) -> Result<Self, TlsError> {
        let found = Self::read_or(directory, file, name, Some(validity))?;
        if found.end.is_none_or(|end| end > now) {
            return Ok(found);
        }
        let path = directory.join(format!("{file}.crt"));
        tracing::warn!(file = %path.display(), "the CA has expired, and is replaced: clients need the new one");
        in_file(&path, fs::remove_file(&path))?;
        Self::read_or(directory, file, name, Some(validity))
    }

    fn read_or(directory: &Path, file: &str, name: &'static str, validity: Option<Validity>) -> Result<Self, TlsError> {
        let (certificate_path, key_path) =
            (directory.join(format!("{file}.crt")), directory.join(format!("{file}.key")));
        if !key_path.exists() || !certificate_path.exists() {
            let Self { key, certificate, .. } = Self::new(name, validity)?;
            in_file(directory, fs::create_dir_all(directory))?;
            in_file(&key_path, write_secret(&key_path, &key.serialize_pem()))?;
            in_file(&certificate_path, write_secret(&certificate_path, &certificate))?;
        }
        let key = KeyPair::from_pem(&in_file(&key_path, fs::read_to_string(&key_path))?)?;
        let certificate = in_file(&certificate_path, fs::read_to_string(&certificate_path))?;
        let end = end_of(&certificate);
        Ok(Self { name, key, certificate, end })
    }

    /// Returns the certificate of the CA in PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.certificate
    }

    /// Signs a certificate with a new key.
    pub(crate) fn issue(&self, certificate: CertificateParams) -> Result<Issued, TlsError> {
        self.sign(certificate)
    }

    /// Signs a certificate with a new key, which is not valid for longer than the CA.
    pub(crate) fn issue_for(&self, mut params: CertificateParams, validity: Validity) -> Result<Issued, TlsError> {
        self.limited(validity).apply(&mut params);
        self.sign(params)
    }

    /// Returns the part of a validity in which the CA is valid.
    pub(crate) fn limited(&self, validity: Validity) -> Validity {
        let end = self.end.map_or(validity.end, |end| end.min(validity.end));
        Validity { end, ..validity }
    }

    fn sign(&self, mut certificate: CertificateParams) -> Result<Issued, TlsError> {
        certificate.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        certificate.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        // A CA always has the same parameters, so they are not parsed from its certificate.
        let certificate = certificate.signed_by(&key, &Issuer::new(params(self.name), &self.key))?;
        let der = PrivateKeyDer::try_from(key.serialize_der()).map_err(|why| rustls::Error::General(why.to_owned()))?;
        Ok(Issued { chain: vec![certificate.der().clone()], key: der })
    }
}

/// Returns the end of the validity of a certificate in PEM, if it can be read.
fn end_of(pem: &str) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
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
