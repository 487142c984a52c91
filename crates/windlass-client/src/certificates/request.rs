//! What a certificate is wanted for.

use std::time::Duration;

use rcgen::{CertificateParams, DistinguishedName, DnType};

use super::{Certificate, CertificateError, PrivateKey};

const WHAT: &str = "certificate signing request";

/// What a certificate is wanted for, and of whom.
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
    /// Who is to sign it, such as `kubernetes.io/kubelet-serving`.
    pub signer: String,
    /// The name of its holder.
    pub common_name: String,
    /// Its holder's organization.
    pub organization: Option<String>,
    /// The host names and addresses that it is to be for.
    pub names: Vec<String>,
    /// What it may be used for.
    pub usages: Vec<Usage>,
    /// How long it is to hold, in whole seconds; signers may give less, or take no notice. At least ten minutes, or the
    /// server refuses to be asked.
    pub lifetime: Option<Duration>,
}

/// What a certificate may be used for, as the API names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is its own name")]
pub enum Usage {
    DigitalSignature,
    KeyEncipherment,
    ClientAuth,
    ServerAuth,
}

impl CertificateRequest {
    /// For a client, to be recognised by.
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

    /// For a server that is reached by these names and addresses.
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

    /// The request in PKCS #10, as PEM, signed with the key that the certificate is to be for.
    pub fn to_pem(&self, key: &PrivateKey) -> Result<String, CertificateError> {
        let params = params(self.names.clone(), &self.common_name, self.organization.as_deref());
        let request = params.and_then(|params| params.serialize_request(key.pair())?.pem());
        request.map_err(|error| CertificateError::make(WHAT, error))
    }

    /// Whether a certificate says all that this asks for. It may say more.
    #[must_use]
    pub fn is_met_by(&self, certificate: &Certificate) -> bool {
        certificate.common_name == self.common_name
            && self.organization.iter().all(|organization| certificate.organizations.contains(organization))
            && self.names.iter().all(|name| certificate.names.contains(name))
    }
}

impl Usage {
    /// `digital signature`
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

/// Who holds a certificate, and what it is for.
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
