//! The cells of the core group, except workloads and volumes, and of events.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{
    age, first_three, items, labels, length, name, none_if_empty, number, parse_timestamp, text, time_since,
};

pub(super) fn component_status(component: &Value, _now: Timestamp) -> Vec<Value> {
    let nothing = Value::Null;
    let healthy = items(&component["conditions"]).iter().find(|condition| condition["type"] == "Healthy");
    let state = match healthy.map(|condition| text(&condition["status"])) {
        None => "Unknown",
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
    };
    let healthy = healthy.unwrap_or(&nothing);
    vec![name(component), state.into(), text(&healthy["message"]).into(), text(&healthy["error"]).into()]
}

pub(super) fn config_map(map: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(map), (length(&map["data"]) + length(&map["binaryData"])).into(), age(map, now)]
}

pub(super) fn secret(secret: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(secret), text(&secret["type"]).into(), length(&secret["data"]).into(), age(secret, now)]
}

pub(super) fn namespace(namespace: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(namespace), text(&namespace["status"]["phase"]).into(), age(namespace, now)]
}

pub(super) fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let status = &node["status"];
    let mut readiness =
        vec![match items(&status["conditions"]).iter().find(|condition| condition["type"] == "Ready") {
            Some(ready) if ready["status"] == "True" => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        }];
    if node["spec"]["unschedulable"] == true {
        readiness.push("SchedulingDisabled");
    }
    let roles = node["metadata"]["labels"].as_object().into_iter().flatten().filter_map(|(key, value)| {
        if key == "kubernetes.io/role" { value.as_str() } else { key.strip_prefix("node-role.kubernetes.io/") }
    });
    let roles = roles.filter(|role| !role.is_empty()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
    let address = |kind: &str| {
        let found = items(&status["addresses"]).iter().find(|address| address["type"] == kind);
        found.map_or_else(|| "<none>".into(), |address| address["address"].clone())
    };
    let info = &status["nodeInfo"];
    let known = |text: &str| if text.is_empty() { "<unknown>".into() } else { Value::from(text) };
    let kernel = match (text(&info["kernelVersion"]), text(&info["architecture"])) {
        (kernel, architecture) if !kernel.is_empty() && !architecture.is_empty() => {
            format!("{kernel} ({architecture})")
        }
        (kernel, _) => kernel.to_owned(),
    };
    vec![
        name(node),
        readiness.join(",").into(),
        none_if_empty(&roles.join(",")),
        age(node, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        known(text(&info["osImage"])),
        known(&kernel),
        known(text(&info["containerRuntimeVersion"])),
    ]
}

pub(super) fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    let external = items(&spec["externalIPs"]).iter().map(text).collect::<Vec<_>>().join(",");
    let external = match text(&spec["type"]) {
        "ExternalName" => text(&spec["externalName"]).into(),
        "LoadBalancer" => {
            let ingress = items(&service["status"]["loadBalancer"]["ingress"]).iter();
            let balancers = ingress.map(|ingress| match text(&ingress["ip"]) {
                "" => text(&ingress["hostname"]),
                ip => ip,
            });
            let mut all =
                balancers.filter(|ip| !ip.is_empty()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
            if !external.is_empty() {
                all.push(&external);
            }
            if all.is_empty() { "<pending>".into() } else { all.join(",").into() }
        }
        "ClusterIP" | "NodePort" => none_if_empty(&external),
        _ => "<unknown>".into(),
    };
    let ports = items(&spec["ports"]).iter().map(|port| {
        let (number, protocol) = (&port["port"], text(&port["protocol"]));
        match port["nodePort"].as_i64() {
            Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    vec![
        name(service),
        text(&spec["type"]).into(),
        none_if_empty(text(&spec["clusterIPs"][0])),
        external,
        none_if_empty(&ports.collect::<Vec<_>>().join(",")),
        age(service, now),
        labels(&spec["selector"]),
    ]
}

pub(super) fn endpoints(endpoints: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in items(&endpoints["subsets"]) {
        let ports = items(&subset["ports"]);
        for address in items(&subset["addresses"]) {
            let ip = text(&address["ip"]);
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.iter().map(|port| {
                if ip.contains(':') { format!("[{ip}]:{}", port["port"]) } else { format!("{ip}:{}", port["port"]) }
            }));
        }
    }
    vec![name(endpoints), none_if_empty(&first_three(&all)), age(endpoints, now)]
}

pub(super) fn core_event(event: &Value, now: Timestamp) -> Vec<Value> {
    let fields = EventFields {
        first: &event["firstTimestamp"],
        last: &event["lastTimestamp"],
        count: &event["count"],
        about: &event["involvedObject"],
        source: &event["source"],
        controller: text(&event["reportingComponent"]),
        message: text(&event["message"]),
    };
    event_cells(event, &fields, now)
}

/// The event fields with different names in the two groups.
struct EventFields<'v> {
    first: &'v Value,
    last: &'v Value,
    count: &'v Value,
    about: &'v Value,
    source: &'v Value,
    controller: &'v str,
    message: &'v str,
}

fn event_cells(event: &Value, fields: &EventFields<'_>, now: Timestamp) -> Vec<Value> {
    let first = time_since(parse_timestamp(fields.first).or_else(|| parse_timestamp(&event["eventTime"])), now);
    let series = &event["series"];
    let (last, count) = if series.is_object() {
        (time_since(parse_timestamp(&series["lastObservedTime"]), now), number(&series["count"]))
    } else {
        let last = parse_timestamp(fields.last).map_or_else(|| first.clone(), |last| time_since(Some(last), now));
        (last, number(fields.count).max(1))
    };
    let kind = text(&fields.about["kind"]).to_lowercase();
    let about = match text(&fields.about["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let or = |text: &'_ str, other: &'_ str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
    let component = or(text(&fields.source["component"]), fields.controller);
    let source = match or(text(&fields.source["host"]), text(&event["reportingInstance"])) {
        host if host.is_empty() => component,
        host => format!("{component}, {host}"),
    };
    vec![
        last.into(),
        text(&event["type"]).into(),
        text(&event["reason"]).into(),
        about.into(),
        text(&fields.about["fieldPath"]).into(),
        source.into(),
        fields.message.trim().into(),
        first.into(),
        count.into(),
        name(event),
    ]
}

pub(super) fn resource_quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let status = &quota["status"];
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let mut hard = status["hard"].as_object().into_iter().flatten().collect::<Vec<_>>();
    hard.sort_by_key(|(resource, _)| *resource);
    for (resource, hard) in hard {
        let used = status["used"][resource].as_str().unwrap_or("0");
        let of = if resource.starts_with("limits") { &mut limits } else { &mut requests };
        of.push(format!("{resource}: {used}/{}", text(hard)));
    }
    vec![name(quota), requests.join(", ").into(), limits.join(", ").into(), age(quota, now)]
}
