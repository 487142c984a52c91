//! The cells of the group `networking.k8s.io`, and of endpoint slices.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{age, first_three, items, name, selector, text};

pub(super) fn ingress_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = match &class["spec"]["parameters"] {
        Value::Object(parameters) => {
            let kind = text(&parameters["kind"]);
            let kind = match parameters.get("apiGroup").map(text) {
                Some(group) => format!("{kind}.{group}"),
                None => kind.to_owned(),
            };
            format!("{kind}/{}", text(&parameters["name"]))
        }
        _ => "<none>".to_owned(),
    };
    vec![name(class), text(&class["spec"]["controller"]).into(), parameters.into(), age(class, now)]
}

pub(super) fn ingress(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &ingress["spec"];
    let hosts = items(&spec["rules"]).iter().map(|rule| text(&rule["host"]).to_owned());
    let hosts = hosts.filter(|host| !host.is_empty()).collect::<Vec<_>>();
    let addresses = items(&ingress["status"]["loadBalancer"]["ingress"]).iter();
    let addresses = addresses.map(|ingress| match text(&ingress["ip"]) {
        "" => text(&ingress["hostname"]),
        ip => ip,
    });
    let addresses = addresses.filter(|address| !address.is_empty()).collect::<BTreeSet<_>>();
    vec![
        name(ingress),
        spec["ingressClassName"].as_str().unwrap_or("<none>").into(),
        if hosts.is_empty() { "*".into() } else { first_three(&hosts).into() },
        addresses.into_iter().collect::<Vec<_>>().join(",").into(),
        if items(&spec["tls"]).is_empty() { "80".into() } else { "80, 443".into() },
        age(ingress, now),
    ]
}

pub(super) fn policy(policy: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(policy), selector(&policy["spec"]["podSelector"]), age(policy, now)]
}

/// Returns the cells of an IP address. As in kube-apiserver, the age has no column.
pub(super) fn address(address: &Value, now: Timestamp) -> Vec<Value> {
    let parent = &address["spec"]["parentRef"];
    let parent = if parent.is_object() {
        let resource = match text(&parent["group"]) {
            "" => text(&parent["resource"]).to_lowercase(),
            group => format!("{}.{group}", text(&parent["resource"])).to_lowercase(),
        };
        match text(&parent["namespace"]) {
            "" => format!("{resource}/{}", text(&parent["name"])),
            namespace => format!("{resource}/{namespace}/{}", text(&parent["name"])),
        }
    } else {
        "<none>".to_owned()
    };
    vec![name(address), parent.into(), age(address, now)]
}

pub(super) fn service_range(range: &Value, now: Timestamp) -> Vec<Value> {
    let ranges = items(&range["spec"]["cidrs"]).iter().map(text).collect::<Vec<_>>();
    vec![name(range), ranges.join(",").into(), age(range, now)]
}

pub(super) fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let ports = items(&slice["ports"]).iter().map(|port| match &port["port"] {
        Value::Number(number) => number.to_string(),
        _ => port["name"].as_str().unwrap_or("*").to_owned(),
    });
    let ports = ports.collect::<Vec<_>>();
    let addresses = items(&slice["endpoints"]).iter().flat_map(|endpoint| items(&endpoint["addresses"]));
    let addresses = addresses.map(|address| text(address).to_owned()).collect::<Vec<_>>();
    let unset =
        |all: &[String]| if all.join(",").is_empty() { "<unset>".into() } else { Value::from(first_three(all)) };
    vec![name(slice), text(&slice["addressType"]).into(), unset(&ports), unset(&addresses), age(slice, now)]
}
