//! Certificate authorities with a local key.

use std::{fmt, time::Duration};

use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::{
    Certificate, CertificateError, KeyedCertificate, PrivateKey, Usage, certificate, request, signing::Requested,
};

const WHAT: &str = "certificate";
/// The time by which the start of validity is moved back, because clocks differ.
const HEAD_START: SignedDuration = SignedDuration::from_hours(1);

/// A certificate authority with its private key.
pub struct CertificateAuthority {
    keyed: KeyedCertificate,
    issuer: Issuer<'static, KeyPair>,
}

/// The validity period of a certificate. Fractions of seconds are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The start.
    pub from: Timestamp,
    /// The end.
    pub until: Timestamp,
}

/// The content of a certificate to issue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaf {
    /// The common name of the subject.
    pub common_name: String,
    /// The organization of the subject.
    pub organization: Option<String>,
    /// The host names and IP addresses of the subject.
    pub names: Vec<String>,
    /// The permitted usages.
    pub usages: Vec<Usage>,
}

/// Creates a new certificate authority and a server certificate that it signs for these host names and IP addresses.
/// The chain contains both certificates.
///
/// ```
/// use std::time::Duration;
/// use windlass_api::Clock;
/// use windlass_client::certificates::{Validity, self_signed};
///
/// let year = Validity::starting(Clock::system().now(), Duration::from_secs(365 * 24 * 3600));
/// let keyed = self_signed(["localhost", "127.0.0.1"], year)?;
/// assert_eq!(keyed.certificate().names, ["localhost", "127.0.0.1"]);
/// # Ok::<(), windlass_client::certificates::CertificateError>(())
/// ```
pub fn self_signed(
    names: impl IntoIterator<Item = impl Into<String>>,
    validity: Validity,
) -> Result<KeyedCertificate, CertificateError> {
    let leaf = Leaf::server(names);
    let authority = CertificateAuthority::self_signed(&format!("{}-ca", leaf.common_name), validity)?;
    let keyed = authority.issue(&leaf, validity)?;
    let chain = format!("{}{}", keyed.certificate().to_pem(), authority.certificate().to_pem());
    KeyedCertificate::new(Certificate::from_pem(&chain)?, keyed.key().clone())
}

impl CertificateAuthority {
    /// Creates an authority with a new key.
    pub fn self_signed(common_name: &str, validity: Validity) -> Result<Self, CertificateError> {
        let key = PrivateKey::generate()?;
        let made = request::params(Vec::new(), common_name, None).and_then(|mut params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages =
                vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            validity.apply(&mut params);
            params.self_signed(key.pair())
        });
        let certificate = made.map_err(|error| CertificateError::create(WHAT, error))?.pem();
        Self::new(KeyedCertificate::new(Certificate::from_pem(&certificate)?, key)?)
    }

    /// Creates an authority from an existing certificate and key.
    pub fn new(keyed: KeyedCertificate) -> Result<Self, CertificateError> {
        let read = |error| CertificateError::read("authority", error);
        let key = KeyPair::from_pem(keyed.key().to_pem().expose()).map_err(read)?;
        let issuer = Issuer::from_ca_cert_pem(keyed.certificate().to_pem(), key).map_err(read)?;
        Ok(Self { keyed, issuer })
    }

    /// Returns the authority's certificate, for peers that are to trust it.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate {
        self.keyed.certificate()
    }

    /// Returns the authority's certificate and key, to store them.
    #[must_use]
    pub const fn keyed(&self) -> &KeyedCertificate {
        &self.keyed
    }

    /// Issues a certificate with a new key.
    pub fn issue(&self, leaf: &Leaf, validity: Validity) -> Result<KeyedCertificate, CertificateError> {
        let key = PrivateKey::generate()?;
        let params = request::params(leaf.names.clone(), &leaf.common_name, leaf.organization.as_deref());
        let made = params.and_then(|mut params| {
            allow(&mut params, &leaf.usages);
            validity.apply(&mut params);
            params.signed_by(key.pair(), &self.issuer)
        });
        let certificate = made.map_err(|error| CertificateError::create(WHAT, error))?.pem();
        KeyedCertificate::new(Certificate::from_pem(&certificate)?, key)
    }

    /// Signs a certificate signing request in PKCS #10, whose key is known only to the requester. The request is in DER,
    /// so that a caller who checks it and the authority read the same one. The subject, the alternative names and the
    /// public key are those of the request, so check them before. Subject and key are copied byte for byte. Other
    /// requested extensions are ignored, and the certificate is not that of an authority.
    ///
    /// # Errors
    /// Returns an error if the request cannot be parsed, or if its signature is not valid.
    pub fn sign(&self, request: &[u8], usages: &[Usage], validity: Validity) -> Result<Certificate, CertificateError> {
        let made = Requested::parse(request).and_then(|request| {
            let mut params = request.params()?;
            allow(&mut params, usages);
            validity.apply(&mut params);
            request.sign(&params, &self.issuer, self.keyed.key().pair())
        });
        let made = made.map_err(|error| CertificateError::create(WHAT, error))?;
        Certificate::from_pem(&certificate::pem(&made))
    }
}

impl Validity {
    /// Creates a period from slightly before `now`, because clocks differ, until `lifetime` after `now`.
    #[must_use]
    pub fn starting(now: Timestamp, lifetime: Duration) -> Self {
        Self {
            from: now.checked_sub(HEAD_START).unwrap_or(Timestamp::MIN),
            until: now.checked_add(lifetime).unwrap_or(Timestamp::MAX),
        }
    }

    fn apply(self, params: &mut CertificateParams) {
        // Certificates can represent earlier times, but none are needed.
        let since_1970 = |time: Timestamp| Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default());
        let start = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = start + since_1970(self.from);
        params.not_after = start + since_1970(self.until);
    }
}

impl Leaf {
    /// The content of a client certificate.
    pub fn client(common_name: impl Into<String>) -> Self {
        let usages = vec![Usage::DigitalSignature, Usage::ClientAuth];
        Self { common_name: common_name.into(), organization: None, names: Vec::new(), usages }
    }

    /// The content of a server certificate for these host names and IP addresses. The first is the common name.
    pub fn server(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let common_name = names.first().cloned().unwrap_or_default();
        Self { common_name, organization: None, names, usages: vec![Usage::DigitalSignature, Usage::ServerAuth] }
    }
}

fn allow(params: &mut CertificateParams, usages: &[Usage]) {
    for usage in usages {
        match usage {
            Usage::DigitalSignature => params.key_usages.push(KeyUsagePurpose::DigitalSignature),
            Usage::KeyEncipherment => params.key_usages.push(KeyUsagePurpose::KeyEncipherment),
            Usage::ClientAuth => params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth),
            Usage::ServerAuth => params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth),
        }
    }
    params.use_authority_key_identifier_extension = true;
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority").field("keyed", &self.keyed).finish_non_exhaustive()
    }
}
