//! The cells of built-in kinds, and what they share.
//!
//! A printer also gets bookmarks, which are objects with next to nothing in them: every field may be missing.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windlass_api::{LabelSelector, Operator, Requirement, parse_time};

use super::{autoscaling, duration, extensions, networking, pods, storage};

/// Makes the cells of one object, one per recorded column.
pub(super) type Printer = fn(&Value, Timestamp) -> Vec<Value>;

/// The printer of a kind, in any version of its group.
pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    Some(match (group, plural) {
        ("", "componentstatuses") => component_status,
        ("", "configmaps") => config_map,
        ("", "endpoints") => endpoints,
        ("" | "events.k8s.io", "events") => core_event,
        ("", "namespaces") => namespace,
        ("", "nodes") => node,
        ("", "persistentvolumeclaims") => persistent_volume_claim,
        ("", "persistentvolumes") => persistent_volume,
        ("", "pods") => pods::cells,
        ("", "podtemplates") => pod_template,
        ("", "replicationcontrollers") => replication_controller,
        ("", "resourcequotas") => resource_quota,
        ("", "secrets") => secret,
        ("", "serviceaccounts") => name_and_age,
        ("", "services") => service,
        ("apps", "controllerrevisions") => controller_revision,
        ("apps", "daemonsets") => daemon_set,
        ("apps", "deployments") => deployment,
        ("apps", "replicasets") => replica_set,
        ("apps", "statefulsets") => stateful_set,
        ("batch", "cronjobs") => cron_job,
        ("batch", "jobs") => job,
        ("coordination.k8s.io", "leases") => {
            |lease, now| vec![name(lease), text(&lease["spec"]["holderIdentity"]).into(), age(lease, now)]
        }
        ("discovery.k8s.io", "endpointslices") => endpoint_slice,
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::autoscaler,
        ("networking.k8s.io", "ingressclasses") => networking::ingress_class,
        ("networking.k8s.io", "ingresses") => networking::ingress,
        ("networking.k8s.io", "ipaddresses") => networking::address,
        ("networking.k8s.io", "networkpolicies") => networking::policy,
        ("networking.k8s.io", "servicecidrs") => networking::service_range,
        ("node.k8s.io", "runtimeclasses") => {
            |class, now| vec![name(class), text(&class["handler"]).into(), age(class, now)]
        }
        ("policy", "poddisruptionbudgets") => disruption_budget,
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => role_binding,
        ("scheduling.k8s.io", "priorityclasses") => priority_class,
        ("storage.k8s.io", "csidrivers") => storage::driver,
        ("storage.k8s.io", "csinodes") => storage::node,
        ("storage.k8s.io", "storageclasses") => storage::storage_class,
        ("storage.k8s.io", "volumeattachments") => storage::attachment,
        ("storage.k8s.io", "volumeattributesclasses") => storage::attributes_class,
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            |hooks, now| vec![name(hooks), items(&hooks["webhooks"]).len().into(), age(hooks, now)]
        }
        _ => return extensions::printer(group, plural),
    })
}

// === what printers share ===

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

/// How long ago the object was created.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    ago(moment(&object["metadata"]["creationTimestamp"]), now).into()
}

/// How long ago something was.
pub(super) fn ago(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(|| "<unknown>".to_owned(), |then| duration::since(then, now))
}

/// The time in a field, if there is one.
pub(super) fn moment(value: &Value) -> Option<Timestamp> {
    parse_time(value.as_str()?).ok()
}

/// The text in a field; empty if there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items in a field.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// One text field of each item.
pub(super) fn list<'v>(items: impl IntoIterator<Item = &'v Value>, field: &str) -> Vec<&'v str> {
    items.into_iter().map(|item| text(&item[field])).collect()
}

/// `<none>` instead of nothing.
pub(super) fn none_if_empty(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

pub(super) fn int(value: &Value) -> Value {
    number(value).into()
}

fn length(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

/// `a=b,c=d` by key, or `<none>`.
fn labels(map: &Value) -> Value {
    let mut pairs =
        map.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>();
    pairs.sort();
    none_if_empty(&pairs.join(","))
}

/// A structured label selector, or `<none>`.
pub(super) fn selector(selector: &Value) -> Value {
    none_if_empty(&selector_text(selector))
}

fn selector_text(selector: &Value) -> String {
    let mut requirements = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        requirements.push(Requirement::new(key, Operator::Equals, [text(value)]));
    }
    for expression in items(&selector["matchExpressions"]) {
        let operator = match text(&expression["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return "<error>".to_owned(),
        };
        let values = items(&expression["values"]).iter().map(text);
        requirements.push(Requirement::new(text(&expression["key"]), operator, values));
    }
    LabelSelector::new(requirements).to_string()
}

/// Names and images of a pod template's containers.
fn containers(template: &Value) -> [Value; 2] {
    let containers = items(&template["spec"]["containers"]);
    [list(containers, "name").join(",").into(), list(containers, "image").join(",").into()]
}

/// The first three, and how many more there are.
pub(super) fn first_three(all: &[String]) -> String {
    match all {
        [_, _, _, more @ ..] if !more.is_empty() => format!("{} + {} more...", all[..3].join(","), more.len()),
        _ => all.join(","),
    }
}

fn is_true(conditions: &Value, kind: &str) -> bool {
    items(conditions).iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// A number or a text, as a text.
fn int_or_string(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `True`, `False` or `<unset>`.
fn flag(value: &Value) -> Value {
    match value {
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        _ => "<unset>".into(),
    }
}

// === the core group ===

fn component_status(component: &Value, _now: Timestamp) -> Vec<Value> {
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

fn config_map(map: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(map), (length(&map["data"]) + length(&map["binaryData"])).into(), age(map, now)]
}

fn secret(secret: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(secret), text(&secret["type"]).into(), length(&secret["data"]).into(), age(secret, now)]
}

fn namespace(namespace: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(namespace), text(&namespace["status"]["phase"]).into(), age(namespace, now)]
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
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

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
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

fn endpoints(endpoints: &Value, now: Timestamp) -> Vec<Value> {
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

fn core_event(event: &Value, now: Timestamp) -> Vec<Value> {
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

/// The fields that have different names in the two groups.
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
    let first = ago(moment(fields.first).or_else(|| moment(&event["eventTime"])), now);
    let series = &event["series"];
    let (last, count) = if series.is_object() {
        (ago(moment(&series["lastObservedTime"]), now), number(&series["count"]))
    } else {
        let last = moment(fields.last).map_or_else(|| first.clone(), |last| ago(Some(last), now));
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

fn pod_template(template: &Value, _now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(&template["template"]);
    vec![name(template), names, images, labels(&template["template"]["metadata"]["labels"])]
}

fn replication_controller(controller: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&controller["spec"], &controller["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(controller),
        int(&spec["replicas"]),
        int(&status["replicas"]),
        int(&status["readyReplicas"]),
        age(controller, now),
        names,
        images,
        labels(&spec["selector"]),
    ]
}

fn resource_quota(quota: &Value, now: Timestamp) -> Vec<Value> {
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

fn access_modes(modes: &Value) -> String {
    let short = |mode: &Value| match text(mode) {
        "ReadWriteOnce" => Some("RWO"),
        "ReadOnlyMany" => Some("ROX"),
        "ReadWriteMany" => Some("RWX"),
        "ReadWriteOncePod" => Some("RWOP"),
        _ => None,
    };
    items(modes).iter().filter_map(short).collect::<Vec<_>>().join(",")
}

/// The class of a volume or claim: that of the annotation of old, if there is one.
fn volume_class(object: &Value) -> Value {
    let annotation = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    annotation.as_str().unwrap_or_else(|| text(&object["spec"]["storageClassName"])).into()
}

fn persistent_volume_claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let phase =
        if claim["metadata"].get("deletionTimestamp").is_some() { "Terminating" } else { text(&status["phase"]) };
    let bound = !text(&spec["volumeName"]).is_empty();
    vec![
        name(claim),
        phase.into(),
        text(&spec["volumeName"]).into(),
        if bound { text(&status["capacity"]["storage"]).into() } else { "".into() },
        if bound { access_modes(&status["accessModes"]).into() } else { "".into() },
        volume_class(claim),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        age(claim, now),
        spec["volumeMode"].as_str().unwrap_or("<unset>").into(),
    ]
}

fn persistent_volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&volume["spec"], &volume["status"]);
    let phase =
        if volume["metadata"].get("deletionTimestamp").is_some() { "Terminating" } else { text(&status["phase"]) };
    let claim = match &spec["claimRef"] {
        Value::Object(claim) => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
        _ => String::new(),
    };
    vec![
        name(volume),
        text(&spec["capacity"]["storage"]).into(),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase.into(),
        claim.into(),
        volume_class(volume),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        text(&status["reason"]).into(),
        age(volume, now),
        spec["volumeMode"].as_str().unwrap_or("<unset>").into(),
    ]
}

// === workloads ===

fn deployment(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(deployment),
        format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"])).into(),
        int(&status["updatedReplicas"]),
        int(&status["availableReplicas"]),
        age(deployment, now),
        names,
        images,
        // Of all kinds this one alone leaves the cell of an empty selector empty.
        selector_text(&spec["selector"]).into(),
    ]
}

fn replica_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(set),
        int(&spec["replicas"]),
        int(&status["replicas"]),
        int(&status["readyReplicas"]),
        age(set, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

fn stateful_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]);
    let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
    vec![name(set), ready.into(), age(set, now), names, images]
}

fn daemon_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(set),
        int(&status["desiredNumberScheduled"]),
        int(&status["currentNumberScheduled"]),
        int(&status["numberReady"]),
        int(&status["updatedNumberScheduled"]),
        int(&status["numberAvailable"]),
        labels(&spec["template"]["spec"]["nodeSelector"]),
        age(set, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

fn controller_revision(revision: &Value, now: Timestamp) -> Vec<Value> {
    let owners = items(&revision["metadata"]["ownerReferences"]);
    let controller = owners.iter().find(|owner| owner["controller"] == true).map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
            let kind = text(&owner["kind"]).to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(&owner["name"]))
        },
    );
    vec![name(revision), controller.into(), int(&revision["revision"]), age(revision, now)]
}

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let took = moment(&status["startTime"])
        .map(|start| duration::since(start, moment(&status["completionTime"]).unwrap_or(now)))
        .unwrap_or_default();
    let conditions = &status["conditions"];
    let deleting = job["metadata"].get("deletionTimestamp").is_some();
    let state = match () {
        () if is_true(conditions, "Complete") => "Complete",
        () if is_true(conditions, "Failed") => "Failed",
        () if deleting => "Terminating",
        () if is_true(conditions, "Suspended") => "Suspended",
        () if is_true(conditions, "FailureTarget") => "FailureTarget",
        () if is_true(conditions, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let [names, images] = containers(&spec["template"]);
    vec![
        name(job),
        state.into(),
        completions.into(),
        took.into(),
        age(job, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

fn cron_job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let [names, images] = containers(&spec["jobTemplate"]["spec"]["template"]);
    vec![
        name(job),
        text(&spec["schedule"]).into(),
        spec["timeZone"].as_str().unwrap_or("<none>").into(),
        flag(&spec["suspend"]),
        items(&status["active"]).len().into(),
        moment(&status["lastScheduleTime"]).map_or_else(|| "<none>".into(), |last| ago(Some(last), now).into()),
        age(job, now),
        names,
        images,
        selector(&spec["jobTemplate"]["spec"]["selector"]),
    ]
}

// === other groups ===

fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let ports = items(&slice["ports"]).iter().map(|port| match &port["port"] {
        Value::Number(number) => number.to_string(),
        _ => port["name"].as_str().unwrap_or("*").to_owned(),
    });
    let ports = ports.collect::<Vec<_>>();
    let addresses = items(&slice["endpoints"]).iter().flat_map(|endpoint| items(&endpoint["addresses"]));
    let addresses = addresses.map(|address| text(address).to_owned()).collect::<Vec<_>>();
    let unset = |all: &[String]| if all.is_empty() { "<unset>".into() } else { Value::from(first_three(all)) };
    vec![name(slice), text(&slice["addressType"]).into(), unset(&ports), unset(&addresses), age(slice, now)]
}

fn disruption_budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &budget["spec"];
    let bound = |field: &str| match &spec[field] {
        Value::Null => "N/A".into(),
        value => Value::from(int_or_string(value)),
    };
    vec![
        name(budget),
        bound("minAvailable"),
        bound("maxUnavailable"),
        int(&budget["status"]["disruptionsAllowed"]),
        age(budget, now),
    ]
}

fn role_binding(binding: &Value, now: Timestamp) -> Vec<Value> {
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

fn priority_class(class: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(class),
        int(&class["value"]),
        (class["globalDefault"] == true).into(),
        age(class, now),
        text(&class["preemptionPolicy"]).into(),
    ]
}
