//! Validation of webhook configurations: client configs and review versions.

use serde_json::{Value, json};

use crate::{
    object::dns_subdomain,
    object::{DuplicateCheck, Errors, Path, Tree, dns_label_1035},
};

/// Validates the location of a webhook of any kind.
pub(crate) fn validate_client_config(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (config.at(&["url"]).and_then(Value::as_str), config.at(&["service"])) {
        (Some(url), None) => validate_url(url, &path.child("url"), errors),
        (None, Some(service)) => validate_service(service, &path.child("service"), errors),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

/// Validates the review versions that a webhook supports. The caller checks that the list is not empty.
pub(crate) fn validate_review_versions(versions: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = DuplicateCheck::default();
    for (index, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        let place = path.index(index);
        if seen.repeats(version) {
            errors.invalid(&place, version, "duplicate version");
            continue;
        }
        errors.invalid_each(&place, version, dns_label_1035(version));
    }
    if !seen.has("v1") && !seen.has("v1beta1") {
        errors.invalid(path, &json!(versions), "must include at least one of v1, v1beta1");
    }
}

/// Validates the URL of a webhook.
fn validate_url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        errors.invalid(path, scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        errors.invalid(path, host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errors.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errors.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn validate_service(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    // The real server swaps the two paths.
    for (field, shown) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(&[field]).is_empty() {
            errors.required(&path.child(shown), "");
        }
    }
    if let Some(port) = service.int(&["port"]).filter(|port| !(1..=65535).contains(port)) {
        errors.invalid(&path.child("port"), &port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    let Some(target) = service.at(&["path"]).and_then(Value::as_str) else { return };
    let place = path.child("path");
    if matches!(target, "" | "/") {
        return;
    }
    if target == "//" {
        return errors.invalid(&place, target, "segment[0] may not be empty");
    }
    let rest;
    let steps = if let Some(steps) = target.strip_prefix('/') {
        steps
    } else {
        errors.invalid(&place, target, "must start with a '/'");
        // The real server removes the first byte, even if it is not a slash.
        rest = String::from_utf8_lossy(&target.as_bytes()[1..]);
        &rest
    };
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(&place, target, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for wrong in dns_subdomain(step) {
            errors.invalid(&place, target, &format!("segment[{index}]: {wrong}"));
        }
    }
}
