//! The group `networking.k8s.io`.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::kinds::pod_spec::in_port_range;
use super::{BASE, Kind, selector::validate_selector};
use crate::{
    object::{
        Errors, NameRule, Path, Range, Tree, address_problem, as_object, default_pointer, dns_label, dns_subdomain,
        entry_mut, ip_range, items_mut, parse_address, path_segment, port_name, range_problem, same,
        validate_domain_prefixed, wildcard_subdomain,
    },
    resource::{Generation, MetadataRule, Resets, Rules},
};

const SPEC: Path<'static> = Path::new("spec");
const GROUP: &str = "networking.k8s.io";
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: GROUP,
        name: "Ingress",
        prefix: "/registry/ingress/",
        subresources: &["status"],
        rules: Rules { generation: Generation::Spec, ..Rules::WITH_STATUS },
        validate: validate_ingress,
        validate_create: validate_class_annotation,
        validate_status: validate_ingress_status,
        warnings: |new, old| {
            let annotated = new.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some();
            if old.is_none() && annotated && new.at(&["spec", "ingressClassName"]).is_none() {
                return vec![format!(
                    "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
                )];
            }
            Vec::new()
        },
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "IngressClass",
        prefix: "/registry/ingressclasses/",
        rules: Rules { generation: Generation::Spec, changes_first: true, ..Rules::COMMON },
        default: |class| {
            if let Some(parameters) = entry_mut(class, "spec").and_then(|spec| entry_mut(spec, "parameters")) {
                default_pointer(as_object(parameters), "scope", "Cluster");
            }
        },
        validate: validate_ingress_class,
        validate_update: |new, old, errors| {
            let path = SPEC.child("controller");
            errors.immutable(&path, new.at(&["spec", "controller"]), old.at(&["spec", "controller"]));
        },
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "NetworkPolicy",
        prefix: "/registry/networkpolicies/",
        rules: Rules { metadata: MetadataRule::CHANGES, generation: Generation::Spec, ..Rules::COMMON },
        default: default_policy,
        validate_create: |policy, errors| validate_policy(policy, &HashSet::new(), errors),
        validate_update: |new, old, errors| validate_policy(new, &ranges_of(old), errors),
        warnings: |policy, _| policy_warnings(policy),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "IPAddress",
        prefix: "/registry/ipaddresses/",
        rules: Rules { name: NameRule::Address, ..Rules::COMMON },
        validate: validate_address,
        validate_update: validate_address_update,
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "ServiceCIDR",
        prefix: "/registry/servicecidrs/",
        subresources: &["status"],
        rules: Rules { metadata: MetadataRule::CHANGES, resets: Resets::BARE_STATUS, ..Rules::WITH_STATUS },
        validate_create: validate_ranges,
        validate_update: validate_ranges_update,
        ..BASE
    },
];

// === ingresses ===

fn validate_ingress(ingress: &Value, errors: &mut Errors) {
    let nothing = json!({});
    let spec = ingress.at(&["spec"]).unwrap_or(&nothing);
    let rules = spec.items(&["rules"]);
    let backend = spec.at(&["defaultBackend"]);
    if rules.is_empty() && backend.is_none() {
        let shown = spec.at(&["rules"]).unwrap_or(&Value::Null);
        errors.invalid(&SPEC, shown, "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = backend {
        validate_backend(backend, &SPEC.child("defaultBackend"), errors);
    }
    let list = SPEC.child("rules");
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(rule, &list.index(index), errors);
    }
    let list = SPEC.child("tls");
    for (index, tls) in spec.items(&["tls"]).iter().enumerate() {
        let place = list.index(index);
        let hosts = place.child("hosts");
        for (index, host) in tls.items(&["hosts"]).iter().enumerate() {
            validate_host(host.as_str().unwrap_or_default(), &hosts.index(index), errors);
        }
        let secret = tls.text(&["secretName"]);
        if !secret.is_empty() {
            errors.invalid_each(&place.child("secretName"), secret, dns_subdomain(secret));
        }
    }
    if let Some(class) = spec.at(&["ingressClassName"]).and_then(Value::as_str) {
        errors.invalid_each(&SPEC.child("ingressClassName"), class, dns_subdomain(class));
    }
}

fn validate_host(host: &str, path: &Path<'_>, errors: &mut Errors) {
    errors.invalid_each(path, host, if host.contains('*') { wildcard_subdomain(host) } else { dns_subdomain(host) });
}

fn validate_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let host = rule.text(&["host"]);
    if !host.is_empty() {
        let place = path.child("host");
        if parse_address(host).is_some() {
            errors.invalid(&place, host, "must be a DNS name, not an IP address");
        }
        validate_host(host, &place, errors);
    }
    let Some(http) = rule.at(&["http"]) else { return };
    let http_path = path.child("http");
    let list = http_path.child("paths");
    let paths = http.items(&["paths"]);
    if paths.is_empty() {
        errors.required(&list, "");
    }
    for (index, path) in paths.iter().enumerate() {
        validate_http_path(path, &list.index(index), errors);
    }
}

fn validate_http_path(path: &Value, place: &Path<'_>, errors: &mut Errors) {
    let Some(kind) = path.at(&["pathType"]).and_then(Value::as_str) else {
        return errors.required(&place.child("pathType"), "pathType must be specified");
    };
    let text = path.text(&["path"]);
    let field = place.child("path");
    match kind {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.invalid(&field, text, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| text.contains(**part)) {
                errors.invalid(&field, text, &format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].iter().filter(|end| text.ends_with(**end)) {
                errors.invalid(&field, text, &format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                errors.invalid(&field, text, "must be an absolute path");
            }
        }
        other => {
            errors.unsupported(&place.child("pathType"), other, &["Exact", "ImplementationSpecific", "Prefix"]);
        }
    }
    let nothing = Value::Null;
    validate_backend(path.at(&["backend"]).unwrap_or(&nothing), &place.child("backend"), errors);
}

fn validate_backend(backend: &Value, path: &Path<'_>, errors: &mut Errors) {
    let service = match (backend.at(&["resource"]), backend.at(&["service"])) {
        (Some(_), Some(_)) => return errors.invalid(path, "", "cannot set both resource and service backends"),
        (None, None) => return errors.invalid(path, "", "resource or service backend is required"),
        (Some(resource), None) => return validate_reference(resource, &path.child("resource"), errors),
        (None, Some(service)) => service,
    };
    let place = path.child("service");
    let name = service.text(&["name"]);
    if name.is_empty() {
        errors.required(&place.child("name"), "");
    } else {
        errors.invalid_each(&place.child("name"), name, dns_label(name));
    }
    let (name, number) = (service.text(&["port", "name"]), service.int(&["port", "number"]).unwrap_or_default());
    match (name, number) {
        ("", 0) => errors.required(path, "port name or number is required"),
        ("", number) => in_port_range(number, &place.child("port.number"), errors),
        (name, 0) => errors.invalid_each(&place.child("port.name"), name, port_name(name)),
        _ => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

/// Validates a reference to an object of any group.
fn validate_reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = reference.at(&["apiGroup"]).and_then(Value::as_str) {
        errors.invalid_each(&path.child("apiGroup"), group, dns_subdomain(group));
    }
    for field in ["kind", "name"] {
        validate_segment(reference, field, path, errors);
    }
}

fn validate_segment(value: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    match value.text(&[field]) {
        "" => errors.required(&path.child(field), ""),
        text => errors.invalid_each(&path.child(field), text, path_segment(text)),
    }
}

fn validate_class_annotation(ingress: &Value, errors: &mut Errors) {
    let annotation = ingress.at(&["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str);
    let class = ingress.at(&["spec", "ingressClassName"]).and_then(Value::as_str);
    if let (Some(annotation), Some(class)) = (annotation, class)
        && annotation != class
    {
        let path = Path::new("annotations");
        let text = "must match `ingressClassName` when both are specified";
        errors.invalid(&path.child(CLASS_ANNOTATION), annotation, text);
    }
}

fn validate_ingress_status(new: &Value, old: &Value, errors: &mut Errors) {
    let before: HashSet<&str> =
        old.items(&["status", "loadBalancer", "ingress"]).iter().map(|ingress| ingress.text(&["ip"])).collect();
    let list = Path::new("status.loadBalancer.ingress");
    for (index, ingress) in new.items(&["status", "loadBalancer", "ingress"]).iter().enumerate() {
        let place = list.index(index);
        let (ip, host) = (ingress.text(&["ip"]), ingress.text(&["hostname"]));
        let accepted = ip.is_empty() || before.contains(ip);
        if let Some(problem) = address_problem(ip).filter(|_| !accepted) {
            errors.invalid(&place.child("ip"), ip, problem);
        }
        if !host.is_empty() {
            errors.invalid_each(&place.child("hostname"), host, dns_subdomain(host));
            if parse_address(host).is_some() {
                errors.invalid(&place.child("hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
}

fn validate_ingress_class(class: &Value, errors: &mut Errors) {
    let path = SPEC.child("controller");
    let controller = class.text(&["spec", "controller"]);
    if controller.len() > 250 {
        errors.too_long(&path, 250);
    }
    validate_domain_prefixed(controller, &path, errors);
    let Some(parameters) = class.at(&["spec", "parameters"]) else { return };
    let path = SPEC.child("parameters");
    validate_reference(parameters, &path, errors);
    let place = path.child("namespace");
    let namespace = parameters.at(&["namespace"]).and_then(Value::as_str);
    match (parameters.text(&["scope"]), namespace) {
        ("Namespace", None) => errors.required(&place, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => errors.invalid_each(&place, namespace, dns_label(namespace)),
        ("Cluster", Some(_)) => errors.forbidden(&place, "`parameters.scope` is set to 'Cluster'"),
        ("Cluster", None) => {}
        (other, _) => errors.unsupported(&path.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

// === network policies ===

fn default_policy(policy: &mut Value) {
    let Some(spec) = entry_mut(policy, "spec") else { return };
    for direction in ["ingress", "egress"] {
        for rule in items_mut(spec, direction) {
            for port in items_mut(rule, "ports") {
                default_pointer(as_object(port), "protocol", "TCP");
            }
        }
    }
    if spec.items(&["policyTypes"]).is_empty() {
        let both = !spec.items(&["egress"]).is_empty();
        let types = if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        as_object(spec).insert("policyTypes".to_owned(), types);
    }
}

/// The directions of a policy's rules, and the fields of their peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// Returns the CIDR ranges in a policy. Ranges that have been accepted before remain valid.
fn ranges_of(policy: &Value) -> HashSet<&str> {
    let mut ranges = HashSet::new();
    for (direction, peers) in DIRECTIONS {
        for peer in policy.items(&["spec", direction]).iter().flat_map(|rule| rule.items(&[peers])) {
            ranges.insert(peer.text(&["ipBlock", "cidr"]));
            ranges.extend(peer.items(&["ipBlock", "except"]).iter().filter_map(Value::as_str));
        }
    }
    ranges
}

fn validate_policy(policy: &Value, accepted: &HashSet<&str>, errors: &mut Errors) {
    let nothing = json!({});
    let spec = policy.at(&["spec"]).unwrap_or(&nothing);
    validate_selector(spec.at(&["podSelector"]), &SPEC.child("podSelector"), errors);
    for (direction, peers) in DIRECTIONS {
        let list = SPEC.child(direction);
        for (index, rule) in spec.items(&[direction]).iter().enumerate() {
            let place = list.index(index);
            let ports = place.child("ports");
            for (index, port) in rule.items(&["ports"]).iter().enumerate() {
                validate_policy_port(port, &ports.index(index), errors);
            }
            let list = place.child(peers);
            for (index, peer) in rule.items(&[peers]).iter().enumerate() {
                validate_peer(peer, accepted, &list.index(index), errors);
            }
        }
    }
    let list = SPEC.child("policyTypes");
    let types = spec.items(&["policyTypes"]);
    if types.len() > 2 {
        return errors.invalid(&list, &spec["policyTypes"], "may not specify more than two policyTypes");
    }
    for (index, kind) in types.iter().enumerate() {
        if *kind != "Ingress" && *kind != "Egress" {
            errors.unsupported(&list.index(index), kind, &["Ingress", "Egress"]);
        }
    }
}

fn validate_policy_port(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    crate::kinds::pod_spec::one_of(port, "protocol", &["TCP", "UDP", "SCTP"], path, errors);
    let (end, end_path) = (port.int(&["endPort"]), path.child("endPort"));
    match port.at(&["port"]) {
        None => {
            if let Some(end) = end {
                errors.invalid(&end_path, &end, "may not be specified when `port` is not specified");
            }
        }
        Some(Value::String(name)) => {
            if let Some(end) = end {
                errors.invalid(&end_path, &end, "may not be specified when `port` is non-numeric");
            }
            errors.invalid_each(&path.child("port"), name, port_name(name));
        }
        Some(number) => {
            let number = number.as_i64().unwrap_or_default();
            in_port_range(number, &path.child("port"), errors);
            if let Some(end) = end {
                if end < number {
                    errors.invalid(&end_path, &number, "must be greater than or equal to `port`");
                }
                in_port_range(end, &end_path, errors);
            }
        }
    }
}

fn validate_peer(peer: &Value, accepted: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let mut peers = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = peer.at(&[field]) {
            peers += 1;
            validate_selector(Some(selector), &path.child(field), errors);
        }
    }
    match peer.at(&["ipBlock"]) {
        Some(block) => {
            validate_block(block, accepted, &path.child("ipBlock"), errors);
            if peers > 0 {
                errors.forbidden(path, "may not specify both ipBlock and another peer");
            }
        }
        None if peers == 0 => errors.required(path, "must specify a peer"),
        None => {}
    }
}

fn validate_block(block: &Value, accepted: &HashSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let cidr = block.text(&["cidr"]);
    if cidr.is_empty() {
        return errors.required(&path.child("cidr"), "");
    }
    let strict = |text: &str| range_problem(text).filter(|_| !accepted.contains(text));
    if let Some(problem) = strict(cidr) {
        errors.invalid(&path.child("cidr"), cidr, problem);
    }
    let Some(range) = Range::parse(cidr) else { return };
    let list = path.child("except");
    for (index, except) in block.items(&["except"]).iter().enumerate() {
        let text = except.as_str().unwrap_or_default();
        if let Some(problem) = strict(text) {
            errors.invalid(&list.index(index), text, problem);
        }
        if Range::parse(text).is_some_and(|except| !range.encloses(except)) {
            errors.invalid(&list.index(index), text, "must be a strict subset of `cidr`");
        }
    }
}

fn policy_warnings(policy: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for (rule_index, rule) in policy.items(&["spec", direction]).iter().enumerate() {
            for (index, peer) in rule.items(&[peers]).iter().enumerate() {
                let place = format!("spec.{direction}[{rule_index}].{peers}[{index}].ipBlock");
                let cidr = peer.text(&["ipBlock", "cidr"]);
                warnings.extend(Range::warnings(&format!("{place}.cidr"), cidr));
                for (index, except) in peer.items(&["ipBlock", "except"]).iter().enumerate() {
                    let except = except.as_str().unwrap_or_default();
                    warnings.extend(Range::warnings(&format!("{place}.except[{index}]"), except));
                }
            }
        }
    }
    warnings
}

// === addresses of services ===

fn validate_address(address: &Value, errors: &mut Errors) {
    let path = SPEC.child("parentRef");
    let Some(parent) = address.at(&["spec", "parentRef"]) else { return errors.required(&path, "") };
    let group = parent.text(&["group"]);
    if !group.is_empty() {
        errors.invalid_each(&path.child("group"), group, dns_subdomain(group));
    }
    for field in ["resource", "name"] {
        validate_segment(parent, field, &path, errors);
    }
    let namespace = parent.text(&["namespace"]);
    errors.invalid_each(&path.child("namespace"), namespace, path_segment(namespace));
}

fn validate_address_update(new: &Value, old: &Value, errors: &mut Errors) {
    let parent = |address: &Value| address.at(&["spec", "parentRef"]).cloned();
    if !same(parent(new).as_ref(), parent(old).as_ref()) {
        // The value is shown with Go's field names.
        let text = |field: &str| new.text(&["spec", "parentRef", field]);
        let shown = json!({
            "Group": text("group"), "Resource": text("resource"), "Namespace": text("namespace"), "Name": text("name"),
        });
        errors.invalid(&SPEC.child("parentRef"), &shown, "field is immutable");
    }
}

fn validate_ranges(cidr: &Value, errors: &mut Errors) {
    let list = SPEC.child("cidrs");
    let ranges = cidr.items(&["spec", "cidrs"]);
    let shown = Value::Array(ranges.to_vec());
    if ranges.is_empty() {
        return errors.required(&list, "at least one CIDR required");
    }
    if ranges.len() > 2 {
        return errors.invalid(&list, &json!({"CIDRs": shown}), "may only hold up to 2 values");
    }
    for (index, range) in ranges.iter().enumerate() {
        let text = range.as_str().unwrap_or_default();
        errors.invalid_each(&list.index(index), text, ip_range(text));
    }
    let families: Vec<bool> =
        ranges.iter().filter_map(|range| Range::parse(range.as_str()?)).map(Range::is_ipv4).collect();
    if matches!(families[..], [a, b] if a == b) {
        let text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(&list, &shown, text);
    }
}

fn validate_ranges_update(new: &Value, old: &Value, errors: &mut Errors) {
    const FIXED: &str = "field is immutable";
    let list = SPEC.child("cidrs");
    let (now, before) = (new.items(&["spec", "cidrs"]), old.items(&["spec", "cidrs"]));
    match (before.len(), now.len()) {
        (a, b) if a == b => {
            for (index, range) in now.iter().enumerate().filter(|(index, range)| before[*index] != **range) {
                errors.invalid(&list.index(index), range, FIXED);
            }
        }
        (1, 2) => {
            if now[0] != before[0] {
                errors.invalid(&list.index(0), &now[0], FIXED);
            }
            validate_ranges(new, errors);
        }
        _ => errors.invalid(&list, &Value::Array(now.to_vec()), FIXED),
    }
}
