//! The group `certificates.k8s.io`: certificate signing requests, their approval, and the certificates.
//!
//! The server does not approve or sign requests; controllers and users do. A certificate is checked to be PEM, but not
//! parsed.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{BASE, Kind};
use crate::{
    identity::User,
    object::{
        DuplicateCheck, Errors, NameRule, Path, Tree, as_object, copy_key, dns_label, dns_subdomain, object_mut, same,
    },
    resource::{FieldRule, Part, Resets, Rules},
};

const GROUP: &str = "certificates.k8s.io";
const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
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

pub(super) const KINDS: &[Kind] = &[Kind {
    group: GROUP,
    name: "CertificateSigningRequest",
    prefix: "/registry/certificatesigningrequests/",
    subresources: &["status", "approval"],
    rules: Rules {
        name: NameRule::PathSegment,
        selects_namespace: false,
        resets: Resets {
            main: &["spec", "status"],
            status: &["spec", "status.conditions"],
            approval: &["spec", "status.certificate"],
        },
        fields: &[FieldRule { label: "spec.signerName", path: "spec.signerName" }],
        ..Rules::WITH_STATUS
    },
    prepare_update: |new, old| copy_key(as_object(new), old, "spec"),
    prepare_status: |new, old| {
        copy_key(as_object(new), old, "spec");
        keep_decisions(new, old);
    },
    prepare_part: prepare_approval,
    sign,
    stamp: Some(stamp),
    validate_create: |new, errors| validate(new, &Value::Null, errors),
    validate_update: |new, old, errors| {
        validate(new, old, errors);
        validate_changes(new, old, Write::Main, errors);
    },
    validate_status: |new, old, errors| {
        validate(new, old, errors);
        validate_changes(new, old, Write::Status, errors);
    },
    validate_part: |_, new, old, errors| {
        validate(new, old, errors);
        validate_changes(new, old, Write::Approval, errors);
    },
    ..BASE
}];

/// Records the user who creates the request in the request. The client's values are ignored.
fn sign(request: &mut Value, user: &User) {
    let spec = object_mut(request, "spec");
    for field in ["username", "uid", "groups", "extra"] {
        spec.shift_remove(field);
    }
    if let Value::Object(user) = user.to_value() {
        spec.extend(user);
    }
}

fn conditions(object: &Value) -> &[Value] {
    object.items(&["status", "conditions"])
}

/// Restores everything except the conditions, which an approval may change.
fn prepare_approval(_: Part, new: &mut Value, old: &Value) {
    let decided = conditions(new).to_vec();
    copy_key(as_object(new), old, "spec");
    copy_key(as_object(new), old, "status");
    let status = object_mut(new, "status");
    if decided.is_empty() {
        status.shift_remove("conditions");
    } else {
        status.insert("conditions".to_owned(), decided.into());
    }
}

/// Restores existing decisions, which cannot be changed.
fn keep_decisions(new: &mut Value, old: &Value) {
    for decision in DECISIONS {
        let of = |object: &Value| -> Vec<usize> {
            let found = conditions(object).iter().enumerate();
            found.filter(|(_, condition)| condition.text(&["type"]) == decision).map(|(index, _)| index).collect()
        };
        let (after, before) = (of(new), of(old));
        if after.len() != before.len() {
            continue;
        }
        for (after, before) in after.into_iter().zip(before) {
            let kept = conditions(old)[before].clone();
            if let Some(condition) = new.pointer_mut(&format!("/status/conditions/{after}")) {
                *condition = kept;
            }
        }
    }
}

fn stamp(new: &mut Value, old: Option<&Value>, now: &str) {
    let Some(old) = old else { return };
    for condition in object_mut(new, "status").get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        if condition.text(&["lastUpdateTime"]).is_empty() {
            as_object(condition).insert("lastUpdateTime".to_owned(), now.into());
        }
        if condition.text(&["lastTransitionTime"]).is_empty() {
            let alike = |other: &&Value| {
                ["type", "status"].iter().all(|field| other.text(&[field]) == condition.text(&[field]))
            };
            let since = conditions(old).iter().find(alike).map(|other| other.text(&["lastTransitionTime"]));
            let since = since.filter(|since| !since.is_empty()).unwrap_or(now).to_owned();
            as_object(condition).insert("lastTransitionTime".to_owned(), since.into());
        }
    }
}

fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    let request = new.text(&["spec", "request"]);
    if let Err(why) = check_request(request) {
        // Bytes are shown in the form of Go's JSON encoding.
        let shown = new.at(&["spec", "request"]).filter(|_| !request.is_empty()).unwrap_or(&Value::Null);
        errors.invalid(&SPEC.child("request"), shown, why);
    }
    let usages = new.items(&["spec", "usages"]);
    let list = SPEC.child("usages");
    if usages.is_empty() {
        errors.required(&list, "");
    }
    for (index, usage) in usages.iter().enumerate() {
        let text = usage.as_str().unwrap_or_default();
        if !USAGES.contains(&text) {
            errors.unsupported(&list.index(index), text, USAGES);
        }
    }
    let mut seen = DuplicateCheck::default();
    for (index, usage) in usages.iter().enumerate() {
        if seen.repeats(usage) {
            errors.duplicate(&list.index(index), usage.as_str().unwrap_or_default());
        }
    }
    let signer = new.text(&["spec", "signerName"]);
    if signer == "kubernetes.io/legacy-unknown" {
        let text = "the legacy signerName is not allowed via this API version";
        errors.invalid(&SPEC.child("signerName"), signer, text);
    } else {
        validate_signer(signer, &SPEC.child("signerName"), errors);
    }
    if let Some(seconds) = new.int(&["spec", "expirationSeconds"]).filter(|seconds| *seconds < MIN_EXPIRATION) {
        let text = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&SPEC.child("expirationSeconds"), &seconds, text);
    }
    validate_conditions(new, errors);
    let certificate = new.text(&["status", "certificate"]);
    if !certificate.is_empty() && certificate != old.text(&["status", "certificate"]) {
        let pem = STANDARD.decode(certificate).unwrap_or_default();
        if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
            let path = STATUS.child("certificate");
            errors.invalid(&path, "<certificate data>", "must contain at least one CERTIFICATE PEM block");
        }
    }
}

fn check_request(request: &str) -> Result<(), &'static str> {
    let text = STANDARD.decode(request).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let begins = |kind: &str| text.contains(&format!("-----BEGIN {kind}-----"));
    if begins("CERTIFICATE REQUEST") || begins("NEW CERTIFICATE REQUEST") {
        Ok(())
    } else {
        Err("PEM block type must be CERTIFICATE REQUEST")
    }
}

fn validate_signer(signer: &str, path: &Path<'_>, errors: &mut Errors) {
    if signer.is_empty() {
        return errors.required(path, "");
    }
    const FORM: &str = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    let Some((domain, name)) = signer.split_once('/').filter(|(_, name)| !name.contains('/')) else {
        return errors.invalid(path, signer, FORM);
    };
    let first_wrong = |text: &str, check: fn(&str) -> Vec<String>| {
        let mut wrong = text.split('.').map(|label| (label.to_owned(), check(label)));
        wrong.find(|(_, wrong)| !wrong.is_empty())
    };
    if let Some((label, wrong)) = first_wrong(domain, dns_label) {
        errors.invalid_each(path, domain, prefixed(&label, wrong));
    }
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    if let Some((label, wrong)) = first_wrong(name, dns_subdomain) {
        errors.invalid_each(path, name, prefixed(&label, wrong));
    }
}

fn prefixed(label: &str, wrong: Vec<String>) -> Vec<String> {
    wrong.into_iter().map(|wrong| format!("validating label {label:?}: {wrong}")).collect()
}

fn validate_conditions(new: &Value, errors: &mut Errors) {
    let path = STATUS.child("conditions");
    let mut seen = DuplicateCheck::default();
    for (index, condition) in conditions(new).iter().enumerate() {
        let place = path.index(index);
        let (kind, status) = (condition.text(&["type"]), condition.text(&["status"]));
        if kind.is_empty() {
            errors.required(&place.child("type"), "");
        }
        let allowed: &[&str] =
            if matches!(kind, "Approved" | "Denied" | "Failed") { &["True"] } else { &["False", "True", "Unknown"] };
        if status.is_empty() {
            errors.required(&place.child("status"), "");
        } else if !allowed.contains(&status) {
            errors.unsupported(&place.child("status"), status, allowed);
        }
        let other = DECISIONS.iter().find(|other| **other != kind);
        if DECISIONS.contains(&kind) && other.is_some_and(|other| seen.has(*other)) {
            errors.invalid(&path, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if seen.repeats(kind) {
            errors.duplicate(&place.child("type"), kind);
        }
    }
}

/// Validates that a write changes only what its subresource may change, and removes no final condition.
fn validate_changes(new: &Value, old: &Value, write: Write, errors: &mut Errors) {
    let path = STATUS.child("conditions");
    let of = |object: &Value, kind: &str| -> Vec<Value> {
        conditions(object).iter().filter(|condition| condition.text(&["type"]) == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind).len() < of(old, kind).len() {
            errors.forbidden(&path, &format!("updates may not remove a condition of type {kind:?}"));
        }
    }
    for kind in DECISIONS.iter().filter(|_| write != Write::Approval) {
        let (after, before) = (of(new, kind), of(old, kind));
        if after.len() > before.len() {
            errors.forbidden(&path, &format!("updates may not add a condition of type {kind:?}"));
        } else if after.len() == before.len() && !same(Some(&json!(after)), Some(&json!(before))) {
            errors.forbidden(&path, &format!("updates may not modify a condition of type {kind:?}\n"));
        }
    }
    let (after, before) = (new.text(&["status", "certificate"]), old.text(&["status", "certificate"]));
    if after != before {
        let place = STATUS.child("certificate");
        if write != Write::Status {
            errors.forbidden(&place, "updates may not set certificate content");
        } else if !before.is_empty() {
            errors.forbidden(&place, "updates may not modify existing certificate content");
        }
    }
}
