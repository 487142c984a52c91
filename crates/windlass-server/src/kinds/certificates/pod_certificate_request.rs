//! PodCertificateRequests: requests of kubelets for the certificates of pods. Served since 1.37.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use x509_parser::{
    certification_request::X509CertificationRequest, prelude::FromDer as _, public_key::PublicKey,
    x509::SubjectPublicKeyInfo,
};

use crate::kinds::{certificates::validate_signer_name, prelude::*, selector::validate_conditions};

pub(super) const KIND: Kind = Kind {
    name: "PodCertificateRequest",
    rules: Rules {
        metadata: MetadataRule::CHANGES,
        resets: Resets::BARE_STATUS,
        unconditional_update: false,
        selects_namespace: false,
        fields: &[
            FieldRule { label: "spec.signerName", path: "spec.signerName" },
            FieldRule { label: "spec.podName", path: "spec.podName" },
            FieldRule { label: "spec.nodeName", path: "spec.nodeName" },
        ],
        indexed_field: Some("spec.nodeName"),
        ..Rules::WITH_STATUS
    },
    default: |request| default_pointer(object_mut(request, "spec"), "maxExpirationSeconds", DAY),
    validate_create: |request, errors| validate_spec(&request.child("spec"), errors),
    immutable: &["spec"],
    validate_status,
    ..BASE
};

const DAY: i64 = 24 * 60 * 60;
/// The lifetimes that a request may ask for, in seconds.
const SHORTEST: i64 = 60 * 60;
const LONGEST: i64 = 91 * DAY;
/// The maximum length of a UID, in bytes.
const MAX_UID: usize = 128;
/// The maximum length of the PKCS #10 request, in bytes.
const MAX_REQUEST: usize = 10 << 10;
/// The maximum length of the certificates, in bytes.
const MAX_CHAIN: usize = 100 << 10;
/// The maximum total length of the annotations, in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;
/// The condition types that end a request.
const FINAL: &[&str] = &["Issued", "Denied", "Failed"];

fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    let signer = spec.child("signerName");
    validate_signer_name(&signer, errors);
    validate_user_annotations(&spec.child("unverifiedUserAnnotations"), errors);
    for (name, uid) in [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")] {
        spec.child(name).check_text(dns_subdomain, errors);
        let uid = spec.child(uid);
        if uid.is_empty() {
            uid.invalid("must not be empty", errors);
        }
        uid.check_bytes(MAX_UID, errors);
    }
    let domain = signer.text().split('/').next().unwrap_or_default();
    let longest = if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") { DAY } else { LONGEST };
    let seconds = spec.child("maxExpirationSeconds");
    if !seconds.is_set() {
        return seconds.required("must be set", errors);
    }
    seconds.check_int(SHORTEST..=longest, format_args!("must be in the range [{SHORTEST}, {longest}]"), errors);
    let request = spec.child("stubPKCS10Request");
    if request.is_empty() {
        let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
        return errors.invalid_without_value(spec.path(), detail);
    }
    validate_request(&request, errors);
}

/// Validates the annotations for the signer: their keys have a domain.
fn validate_user_annotations(annotations: &Field<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.entries() {
        validate_domain_prefixed(&key.to_lowercase(), annotations.path(), errors);
        size += key.len() + value.text().len();
    }
    if size > MAX_ANNOTATIONS {
        annotations.too_long(MAX_ANNOTATIONS, errors);
    }
}

/// Validates a PKCS #10 request. Its signature is not verified.
fn validate_request(request: &Field<'_>, errors: &mut Errors) {
    let der = STANDARD.decode(request.text()).unwrap_or_default();
    if der.len() > MAX_REQUEST {
        return request.too_long(MAX_REQUEST, errors);
    }
    let Ok((&[], parsed)) = X509CertificationRequest::from_der(&der) else {
        return errors.invalid_without_value(request.path(), "must be a valid PKCS#10 CSR");
    };
    if let Some((shown, detail)) = key_problem(&parsed.certification_request_info.subject_pki) {
        request.invalid_as(&shown, detail, errors);
    }
}

/// Returns the problem of a public key, with the shown value.
fn key_problem(info: &SubjectPublicKeyInfo<'_>) -> Option<(String, &'static str)> {
    match info.parsed() {
        Ok(PublicKey::RSA(key)) if !matches!(key.key_size(), 3072 | 4096) => {
            Some((format!("{}-bit modulus", key.key_size()), "RSA keys must have modulus size 3072 or 4096"))
        }
        _ => None,
    }
}

fn validate_status(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let status = new.child("status");
    let conditions = status.child("conditions");
    let mut finals = 0;
    for (index, condition) in conditions.items().enumerate() {
        // The real server reports these paths with a dot before the index.
        let index = format!("[{index}]");
        let path = conditions.path().child(&index);
        let (kind, state) = (condition.child("type").text(), condition.child("status").text());
        if !FINAL.contains(&kind) {
            errors.unsupported(&path.child("type"), kind, FINAL);
            continue;
        }
        finals += 1;
        if finals > 1 {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(&path.child("type"), kind, detail);
        }
        if state != "True" {
            errors.unsupported(&path.child("status"), state, &["True"]);
        }
    }
    validate_conditions(&conditions, errors);
    if !errors.is_empty() {
        return;
    }
    let has_ended = |object: &Field<'_>| !object.child("status.conditions").is_empty();
    let chain = status.child("certificateChain");
    if has_ended(old) {
        if !status.same(&old.child("status")) {
            let detail = "immutable after PodCertificateRequest is issued, denied, or failed";
            errors.invalid_without_value(status.path(), detail);
        }
    } else if has_ended(new) && conditions.items().all(|condition| condition.child("type").text() != "Issued") {
        if ["certificateChain", "notBefore", "notAfter", "beginRefreshAt"]
            .iter()
            .any(|name| status.child(name).is_set())
        {
            let detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            errors.invalid_without_value(status.path(), detail);
        }
    } else if has_ended(new) {
        chain.check_bytes(MAX_CHAIN, errors);
        if !chain.text().contains("-----BEGIN CERTIFICATE-----") {
            chain.invalid("issued certificate chain must contain at least one certificate", errors);
        }
    }
}
