//! CertificateSigningRequests: approves those of kubelets, signs those of the built-in signers, and deletes old ones.
//!
//! The three controllers have the conditions, reasons and messages of the real ones. A certificate is valid from five
//! minutes before it is signed, for a year or for the requested time if that is shorter.

mod approver;
mod cleaner;
mod request;
mod signer;

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use windlass_api::BoxError;

pub(crate) use self::{
    approver::add_to as add_approver_to, cleaner::add_to as add_cleaner_to, signer::add_to as add_signer_to,
};

/// The signer of clients' certificates.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of kubelets' client certificates.
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of kubelets' serving certificates.
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// The signer without rules.
const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// A certificate to sign. Its subject, its alternative names and its public key are those of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateOrder<'a> {
    /// The request in PKCS #10, as DER. Its signature was not checked.
    pub request: &'a [u8],
    /// The permitted usages, with the names of the API, such as `client auth`.
    pub usages: &'a [String],
    /// The start of the validity.
    pub from: Timestamp,
    /// The end of the validity. It must not be after that of the certificate authority.
    pub until: Timestamp,
}

/// Signs the certificates of the built-in signers.
#[derive(Clone)]
pub struct CertificateSigner(Arc<Sign>);

type Sign = dyn Fn(CertificateOrder<'_>) -> Result<String, BoxError> + Send + Sync;

impl CertificateSigner {
    /// Creates a signer from a function that returns a certificate as PEM.
    pub fn new(sign: impl Fn(CertificateOrder<'_>) -> Result<String, BoxError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }

    fn sign(&self, order: CertificateOrder<'_>) -> Result<String, BoxError> {
        (self.0)(order)
    }
}

impl fmt::Debug for CertificateSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateSigner").finish_non_exhaustive()
    }
}

/// Reports whether a request has a condition of a type.
fn has_condition(request: &CertificateSigningRequest, type_: &str) -> bool {
    let conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == type_)
}

/// Reports whether a request has its certificate.
fn is_issued(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    certificate.is_some_and(|certificate| !certificate.0.is_empty())
}
