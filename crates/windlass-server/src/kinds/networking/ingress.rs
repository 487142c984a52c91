//! The kind Ingress.

use std::collections::HashSet;

use crate::kinds::{networking::validate_reference, prelude::*};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) const KIND: Kind = Kind {
    name: "Ingress",
    prefix: Some("/registry/ingress/"),
    rules: Rules { generation: Generation::Spec, ..Rules::WITH_STATUS },
    validate,
    validate_create,
    validate_status,
    warnings,
    ..BASE
};

fn validate(ingress: &Field<'_>, errors: &mut Errors) {
    let spec = ingress.child("spec");
    let rules = spec.child("rules");
    let backend = spec.child("defaultBackend");
    if rules.is_empty() && !backend.is_set() {
        spec.invalid_as(rules.json(), "either `defaultBackend` or `rules` must be specified", errors);
    }
    if backend.is_set() {
        validate_backend(&backend, errors);
    }
    for rule in rules.items() {
        validate_rule(&rule, errors);
    }
    for tls in spec.child("tls").items() {
        for host in tls.child("hosts").items() {
            validate_host(&host, errors);
        }
        let secret = tls.child("secretName");
        secret.optional_text(dns_subdomain, errors);
    }
    let class = spec.child("ingressClassName");
    if class.is_set() {
        class.invalid_each(dns_subdomain(class.text()), errors);
    }
}

fn validate_create(ingress: &Field<'_>, errors: &mut Errors) {
    let annotation = ingress.json().at(&["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str);
    let class = ingress.json().at(&["spec", "ingressClassName"]).and_then(Value::as_str);
    if let (Some(annotation), Some(class)) = (annotation, class)
        && annotation != class
    {
        let path = Path::new("annotations");
        let text = "must match `ingressClassName` when both are specified";
        errors.invalid(&path.child(CLASS_ANNOTATION), annotation, text);
    }
}

fn validate_status(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    // Addresses that were accepted before remain valid.
    let old_points = old.json().items(&["status", "loadBalancer", "ingress"]);
    let old_ips: HashSet<&str> = old_points.iter().map(|point| point.text(&["ip"])).collect();
    for point in new.child("status.loadBalancer.ingress").items() {
        let (ip, host) = (point.child("ip"), point.child("hostname"));
        if !ip.is_empty() && !old_ips.contains(ip.text()) {
            validate_address(ip.text(), ip.path(), errors);
        }
        if !host.is_empty() {
            host.invalid_each(dns_subdomain(host.text()), errors);
            validate_no_address(&host, errors);
        }
    }
}

fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let has_annotation = new.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some();
    if old.is_none() && has_annotation && new.at(&["spec", "ingressClassName"]).is_none() {
        return vec![format!(
            "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        )];
    }
    Vec::new()
}

fn validate_host(host: &Field<'_>, errors: &mut Errors) {
    let text = host.text();
    host.invalid_each(if text.contains('*') { wildcard_subdomain(text) } else { dns_subdomain(text) }, errors);
}

/// Validates that a host name is not an IP address.
fn validate_no_address(host: &Field<'_>, errors: &mut Errors) {
    if parse_address(host.text()).is_some() {
        host.invalid("must be a DNS name, not an IP address", errors);
    }
}

fn validate_rule(rule: &Field<'_>, errors: &mut Errors) {
    let host = rule.child("host");
    if !host.is_empty() {
        validate_no_address(&host, errors);
        validate_host(&host, errors);
    }
    if !rule.child("http").is_set() {
        return;
    }
    let paths = rule.child("http.paths");
    if paths.is_empty() {
        paths.required("", errors);
    }
    for path in paths.items() {
        validate_http_path(&path, errors);
    }
}

fn validate_http_path(http_path: &Field<'_>, errors: &mut Errors) {
    let kind = http_path.child("pathType");
    if !kind.is_set() {
        return kind.required("pathType must be specified", errors);
    }
    let path = http_path.child("path");
    let text = path.text();
    match kind.text() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                path.invalid_as(text, "must be an absolute path", errors);
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| text.contains(**part)) {
                path.invalid(&format!("must not contain '{part}'"), errors);
            }
            for end in ["/..", "/."].iter().filter(|end| text.ends_with(**end)) {
                path.invalid(&format!("cannot end with '{end}'"), errors);
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                path.invalid("must be an absolute path", errors);
            }
        }
        _ => kind.unsupported(&["Exact", "ImplementationSpecific", "Prefix"], errors),
    }
    validate_backend(&http_path.child("backend"), errors);
}

fn validate_backend(backend: &Field<'_>, errors: &mut Errors) {
    let (resource, service) = (backend.child("resource"), backend.child("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => backend.invalid_as("", "cannot set both resource and service backends", errors),
        (false, false) => backend.invalid_as("", "resource or service backend is required", errors),
        (true, false) => validate_reference(&resource, errors),
        (false, true) => validate_service_backend(backend, &service, errors),
    }
}

fn validate_service_backend(backend: &Field<'_>, service: &Field<'_>, errors: &mut Errors) {
    let name = service.child("name");
    name.required_text(dns_label, errors);
    let (name, number) = (service.child("port.name"), service.child("port.number"));
    match (name.text(), number.int().unwrap_or_default()) {
        ("", 0) => backend.required("port name or number is required", errors),
        ("", _) => number.in_range(1, 65535, errors),
        (text, 0) => name.invalid_each(port_name(text), errors),
        _ => backend.invalid_as("", "cannot set both port name & port number", errors),
    }
}
