//! Requests for certificates.

use std::time::Duration;

use rcgen::{CertificateParams, DistinguishedName, DnType};

use super::{Certificate, CertificateError, PrivateKey};

const WHAT: &str = "certificate signing request";

/// The content of a certificate to request, and its signer.
///
/// ```
/// use windlass_client::certificates::CertificateRequest;
///
/// let mut request = CertificateRequest::client("kubernetes.io/kube-apiserver-client", "backup");
/// request.organization = Some("operators".to_owned());
/// let serving = CertificateRequest::serving("example.com/webhooks", "hooks", ["hooks.shop.svc", "10.0.0.7"]);
/// assert_eq!(serving.names.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateRequest {
    /// The signer, such as `kubernetes.io/kubelet-serving`.
    pub signer: String,
    /// The common name of the subject.
    pub common_name: String,
    /// The organization of the subject.
    pub organization: Option<String>,
    /// The host names and IP addresses of the subject.
    pub names: Vec<String>,
    /// The requested usages.
    pub usages: Vec<Usage>,
    /// The requested lifetime, in whole seconds. Signers may shorten or ignore it. The server rejects less than ten
    /// minutes.
    pub lifetime: Option<Duration>,
}

/// A key usage, with the API's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Usage {
    DigitalSignature,
    KeyEncipherment,
    ClientAuth,
    ServerAuth,
}

impl CertificateRequest {
    /// Creates a request for a client certificate.
    pub fn client(signer: impl Into<String>, common_name: impl Into<String>) -> Self {
        Self {
            signer: signer.into(),
            common_name: common_name.into(),
            organization: None,
            names: Vec::new(),
            usages: vec![Usage::DigitalSignature, Usage::ClientAuth],
            lifetime: None,
        }
    }

    /// Creates a request for a server certificate for these host names and IP addresses.
    pub fn serving(
        signer: impl Into<String>,
        common_name: impl Into<String>,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            usages: vec![Usage::DigitalSignature, Usage::ServerAuth],
            ..Self::client(signer, common_name)
        }
    }

    /// Returns the request in PKCS #10 as PEM, signed with the certificate's future key.
    pub fn to_pem(&self, key: &PrivateKey) -> Result<String, CertificateError> {
        let params = params(self.names.clone(), &self.common_name, self.organization.as_deref());
        let request = params.and_then(|params| params.serialize_request(key.pair())?.pem());
        request.map_err(|error| CertificateError::create(WHAT, error))
    }

    /// Reports whether a certificate contains everything that this request contains. It may contain more.
    #[must_use]
    pub fn is_met_by(&self, certificate: &Certificate) -> bool {
        certificate.common_name == self.common_name
            && self.organization.iter().all(|organization| certificate.organizations.contains(organization))
            && self.names.iter().all(|name| certificate.names.contains(name))
    }
}

impl Usage {
    /// Returns the API's name, such as `digital signature`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DigitalSignature => "digital signature",
            Self::KeyEncipherment => "key encipherment",
            Self::ClientAuth => "client auth",
            Self::ServerAuth => "server auth",
        }
    }
}

/// Returns the subject and usages of a certificate to create.
pub(super) fn params(
    names: Vec<String>,
    common_name: &str,
    organization: Option<&str>,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}
