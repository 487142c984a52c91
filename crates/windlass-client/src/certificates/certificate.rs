//! Certificates and their content.

use std::net::IpAddr;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    prelude::{ASN1Time, AttributeTypeAndValue, FromDer as _, X509Name},
};

use super::{CertificateError, PrivateKey};
use crate::connection_options::{Identity, Pem};

const WHAT: &str = "certificate";

/// A certificate with its intermediate certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificate {
    /// The common name of the subject. Kubernetes API servers use it as the user name.
    pub common_name: String,
    /// The organizations of the subject. Kubernetes API servers use them as the user's groups.
    pub organizations: Vec<String>,
    /// The host names and IP addresses of the subject.
    pub names: Vec<String>,
    /// The start of validity.
    pub not_before: Timestamp,
    /// The end of validity.
    pub not_after: Timestamp,
    /// The chain in its original encoding.
    pem: String,
    /// The public key.
    public_key: Vec<u8>,
}

/// A certificate with its private key.
#[derive(Clone, Debug)]
pub struct KeyedCertificate {
    certificate: Certificate,
    key: PrivateKey,
}

impl Certificate {
    /// Parses PEM: the certificate followed by its intermediate certificates. Other sections are ignored.
    pub fn from_pem(text: &str) -> Result<Self, CertificateError> {
        let refused = |error| CertificateError::read(WHAT, error);
        let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| CertificateError::read(WHAT, error))?;
        let first = chain.first().ok_or_else(|| CertificateError::read(WHAT, "there is none"))?;
        let (_, read) = X509Certificate::from_der(first).map_err(|error| CertificateError::read(WHAT, error))?;
        let names = read.subject_alternative_name().map_err(|error| CertificateError::read(WHAT, error))?;
        let names = names.map_or(&[][..], |names| &names.value.general_names);
        Ok(Self {
            common_name: texts(read.subject().iter_common_name().map(AttributeTypeAndValue::as_str))
                .pop()
                .unwrap_or_default(),
            organizations: organizations(read.subject()),
            names: names.iter().filter_map(name).collect(),
            not_before: moment(read.validity().not_before).map_err(refused)?,
            not_after: moment(read.validity().not_after).map_err(refused)?,
            pem: chain.iter().map(|certificate| pem(certificate)).collect(),
            public_key: read.public_key().subject_public_key.data.to_vec(),
        })
    }

    /// Returns the chain as PEM.
    #[must_use]
    pub fn to_pem(&self) -> &str {
        &self.pem
    }

    /// Reports whether the certificate is valid at a time.
    #[must_use]
    pub fn is_valid_at(&self, time: Timestamp) -> bool {
        (self.not_before..=self.not_after).contains(&time)
    }
}

impl KeyedCertificate {
    /// Combines a certificate and its key. Returns an error if they do not match.
    pub fn new(certificate: Certificate, key: PrivateKey) -> Result<Self, CertificateError> {
        if certificate.public_key != key.pair().public_key_raw() {
            return Err(CertificateError::Mismatch);
        }
        Ok(Self { certificate, key })
    }

    /// Parses both from one text.
    pub fn from_pem(text: &str) -> Result<Self, CertificateError> {
        Self::new(Certificate::from_pem(text)?, PrivateKey::from_pem(text)?)
    }

    /// Returns the certificate.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Returns the key.
    #[must_use]
    pub const fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Returns both as one PEM text, the key last.
    #[must_use]
    pub fn to_pem(&self) -> crate::secret::Secret {
        format!("{}{}", self.certificate.pem, self.key.to_pem().expose()).into()
    }

    /// Returns both as a TLS identity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let key = self.key.to_pem().expose().as_bytes().to_vec();
        Identity::new(self.certificate.pem.as_str(), Pem::Data(key))
    }
}

fn organizations(subject: &X509Name<'_>) -> Vec<String> {
    texts(subject.iter_organization().map(AttributeTypeAndValue::as_str))
}

fn texts<'t, E>(texts: impl Iterator<Item = Result<&'t str, E>>) -> Vec<String> {
    texts.filter_map(|text| text.ok().map(str::to_owned)).collect()
}

/// TLS does not use other types of names.
fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            Some(address.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok()?.to_string())
        }
        _ => None,
    }
}

fn moment(time: ASN1Time) -> Result<Timestamp, jiff::Error> {
    Timestamp::from_second(time.timestamp())
}

/// Returns a certificate in DER as PEM.
pub(super) fn pem(certificate: &[u8]) -> String {
    const LINE: usize = 64;
    let encoded = BASE64_STANDARD.encode(certificate);
    let lines: Vec<_> = encoded.as_bytes().chunks(LINE).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
