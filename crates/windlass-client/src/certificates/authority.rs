//! Authorities of one's own.

use std::{fmt, time::Duration};

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

use super::{Certificate, CertificateError, KeyedCertificate, PrivateKey, Usage, request};

const WHAT: &str = "certificate";
/// How much earlier certificates begin: clocks differ.
const HEAD_START: SignedDuration = SignedDuration::from_hours(1);

/// An authority whose key is at hand.
pub struct CertificateAuthority {
    keyed: KeyedCertificate,
    issuer: Issuer<'static, KeyPair>,
}

/// When a certificate is valid. Parts of seconds do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Not before.
    pub from: Timestamp,
    /// Not after.
    pub until: Timestamp,
}

/// What an authority is to certify.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaf {
    /// The name of the holder.
    pub common_name: String,
    /// The holder's organization.
    pub organization: Option<String>,
    /// The host names and addresses of the holder.
    pub names: Vec<String>,
    /// What it may be used for.
    pub usages: Vec<Usage>,
}

/// An authority of nobody else's, and a server's certificate from it for these names and addresses: the chain holds both.
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
    /// A new one, with a new key.
    pub fn self_signed(common_name: &str, validity: Validity) -> Result<Self, CertificateError> {
        let key = PrivateKey::generate()?;
        let made = request::params(Vec::new(), common_name, None).and_then(|mut params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages =
                vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            validity.apply(&mut params);
            params.self_signed(key.pair())
        });
        let certificate = made.map_err(|error| CertificateError::make(WHAT, error))?.pem();
        Self::new(KeyedCertificate::new(Certificate::from_pem(&certificate)?, key)?)
    }

    /// One that is there already.
    pub fn new(keyed: KeyedCertificate) -> Result<Self, CertificateError> {
        let read = |error| CertificateError::read("authority", error);
        let key = KeyPair::from_pem(keyed.key().to_pem().expose()).map_err(read)?;
        let issuer = Issuer::from_ca_cert_pem(keyed.certificate().to_pem(), key).map_err(read)?;
        Ok(Self { keyed, issuer })
    }

    /// Its own certificate, for those who are to trust it.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate {
        self.keyed.certificate()
    }

    /// Its certificate and its key, to be kept.
    #[must_use]
    pub const fn keyed(&self) -> &KeyedCertificate {
        &self.keyed
    }

    /// A certificate with a new key.
    pub fn issue(&self, leaf: &Leaf, validity: Validity) -> Result<KeyedCertificate, CertificateError> {
        let key = PrivateKey::generate()?;
        let params = request::params(leaf.names.clone(), &leaf.common_name, leaf.organization.as_deref());
        let made = params.and_then(|mut params| {
            allow(&mut params, &leaf.usages);
            validity.apply(&mut params);
            params.signed_by(key.pair(), &self.issuer)
        });
        let certificate = made.map_err(|error| CertificateError::make(WHAT, error))?.pem();
        KeyedCertificate::new(Certificate::from_pem(&certificate)?, key)
    }

    /// A certificate for a request in PKCS #10, of a key that only who asks has. All that it asks for is granted: whether
    /// it may be is to be looked at before.
    pub fn sign(&self, request: &str, usages: &[Usage], validity: Validity) -> Result<Certificate, CertificateError> {
        let mut asked = CertificateSigningRequestParams::from_pem(request)
            .map_err(|error| CertificateError::read("certificate signing request", error))?;
        allow(&mut asked.params, usages);
        validity.apply(&mut asked.params);
        let made = asked.signed_by(&self.issuer).map_err(|error| CertificateError::make(WHAT, error))?;
        Certificate::from_pem(&made.pem())
    }
}

impl Validity {
    /// From a little before `now`, for clocks that differ, until `lifetime` after it.
    #[must_use]
    pub fn starting(now: Timestamp, lifetime: Duration) -> Self {
        Self {
            from: now.checked_sub(HEAD_START).unwrap_or(Timestamp::MIN),
            until: now.checked_add(lifetime).unwrap_or(Timestamp::MAX),
        }
    }

    fn apply(self, params: &mut CertificateParams) {
        // Certificates can tell of earlier times; nobody needs them to.
        let since_1970 = |time: Timestamp| Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default());
        let start = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = start + since_1970(self.from);
        params.not_after = start + since_1970(self.until);
    }
}

impl Leaf {
    /// For a client, to be recognised by.
    pub fn client(common_name: impl Into<String>) -> Self {
        let usages = vec![Usage::DigitalSignature, Usage::ClientAuth];
        Self { common_name: common_name.into(), organization: None, names: Vec::new(), usages }
    }

    /// For a server that is reached by these names and addresses; it goes by the first.
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
