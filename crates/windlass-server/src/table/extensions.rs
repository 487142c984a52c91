//! The cells of kinds that extend, secure and schedule the server.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    cells::{Printer, age, int, items, name, none_if_empty, parse_timestamp, text, time_since},
    duration,
};

/// Returns the printer of a kind in these groups.
pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    Some(match (group, plural) {
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => {
            |policy, now| policy_cells(policy, "validations", now)
        }
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => {
            |policy, now| policy_cells(policy, "mutations", now)
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings") => {
            binding
        }
        ("apiregistration.k8s.io", "apiservices") => api_service,
        ("certificates.k8s.io", "certificatesigningrequests") => signing_request,
        ("certificates.k8s.io", "clustertrustbundles") => {
            |bundle, _| vec![name(bundle), none_if_empty(text(&bundle["spec"]["signerName"]))]
        }
        ("certificates.k8s.io", "podcertificaterequests") => |request, _| pod_certificate_request(request),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow_schema,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => priority_level,
        ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => {
            |object, now| vec![name(object), age(object, now)]
        }
        ("resource.k8s.io", "devicetaintrules") => taint_rule,
        ("resource.k8s.io", "resourceclaims") => {
            |claim, now| vec![name(claim), claim_state(claim).into(), age(claim, now)]
        }
        ("resource.k8s.io", "resourceslices") => slice,
        ("storagemigration.k8s.io", "storageversionmigrations") => |migration, _| storage_migration(migration),
        _ => return None,
    })
}

/// Returns the cells of a CRD since 1.37. Older versions print its name and time.
pub(super) fn custom_resource_definition(crd: &Value) -> Vec<Value> {
    let spec = &crd["spec"];
    let versions = items(&spec["versions"]).iter().filter(|version| version["served"] == true);
    let mut versions: Vec<String> = versions
        .map(|version| {
            format!("{}{}", text(&version["name"]), if version["storage"] == true { "(storage)" } else { "" })
        })
        .collect();
    versions.sort_unstable();
    let short_names: Vec<&str> = items(&spec["names"]["shortNames"]).iter().map(text).collect();
    let is_established = items(&crd["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    vec![
        name(crd),
        text(&spec["scope"]).into(),
        versions.join(",").into(),
        crd["metadata"]["creationTimestamp"].as_str().unwrap_or("0001-01-01T00:00:00Z").into(),
        text(&spec["group"]).into(),
        text(&spec["names"]["kind"]).into(),
        short_names.join(",").into(),
        is_established.into(),
    ]
}

fn pod_certificate_request(request: &Value) -> Vec<Value> {
    let spec = &request["spec"];
    let mut kinds = items(&request["status"]["conditions"]).iter().map(|condition| text(&condition["type"]));
    let state = kinds.rfind(|kind| matches!(*kind, "Issued" | "Denied" | "Failed")).unwrap_or("Pending");
    let mut cells = vec![name(request)];
    cells.extend(
        ["podName", "serviceAccountName", "nodeName", "signerName"].map(|field| Value::from(text(&spec[field]))),
    );
    cells.push(state.into());
    let annotations = spec["unverifiedUserAnnotations"].as_object().into_iter().flatten();
    let mut annotations: Vec<String> = annotations.map(|(key, value)| format!("{key}={}", text(value))).collect();
    annotations.sort_unstable();
    cells.push(none_if_empty(&annotations.join(",")));
    cells
}

fn taint_rule(rule: &Value, now: Timestamp) -> Vec<Value> {
    let taint = &rule["spec"]["taint"];
    let since = parse_timestamp(&taint["timeAdded"]).map(|added| time_since(Some(added), now)).unwrap_or_default();
    let mut cells = vec![name(rule)];
    cells.extend(["key", "value", "effect"].map(|field| Value::from(text(&taint[field]))));
    cells.extend([Value::from(since), age(rule, now)]);
    cells
}

fn storage_migration(migration: &Value) -> Vec<Value> {
    let resource = &migration["spec"]["resource"];
    let resource = match (text(&resource["resource"]), text(&resource["group"])) {
        (plural, "") => plural.to_owned(),
        (plural, group) => format!("{plural}.{group}"),
    };
    let conditions = items(&migration["status"]["conditions"]).iter().filter(|condition| condition["status"] == "True");
    let kinds = conditions.map(|condition| text(&condition["type"]));
    let state = kinds.rev().find(|kind| matches!(*kind, "Running" | "Failed" | "Succeeded")).unwrap_or("Unknown");
    vec![name(migration), resource.into(), state.into()]
}

/// Returns the sort key of a kind's rows, if they are not in list order.
pub(super) fn order(group: &str, plural: &str) -> Option<fn(&Value) -> i64> {
    let is_flow_schema = group == "flowcontrol.apiserver.k8s.io" && plural == "flowschemas";
    is_flow_schema.then_some(|schema| schema["spec"]["matchingPrecedence"].as_i64().unwrap_or_default())
}

fn policy_cells(policy: &Value, list: &str, now: Timestamp) -> Vec<Value> {
    let spec = &policy["spec"];
    let kind = match &spec["paramKind"] {
        Value::Object(kind) => {
            let part = |field: &str| kind.get(field).map(text).unwrap_or_default().to_owned();
            format!("{}/{}", part("apiVersion"), part("kind"))
        }
        _ => "<unset>".to_owned(),
    };
    vec![name(policy), items(&spec[list]).len().into(), kind.into(), age(policy, now)]
}

fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &binding["spec"];
    let reference = &spec["paramRef"];
    let parameter = match (text(&reference["namespace"]), text(&reference["name"])) {
        (_, "") if reference["selector"].is_object() => go_selector(&reference["selector"]),
        (_, "") => "<unset>".to_owned(),
        // The scope of the parameter is not known here.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![name(binding), text(&spec["policyName"]).into(), parameter.into(), age(binding, now)]
}

/// Formats a label selector as Go does.
fn go_selector(selector: &Value) -> String {
    let mut labels: Vec<(&String, &Value)> = selector["matchLabels"].as_object().into_iter().flatten().collect();
    labels.sort_by_key(|(key, _)| *key);
    let labels: String = labels.into_iter().map(|(key, value)| format!("{key}: {},", text(value))).collect();
    let expression = |expression: &Value| {
        let values: Vec<&str> = items(&expression["values"]).iter().map(text).collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text(&expression["key"]),
            text(&expression["operator"]),
            values.join(" ")
        )
    };
    let expressions: String = items(&selector["matchExpressions"]).iter().map(expression).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn api_service(registration: &Value, now: Timestamp) -> Vec<Value> {
    let service = match &registration["spec"]["service"] {
        service @ Value::Object(_) => format!("{}/{}", text(&service["namespace"]), text(&service["name"])),
        _ => "Local".to_owned(),
    };
    let conditions = items(&registration["status"]["conditions"]);
    let available = conditions.iter().find(|condition| text(&condition["type"]) == "Available");
    let available = available.map_or_else(
        || "Unknown".to_owned(),
        |condition| match (text(&condition["status"]), text(&condition["reason"])) {
            ("True", _) => "True".to_owned(),
            (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    vec![name(registration), service.into(), available.into(), age(registration, now)]
}

fn signing_request(request: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&request["spec"], &request["status"]);
    let has = |kind: &str| items(&status["conditions"]).iter().any(|condition| text(&condition["type"]) == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    let lifetime = match spec["expirationSeconds"].as_i64() {
        Some(seconds) => duration::format_millis(seconds.saturating_mul(1000)),
        None => "<none>".to_owned(),
    };
    let signer = none_if_empty(text(&spec["signerName"]));
    vec![name(request), age(request, now), signer, text(&spec["username"]).into(), lifetime.into(), state.into()]
}

fn flow_schema(schema: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &schema["spec"];
    let conditions = items(&schema["status"]["conditions"]);
    let dangling = conditions.iter().find(|condition| text(&condition["type"]) == "Dangling");
    vec![
        name(schema),
        text(&spec["priorityLevelConfiguration"]["name"]).into(),
        spec["matchingPrecedence"].as_i64().unwrap_or_default().into(),
        spec["distinguisherMethod"]["type"].as_str().unwrap_or("<none>").into(),
        age(schema, now),
        dangling.map_or("?", |condition| text(&condition["status"])).into(),
    ]
}

fn priority_level(level: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &level["spec"];
    let number = |value: &Value| value.as_i64().map_or_else(|| Value::from("<none>"), Value::from);
    let limited = &spec["limited"];
    let queuing = &limited["limitResponse"]["queuing"];
    vec![
        name(level),
        text(&spec["type"]).into(),
        number(&limited["nominalConcurrencyShares"]),
        number(&queuing["queues"]),
        number(&queuing["handSize"]),
        number(&queuing["queueLengthLimit"]),
        age(level, now),
    ]
}

fn claim_state(claim: &Value) -> String {
    let deleted = claim["metadata"].get("deletionTimestamp").is_some();
    let mut states = Vec::new();
    if deleted {
        states.push("deleted");
    }
    if claim["status"]["allocation"].is_object() {
        states.push("allocated");
        if !items(&claim["status"]["reservedFor"]).is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    states.join(",")
}

fn slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &slice["spec"];
    vec![
        name(slice),
        text(&spec["nodeName"]).into(),
        text(&spec["driver"]).into(),
        text(&spec["pool"]["name"]).into(),
        age(slice, now),
    ]
}

pub(super) fn role_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let (mut users, mut groups, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    for subject in items(&binding["subjects"]) {
        let name = text(&subject["name"]);
        match text(&subject["kind"]) {
            "User" => users.push(name.to_owned()),
            "Group" => groups.push(name.to_owned()),
            "ServiceAccount" => accounts.push(format!("{}/{name}", text(&subject["namespace"]))),
            _ => {}
        }
    }
    let role = &binding["roleRef"];
    vec![
        name(binding),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        age(binding, now),
        users.join(", ").into(),
        groups.join(", ").into(),
        accounts.join(", ").into(),
    ]
}

pub(super) fn priority_class(class: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(class),
        int(&class["value"]),
        (class["globalDefault"] == true).into(),
        age(class, now),
        text(&class["preemptionPolicy"]).into(),
    ]
}
