//! The kind NetworkPolicy.

use std::collections::HashSet;

use crate::kinds::{prelude::*, selector::validate_selector};

/// The directions of a policy's rules, and the fields of their peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

pub(super) const KIND: Kind = Kind {
    name: "NetworkPolicy",
    rules: Rules { metadata: MetadataRule::CHANGES, generation: Generation::Spec, ..Rules::COMMON },
    default,
    validate_create: |policy, errors| validate_policy(&policy.child("spec"), &HashSet::new(), errors),
    validate_update: |new, old, errors| validate_policy(&new.child("spec"), &ranges_of(old.json()), errors),
    warnings,
    ..BASE
};

fn default(policy: &mut Value) {
    let Some(spec) = entry_mut(policy, "spec") else { return };
    for (direction, _) in DIRECTIONS {
        change_each(spec, &format!("{direction}.*.ports.*"), |port| default_pointer(port, "protocol", "TCP"));
    }
    if spec.items(&["policyTypes"]).is_empty() {
        let has_egress = !spec.items(&["egress"]).is_empty();
        let types = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        as_object(spec).insert("policyTypes".to_owned(), types);
    }
}

fn warnings(policy: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
    let policy = Field::object(policy);
    let spec = policy.child("spec");
    for (direction, peers) in DIRECTIONS {
        for rule in spec.child(direction).items() {
            for peer in rule.child(peers).items() {
                let (cidr, except) = (peer.child("ipBlock.cidr"), peer.child("ipBlock.except"));
                for range in std::iter::once(cidr).chain(except.items()) {
                    warnings.extend(Range::warnings(&range.path().to_string(), range.text()));
                }
            }
        }
    }
}

/// Returns the CIDR ranges in a policy. Ranges that were accepted before remain valid.
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

/// Validates the spec of a policy. `accepted` are the ranges of the old policy.
fn validate_policy(spec: &Field<'_>, accepted: &HashSet<&str>, errors: &mut Errors) {
    validate_selector(&spec.child("podSelector"), errors);
    for (direction, peers) in DIRECTIONS {
        for rule in spec.child(direction).items() {
            rule.child("ports").each(validate_port, errors);
            rule.child(peers).each(|peer, errors| validate_peer(peer, accepted, errors), errors);
        }
    }
    let types = spec.child("policyTypes");
    if types.len() > 2 {
        return types.invalid("may not specify more than two policyTypes", errors);
    }
    for kind in types.items().filter(|kind| !["Ingress", "Egress"].contains(&kind.text())) {
        kind.unsupported(&["Ingress", "Egress"], errors);
    }
}

fn validate_port(port: &Field<'_>, errors: &mut Errors) {
    port.child("protocol").one_of(&["TCP", "UDP", "SCTP"], errors);
    let (start, end) = (port.child("port"), port.child("endPort"));
    match start.value() {
        None => {
            if end.is_set() {
                end.invalid("may not be specified when `port` is not specified", errors);
            }
        }
        Some(Value::String(name)) => {
            if end.is_set() {
                end.invalid("may not be specified when `port` is non-numeric", errors);
            }
            start.invalid_each(port_name(name), errors);
        }
        Some(number) => {
            start.in_range(1, 65535, errors);
            if end.int().is_some_and(|end| end < number.as_i64().unwrap_or_default()) {
                // Before 1.37, the real server shows `port` instead of `endPort`.
                let shown = if errors.kubernetes() < KubernetesVersion::V1_37 { number } else { end.json() };
                end.invalid_as(shown, "must be greater than or equal to `port`", errors);
            }
            end.in_range(1, 65535, errors);
        }
    }
}

fn validate_peer(peer: &Field<'_>, accepted: &HashSet<&str>, errors: &mut Errors) {
    let mut has_selector = false;
    for name in ["podSelector", "namespaceSelector"] {
        let selector = peer.child(name);
        has_selector |= selector.is_set();
        validate_selector(&selector, errors);
    }
    let block = peer.child("ipBlock");
    if block.is_set() {
        validate_ip_block(&block, accepted, errors);
        if has_selector {
            peer.forbidden("may not specify both ipBlock and another peer", errors);
        }
    } else if !has_selector {
        peer.required("must specify a peer", errors);
    }
}

fn validate_ip_block(block: &Field<'_>, accepted: &HashSet<&str>, errors: &mut Errors) {
    let cidr = block.child("cidr");
    if cidr.is_empty() {
        return cidr.required("", errors);
    }
    validate_range(&cidr, accepted, errors);
    let Some(range) = Range::parse(cidr.text()) else { return };
    for except in block.child("except").items() {
        validate_range(&except, accepted, errors);
        if Range::parse(except.text()).is_some_and(|except| !range.encloses(except)) {
            except.invalid("must be a strict subset of `cidr`", errors);
        }
    }
}

fn validate_range(range: &Field<'_>, accepted: &HashSet<&str>, errors: &mut Errors) {
    if let Some(problem) = range_problem(errors.kubernetes(), range.text()).filter(|_| !accepted.contains(range.text()))
    {
        range.invalid(problem, errors);
    }
}
