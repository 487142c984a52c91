//! Certificates for requests in PKCS #10.
//!
//! The subject and the public key are copied as bytes, because rcgen decodes them: it has one value per attribute of a
//! subject, and derives the parameters of a key from the algorithm of a signature.

use std::net::IpAddr;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, PublicKeyData, SanType, SignatureAlgorithm,
    SigningKey as _,
};
use windlass_api::BoxError;
use x509_parser::{
    asn1_rs::{Class, Tag},
    certificate::X509Certificate,
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer as _,
    x509::{AttributeTypeAndValue, X509Name},
};

/// The positions of the algorithm of the signature, the subject and the key in a certificate.
const ALGORITHM: usize = 2;
const SUBJECT: usize = 5;
const KEY: usize = 6;

/// A request with a valid signature.
pub(super) struct Requested<'a>(X509CertificationRequest<'a>);

impl<'a> Requested<'a> {
    /// Parses a request in DER.
    pub(super) fn parse(der: &'a [u8]) -> Result<Self, BoxError> {
        let unusable = |error: &dyn std::fmt::Display| format!("the request cannot be parsed: {error}");
        let (rest, request) = X509CertificationRequest::from_der(der).map_err(|error| unusable(&error))?;
        if !rest.is_empty() {
            return Err(unusable(&"there are bytes after its end").into());
        }
        request.verify_signature().map_err(|error| format!("the signature of the request is not valid: {error}"))?;
        check_subject(&request.certification_request_info.subject)?;
        Ok(Self(request))
    }

    /// Returns the parameters of the certificate, with a subject to replace. It has the alternative names of the request,
    /// but no other extensions.
    pub(super) fn params(&self) -> Result<CertificateParams, BoxError> {
        let mut params = CertificateParams::new([])?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.distinguished_name = DistinguishedName::new();
        // The alternative names of an empty subject are critical.
        if self.0.certification_request_info.subject.iter().next().is_some() {
            params.distinguished_name.push(DnType::CommonName, "");
        }
        for extension in self.0.requested_extensions().into_iter().flatten() {
            match extension {
                ParsedExtension::SubjectAlternativeName(names) => {
                    for name in &names.general_names {
                        params.subject_alt_names.extend(alternative_name(name)?);
                    }
                }
                ParsedExtension::ParseError { error } => {
                    return Err(format!("an extension of the request cannot be parsed: {error}").into());
                }
                _ => {}
            }
        }
        Ok(params)
    }

    /// Signs the certificate. Returns it in DER.
    pub(super) fn sign(
        &self,
        params: &CertificateParams,
        issuer: &Issuer<'_, KeyPair>,
        key: &KeyPair,
    ) -> Result<Vec<u8>, BoxError> {
        let info = &self.0.certification_request_info;
        let template = params.signed_by(&RequestKey(info.subject_pki.raw), issuer)?;
        let (_, certificate) = X509Certificate::from_der(template.der())?;
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method alone is not general enough")]
        let mut fields = yasna::parse_der(certificate.tbs_certificate.as_ref(), |reader| {
            reader.read_sequence(|reader| {
                let mut fields = Vec::new();
                while let Some(field) = reader.read_optional(|reader| reader.read_der())? {
                    fields.push(field);
                }
                Ok(fields)
            })
        })?;
        fields[SUBJECT] = info.subject.as_raw().to_vec();
        fields[KEY] = info.subject_pki.raw.to_vec();
        let body = sequence(&fields);
        let signature = key.sign(&body)?;
        let signature = yasna::construct_der(|writer| writer.write_bitvec_bytes(&signature, signature.len() * 8));
        // The algorithm of the signature is in the body, too.
        let algorithm = fields.swap_remove(ALGORITHM);
        Ok(sequence(&[body, algorithm, signature]))
    }
}

/// The public key of a request.
struct RequestKey<'a>(&'a [u8]);

impl PublicKeyData for RequestKey<'_> {
    fn subject_public_key_info(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    /// Returns any algorithm, because the key of the template is replaced.
    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

fn sequence(fields: &[Vec<u8>]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for field in fields {
                writer.next().write_der(field);
            }
        });
    })
}

/// Refuses values that programs decode differently, or not at all.
fn check_subject(subject: &X509Name<'_>) -> Result<(), BoxError> {
    match subject.iter_attributes().find(|attribute| !is_text(attribute)) {
        None => Ok(()),
        Some(attribute) => {
            let tag = attribute.attr_value().header.tag();
            Err(format!("a value of the subject is not supported: its type is {tag}").into())
        }
    }
}

/// Reports whether a value is a text with the characters of its type, as Go checks them.
fn is_text(attribute: &AttributeTypeAndValue<'_>) -> bool {
    let header = &attribute.attr_value().header;
    let bytes = attribute.as_slice();
    header.class() == Class::Universal
        && match header.tag() {
            Tag::Utf8String => str::from_utf8(bytes).is_ok(),
            Tag::PrintableString => {
                bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte))
            }
            Tag::NumericString => bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b' '),
            Tag::Ia5String => bytes.is_ascii(),
            _ => false,
        }
}

/// Converts an alternative name. Go ignores the other types, too.
fn alternative_name(name: &GeneralName<'_>) -> Result<Option<SanType>, BoxError> {
    Ok(Some(match name {
        GeneralName::DNSName(name) => SanType::DnsName((*name).try_into()?),
        GeneralName::RFC822Name(name) => SanType::Rfc822Name((*name).try_into()?),
        GeneralName::URI(uri) => SanType::URI((*uri).try_into()?),
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
            SanType::IpAddress(address.map_err(|_| format!("cannot parse IP address of length {}", octets.len()))?)
        }
        _ => return Ok(None),
    }))
}
