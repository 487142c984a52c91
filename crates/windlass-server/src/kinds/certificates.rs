//! The group `certificates.k8s.io`: certificate signing requests, their approval, and the certificates; since 1.37, also
//! trust anchors and the certificates of pods.
//!
//! The server does not approve or sign requests; controllers and users do. A certificate is checked to be PEM, but not
//! parsed.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::kinds::prelude::*;

mod cluster_trust_bundle;
mod pod_certificate_request;

pub(super) const KINDS: &[Kind] = &[SIGNING_REQUEST, cluster_trust_bundle::KIND, pod_certificate_request::KIND];

const SIGNING_REQUEST: Kind = Kind {
    name: "CertificateSigningRequest",
    rules: Rules {
        name: NameRule::PathSegment,
        selects_namespace: false,
        resets: Resets {
            main: &["spec", "status"],
            status: &["spec", "status.conditions"],
            approval: &["spec", "status.certificate"],
            ..Resets::NONE
        },
        fields: &[FieldRule { label: "spec.signerName", path: "spec.signerName" }],
        ..Rules::WITH_STATUS
    },
    prepare_create,
    prepare_update: |new, old| copy_key(as_object(new), old, "spec"),
    prepare_status,
    prepare_part,
    validate_create: |request, errors| validate_request(request, &Field::object(&Value::Null), errors),
    validate_update: |new, old, errors| validate_change(new, old, Write::Main, errors),
    validate_status: |new, old, errors| validate_change(new, old, Write::Status, errors),
    validate_part: |_, new, old, errors| validate_change(new, old, Write::Approval, errors),
    ..BASE
};

/// The shortest lifetime of a certificate, in seconds.
const MIN_EXPIRATION: i64 = 600;
/// The condition types that only the approval subresource may set.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The subresource of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Main,
    Status,
    Approval,
}

/// Records the user who creates the request in the request. The client's values are ignored.
fn prepare_create(request: &mut Value, write: &WriteContext<'_>) {
    let spec = object_mut(request, "spec");
    for field in ["username", "uid", "groups", "extra"] {
        spec.shift_remove(field);
    }
    if let Value::Object(user) = write.user.to_value() {
        spec.extend(user);
    }
}

fn prepare_status(new: &mut Value, old: &Value, write: &WriteContext<'_>) {
    copy_key(as_object(new), old, "spec");
    keep_decisions(new, old);
    set_times(new, old, &write.now());
}

/// Restores everything except the conditions, which an approval may change.
fn prepare_part(_part: Part, new: &mut Value, old: &Value, write: &WriteContext<'_>) {
    let decided = conditions(new).to_vec();
    copy_key(as_object(new), old, "spec");
    copy_key(as_object(new), old, "status");
    let status = object_mut(new, "status");
    if decided.is_empty() {
        status.shift_remove("conditions");
    } else {
        status.insert("conditions".to_owned(), decided.into());
    }
    set_times(new, old, &write.now());
}

fn conditions(object: &Value) -> &[Value] {
    object.items(&["status", "conditions"])
}

fn conditions_of_type<'v>(object: &'v Value, kind: &str) -> Vec<&'v Value> {
    conditions(object).iter().filter(|condition| condition.text(&["type"]) == kind).collect()
}

// === preparation ===

/// Restores existing decisions, which cannot be changed.
fn keep_decisions(new: &mut Value, old: &Value) {
    for decision in DECISIONS {
        let old_decisions = conditions_of_type(old, decision);
        if conditions_of_type(new, decision).len() != old_decisions.len() {
            continue;
        }
        let Some(Value::Array(new_conditions)) = new.pointer_mut("/status/conditions") else { continue };
        let new_decisions = new_conditions.iter_mut().filter(|condition| condition.text(&["type"]) == decision);
        for (condition, kept) in new_decisions.zip(old_decisions) {
            *condition = kept.clone();
        }
    }
}

/// Sets the missing times of conditions.
fn set_times(new: &mut Value, old: &Value, now: &str) {
    let Some(new_conditions) = object_mut(new, "status").get_mut("conditions").and_then(Value::as_array_mut) else {
        return;
    };
    for condition in new_conditions {
        if condition.text(&["lastUpdateTime"]).is_empty() {
            as_object(condition).insert("lastUpdateTime".to_owned(), now.into());
        }
        if condition.text(&["lastTransitionTime"]).is_empty() {
            let is_same =
                |old: &&Value| ["type", "status"].iter().all(|name| old.text(&[name]) == condition.text(&[name]));
            let since = conditions(old).iter().find(is_same).map(|old| old.text(&["lastTransitionTime"]));
            let since = since.filter(|since| !since.is_empty()).unwrap_or(now).to_owned();
            as_object(condition).insert("lastTransitionTime".to_owned(), since.into());
        }
    }
}

// === validation ===

/// Validates a request. `old` is the object before an update, and `null` for a creation.
fn validate_request(object: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let spec = object.child("spec");
    let request = spec.child("request");
    if !has_pem_block(request.text(), &["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"]) {
        // Bytes are shown in the form of Go's JSON encoding.
        let shown = if request.text().is_empty() { &Value::Null } else { request.json() };
        request.invalid_as(shown, "PEM block type must be CERTIFICATE REQUEST", errors);
    }
    validate_usages(&spec.child("usages"), errors);
    validate_signer(&spec.child("signerName"), errors);
    let expiration = spec.child("expirationSeconds");
    expiration.check_int(MIN_EXPIRATION.., "may not specify a duration less than 600 seconds (10 minutes)", errors);
    validate_conditions(&object.child("status.conditions"), errors);
    let certificate = object.child("status.certificate");
    let text = certificate.text();
    let is_new = !text.is_empty() && text != old.child("status.certificate").text();
    if is_new && !has_pem_block(text, &["CERTIFICATE"]) {
        certificate.invalid_as("<certificate data>", "must contain at least one CERTIFICATE PEM block", errors);
    }
}

/// Reports whether a base64 text contains the start of a PEM block of one of these types.
fn has_pem_block(encoded: &str, types: &[&str]) -> bool {
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    types.iter().any(|kind| text.contains(&format!("-----BEGIN {kind}-----")))
}

fn validate_usages(usages: &Field<'_>, errors: &mut Errors) {
    usages.check_not_empty("", errors);
    usages.each(|usage, errors| usage.supported(USAGES, errors), errors);
    usages.each_unique(|_, _| {}, errors);
}

fn validate_signer(signer: &Field<'_>, errors: &mut Errors) {
    if signer.text() == "kubernetes.io/legacy-unknown" {
        return signer.invalid("the legacy signerName is not allowed via this API version", errors);
    }
    validate_signer_name(signer, errors);
}

/// Validates the syntax of a required signer name.
fn validate_signer_name(signer: &Field<'_>, errors: &mut Errors) {
    let text = signer.text();
    if text.is_empty() {
        return signer.required("", errors);
    }
    let Some((domain, name)) = text.split_once('/').filter(|(_, name)| !name.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return signer.invalid(detail, errors);
    };
    validate_labels_of_part(domain, dns_label, signer, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        signer.invalid_as(domain, detail, errors);
    }
    validate_labels_of_part(name, dns_subdomain, signer, errors);
}

/// Validates the labels of one part of a signer's name. Only the first invalid label is reported.
fn validate_labels_of_part(part: &str, check: fn(&str) -> Vec<String>, signer: &Field<'_>, errors: &mut Errors) {
    let problems = part.split('.').map(|label| (label, check(label))).find(|(_, problems)| !problems.is_empty());
    let Some((label, problems)) = problems else { return };
    for problem in problems {
        signer.invalid_as(part, &format!("validating label {label:?}: {problem}"), errors);
    }
}

fn validate_conditions(conditions: &Field<'_>, errors: &mut Errors) {
    let mut seen = DuplicateCheck::default();
    for condition in conditions.items() {
        let kind = condition.json().text(&["type"]);
        let statuses: &'static [&'static str] =
            if matches!(kind, "Approved" | "Denied" | "Failed") { &["True"] } else { &["False", "True", "Unknown"] };
        condition.check(&[("type", Rule::Required), ("status", Rule::RequiredOneOf(statuses))], errors);
        let opposite = DECISIONS.iter().find(|decision| **decision != kind);
        if DECISIONS.contains(&kind) && opposite.is_some_and(|opposite| seen.has(*opposite)) {
            let place = if errors.before(V1_34) { condition.child("type") } else { *conditions };
            place.invalid_as(kind, "Approved and Denied conditions are mutually exclusive", errors);
        }
        condition.check_unique_by("type", &mut seen, errors);
    }
}

/// Validates a changed request: a write changes only what its subresource may change, and removes no final condition.
fn validate_change(object: &Field<'_>, old: &Field<'_>, write: Write, errors: &mut Errors) {
    validate_request(object, old, errors);
    let (new, old) = (object.json(), old.json());
    let conditions = object.child("status.conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        if conditions_of_type(new, kind).len() < conditions_of_type(old, kind).len() {
            conditions.forbidden(&format!("updates may not remove a condition of type {kind:?}"), errors);
        }
    }
    for kind in DECISIONS.iter().filter(|_| write != Write::Approval) {
        let (after, before) = (conditions_of_type(new, kind), conditions_of_type(old, kind));
        if after.len() > before.len() {
            conditions.forbidden(&format!("updates may not add a condition of type {kind:?}"), errors);
        } else if after.len() == before.len() && after.iter().zip(&before).any(|(a, b)| !same(Some(a), Some(b))) {
            conditions.forbidden(&format!("updates may not modify a condition of type {kind:?}\n"), errors);
        }
    }
    let certificate = object.child("status.certificate");
    let before = old.text(&["status", "certificate"]);
    if certificate.text() != before {
        if write != Write::Status {
            certificate.forbidden("updates may not set certificate content", errors);
        } else if !before.is_empty() {
            certificate.forbidden("updates may not modify existing certificate content", errors);
        }
    }
}
