//! Certificates: permissions to approve and sign requests, and the subject that is never certified.
//!
//! The plugins `CertificateApproval`, `CertificateSigning`, `CertificateSubjectRestriction` and
//! `ClusterTrustBundleAttest`. A user who writes the subresource `approval` or `status`, or the trust anchors of a signer,
//! also needs permission for the signer, by its name or for all signers of its domain.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject as _};
use serde_json::Value;
use windlass_api::Status;
use x509_parser::{asn1_rs::Any, certification_request::X509CertificationRequest, prelude::FromDer as _};

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    authz::{AccessAttributes, Authorizer, Object},
    codec::go_quote,
    identity::{MASTERS, User},
    object::{Errors, Path, Tree, same},
    registry::Registry,
};

const GROUP: &str = "certificates.k8s.io";
/// The signer of certificates for API server clients. The organizations of such a certificate are groups.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Checks the permissions to approve or to sign, by the subresource.
#[derive(Debug)]
pub(crate) struct CertificateDecisions {
    subresource: &'static str,
    authorizer: Arc<Authorizer>,
}

impl CertificateDecisions {
    /// The plugin `CertificateApproval`.
    pub(crate) const fn approval(authorizer: Arc<Authorizer>) -> Self {
        Self { subresource: "approval", authorizer }
    }

    /// The plugin `CertificateSigning`.
    pub(crate) const fn signing(authorizer: Arc<Authorizer>) -> Self {
        Self { subresource: "status", authorizer }
    }
}

/// Checks the permissions to publish the trust anchors of a signer: the plugin `ClusterTrustBundleAttest`. The kind is
/// served since 1.37.
#[derive(Debug)]
pub(crate) struct BundleAttestation(pub(crate) Arc<Authorizer>);

/// Checks the permissions to sign certificates of pods. In kube-apiserver this check is part of the storage. The kind is
/// served since 1.37.
#[derive(Debug)]
pub(crate) struct PodCertificates(pub(crate) Arc<Authorizer>);

/// Rejects requests for `system:masters` to the client signer.
#[derive(Debug)]
pub(crate) struct CertificateSubjects;

impl Admission for CertificateDecisions {
    fn handles(&self, write: &Attributes) -> bool {
        // The server's own writes have no user.
        is_request(write)
            && write.operation == Operation::Update
            && !write.context.user.name.is_empty()
            && write.subresource.as_deref() == Some(self.subresource)
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let old = write.old.as_ref().unwrap_or(&Value::Null);
            let verb = if write.subresource.as_deref() == Some("approval") {
                "approve"
            } else if ["certificate", "conditions"].iter().all(|field| is_unchanged(&write.object, old, field)) {
                return Ok(());
            } else {
                "sign"
            };
            // The signer of the old state, because the write may try to name another one.
            let signer = old.text(&["spec", "signerName"]);
            if is_allowed(&self.authorizer, registry, &write.context.user, verb, signer).await? {
                return Ok(());
            }
            let signer = go_quote(signer);
            Err(write.forbidden(format!("user not permitted to {verb} requests with signerName {signer}")))
        })
    }
}

impl Admission for BundleAttestation {
    fn handles(&self, write: &Attributes) -> bool {
        let is_write = matches!(write.operation, Operation::Create | Operation::Update) && !write.is_internal();
        is_write
            && write.resource.group == GROUP
            && write.resource.kind == "ClusterTrustBundle"
            && write.subresource.is_none()
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match forbidden_signer(&self.0, registry, write, "spec", "attest").await? {
                None => Ok(()),
                Some(signer) => {
                    Err(write.forbidden(format!("user not permitted to attest for signerName {}", go_quote(signer))))
                }
            }
        })
    }
}

impl Admission for PodCertificates {
    fn handles(&self, write: &Attributes) -> bool {
        write.operation == Operation::Update
            && !write.is_internal()
            && write.resource.group == GROUP
            && write.resource.kind == "PodCertificateRequest"
            && write.subresource.as_deref() == Some("status")
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(signer) = forbidden_signer(&self.0, registry, write, "status", "sign").await? else {
                return Ok(());
            };
            let user = go_quote(&write.context.user.name);
            let mut errors = Errors::default();
            let detail = format!("User {user} is not permitted to \"sign\" for signer {}", go_quote(signer));
            errors.forbidden(&Path::new("spec.signerName"), &detail);
            errors.check(&write.resource.group_kind(), &write.name)
        })
    }
}

/// Returns the signer of an object if the user may not use the verb for it. `None` also if the part does not change.
async fn forbidden_signer<'w>(
    authorizer: &Authorizer,
    registry: &Registry,
    write: &'w Attributes,
    part: &str,
    verb: &str,
) -> Result<Option<&'w str>, Status> {
    let old = write.old.as_ref().unwrap_or(&Value::Null);
    let signer = write.object.text(&["spec", "signerName"]);
    let is_permitted = signer.is_empty()
        || same(write.object.get(part), old.get(part))
        || is_allowed(authorizer, registry, &write.context.user, verb, signer).await?;
    Ok((!is_permitted).then_some(signer))
}

/// Reports whether a user may use a verb for a signer.
async fn is_allowed(
    authorizer: &Authorizer,
    registry: &Registry,
    user: &User,
    verb: &str,
    signer: &str,
) -> Result<bool, Status> {
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer, &format!("{domain}/*")] {
        let object =
            Object::Resource { group: GROUP, version: "*", resource: "signers", subresource: "", namespace: "", name };
        if authorizer.decide(registry.storage(), user, &AccessAttributes::new(verb, object)).await?.is_allowed() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Admission for CertificateSubjects {
    fn handles(&self, write: &Attributes) -> bool {
        is_request(write) && write.operation == Operation::Create && write.subresource.is_none()
    }

    fn validate<'a>(&'a self, _: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.object.text(&["spec", "signerName"]) != CLIENT_SIGNER {
                return Ok(());
            }
            match requests_masters_group(write.object.text(&["spec", "request"])) {
                Ok(false) => Ok(()),
                Ok(true) => {
                    Err(write.forbidden(format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")))
                }
                Err(why) => Err(write.forbidden(format!("failed to parse CSR: {why}"))),
            }
        })
    }
}

fn is_request(write: &Attributes) -> bool {
    write.resource.group == GROUP && write.resource.plural == "certificatesigningrequests"
}

fn is_unchanged(new: &Value, old: &Value, field: &str) -> bool {
    let of = |object: &Value| object.at(&["status", field]).cloned().unwrap_or_default();
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    of(new) == of(old) || is_empty(&of(new)) && is_empty(&of(old))
}

/// Reports whether a certificate request names the organization `system:masters`.
///
/// Stricter than kube-apiserver in one point: no other PEM block may accompany the request, so that no other reader can
/// take another block for the request.
fn requests_masters_group(request: &str) -> Result<bool, &'static str> {
    const NO_BLOCK: &str = "PEM block type must be CERTIFICATE REQUEST";
    const MALFORMED: &str = "asn1: structure error: malformed certificate request";
    let text = STANDARD.decode(request).map_err(|_| NO_BLOCK)?;
    if String::from_utf8_lossy(&text).matches("-----BEGIN").count() != 1 {
        return Err(NO_BLOCK);
    }
    let der = CertificateSigningRequestDer::from_pem_slice(&text).map_err(|_| NO_BLOCK)?;
    let Ok((&[], request)) = X509CertificationRequest::from_der(&der) else { return Err(MALFORMED) };
    let subject = &request.certification_request_info.subject;
    Ok(subject.iter_organization().any(|organization| text_of(organization.attr_value()) == MASTERS))
}

/// Decodes an ASN.1 string of any type. The single-byte types agree on the letters of `system:masters`.
fn text_of(value: &Any<'_>) -> String {
    const BMP_STRING: u32 = 30;
    const UNIVERSAL_STRING: u32 = 28;
    let width = match value.header.tag().0 {
        BMP_STRING => 2,
        UNIVERSAL_STRING => 4,
        _ => return String::from_utf8_lossy(value.data).into_owned(),
    };
    let letter = |bytes: &[u8]| char::from_u32(bytes.iter().fold(0, |letter, byte| letter << 8 | u32::from(*byte)));
    value.data.chunks(width).map(|bytes| letter(bytes).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    fn request(organizations: &[DnValue]) -> String {
        let mut params = CertificateParams::default();
        for organization in organizations {
            params.distinguished_name.push(DnType::OrganizationName, organization.clone());
        }
        params.distinguished_name.push(DnType::CommonName, "eve");
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        STANDARD.encode(pem)
    }

    #[test]
    fn masters_group_is_found_in_every_string_type() {
        for organization in [
            DnValue::Utf8String(MASTERS.to_owned()),
            DnValue::PrintableString(MASTERS.try_into().unwrap()),
            DnValue::Ia5String(MASTERS.try_into().unwrap()),
            DnValue::TeletexString(MASTERS.try_into().unwrap()),
            DnValue::BmpString(MASTERS.try_into().unwrap()),
            DnValue::UniversalString(MASTERS.try_into().unwrap()),
        ] {
            assert_eq!(requests_masters_group(&request(&[organization])), Ok(true));
        }
        assert_eq!(requests_masters_group(&request(&[DnValue::Utf8String("developers".to_owned())])), Ok(false));
        assert_eq!(requests_masters_group(&request(&[])), Ok(false));
    }

    #[test]
    fn certificate_request_with_further_pem_blocks_is_rejected() {
        let pem = |encoded: String| String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
        let masters = DnValue::Utf8String(MASTERS.to_owned());
        let both = pem(request(&[])) + &pem(request(&[masters]));
        assert!(requests_masters_group(&STANDARD.encode(both)).is_err());
        assert!(requests_masters_group(&STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----")).is_err());
        assert!(requests_masters_group("?").is_err());
    }
}
