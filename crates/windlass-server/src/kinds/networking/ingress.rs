//! The kind Ingress.

use crate::kinds::{
    core::service::rules::{validate_ingress_points, validate_no_address},
    networking::validate_reference,
    prelude::*,
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) const KIND: Kind = Kind {
    name: "Ingress",
    prefix: Some("/registry/ingress/"),
    rules: Rules { generation: Generation::Spec, ..Rules::WITH_STATUS },
    validate,
    validate_create,
    validate_status: |new, old, errors| validate_ingress_points(new, old, |_, _| {}, errors),
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
    backend.if_set(validate_backend, errors);
    rules.each(validate_rule, errors);
    for tls in spec.child("tls").items() {
        tls.child("hosts").each(validate_host, errors);
        tls.child("secretName").optional_text(dns_subdomain, errors);
    }
    spec.child("ingressClassName").check_set_text(dns_subdomain, errors);
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

fn warnings(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    let has_annotation = new.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some();
    if old.is_none() && has_annotation && new.at(&["spec", "ingressClassName"]).is_none() {
        let text = "is deprecated, please use 'spec.ingressClassName' instead";
        warnings.push(format!("annotation \"{CLASS_ANNOTATION}\" {text}"));
    }
}

fn validate_host(host: &Field<'_>, errors: &mut Errors) {
    let text = host.text();
    host.invalid_each(if text.contains('*') { wildcard_subdomain(text) } else { dns_subdomain(text) }, errors);
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
    paths.check_not_empty("", errors);
    paths.each(validate_http_path, errors);
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
    // The feature RelaxedServiceNameValidation.
    let syntax: fn(&str) -> Vec<String> = if errors.before(V1_36) { dns_label_1035 } else { dns_label };
    service.child("name").required_text(syntax, errors);
    let (name, number) = (service.child("port.name"), service.child("port.number"));
    match (name.text(), number.int().unwrap_or_default()) {
        ("", 0) => backend.required("port name or number is required", errors),
        ("", _) => number.in_range(1, 65535, errors),
        (text, 0) => name.invalid_each(port_name(text), errors),
        _ => backend.invalid_as("", "cannot set both port name & port number", errors),
    }
}
