//! The normal form of an end state, without the parts that differ from run to run, and the mask learned from runs
//! without faults.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_api::difference::{differences, starred_path};
use windlass_controllers::{BuiltIn, Controllers};

use crate::{
    patterns::Patterns,
    record::{CONFLICT, ObjectName, Record},
};

mod names;

pub(crate) use names::{Names, TIME};

/// The objects by name. Generated parts of names are replaced by a star, so several objects may have the same name.
pub(crate) type Normal = BTreeMap<ObjectName, Vec<Value>>;

/// The parts of end states that differ between runs without faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mask {
    /// The fields that differ, by object. List indexes are `*`. A path covers everything below it.
    pub fields: BTreeMap<ObjectName, BTreeSet<String>>,
    /// The objects whose number differs.
    pub objects: BTreeSet<ObjectName>,
}

/// The derived resources that are compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Derived(BTreeSet<&'static str>);

/// Resources that record the activity of the cluster, or that built-in controllers derive from others. Their number, names
/// and content depend on the timing, on the addresses that the cluster assigns, or, as the history of templates, on the
/// states that the program has seen. The cluster creates an `APIService` for each version of a CRD, possibly later than
/// the program starts.
const IGNORED: [&str; 8] = [
    "apiservices.apiregistration.k8s.io",
    REVISIONS,
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    ENDPOINTS,
    SLICES,
    "ipaddresses.networking.k8s.io",
];
/// Ignored resources that built-in controllers derive from others, with these controllers. If the cluster runs none of
/// them, the program has to derive the objects, and their content at the end is compared. They are still recreated as
/// often as the timing requires.
const DERIVED: [(&str, &[BuiltIn]); 3] = [
    (REVISIONS, &[BuiltIn::StatefulSet, BuiltIn::DaemonSet]),
    (ENDPOINTS, &[BuiltIn::Endpoints]),
    (SLICES, &[BuiltIn::EndpointSlice, BuiltIn::EndpointSliceMirroring]),
];
const REVISIONS: &str = "controllerrevisions.apps";
const ENDPOINTS: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The time of the change that endpoints reflect. It is missing after a change of several pods or of none.
const TRIGGER: &str = "/metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time";
/// Fields of metadata that record the history of an object, not its state.
const HISTORY: [&str; 6] = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];
/// Fields that are not compared, by resource: most have values that the cluster assigns. Revisions count the states that
/// controllers have seen, and a program may skip one.
const ASSIGNED: [(&str, &[&str]); 9] = [
    // Examples of names in their schemas would be taken for names of objects.
    ("customresourcedefinitions.apiextensions.k8s.io", &["/spec/versions"]),
    (REVISIONS, &["/revision"]),
    ("deployments.apps", &["/metadata/annotations/deployment.kubernetes.io~1revision"]),
    (
        "replicasets.apps",
        &[
            "/metadata/annotations/deployment.kubernetes.io~1revision",
            "/metadata/annotations/deployment.kubernetes.io~1revision-history",
        ],
    ),
    (ENDPOINTS, &[TRIGGER]),
    (SLICES, &[TRIGGER]),
    ("pods", &["/spec/nodeName", "/status/hostIP", "/status/hostIPs"]),
    ("services", &["/spec/healthCheckNodePort"]),
    ("persistentvolumeclaims", &["/metadata/annotations/volume.kubernetes.io~1selected-node"]),
];

/// The path of the conditions of an object.
const CONDITIONS: &str = "status/conditions";

/// Returns `true` if the object is not compared, unless it is [derived](Derived) by the program.
pub(crate) fn is_ignored(object: &ObjectName) -> bool {
    IGNORED.contains(&object.resource.as_str()) || is_bootstrap(object)
}

/// Returns `true` if the control plane creates the object at its start or in each namespace. The time of the creation,
/// and dates, addresses and certificates in it, differ from run to run.
pub(crate) fn is_bootstrap(object: &ObjectName) -> bool {
    match (object.resource.as_str(), object.name.as_str()) {
        ("configmaps", "kube-root-ca.crt") | ("serviceaccounts", "default") => true,
        ("services" | ENDPOINTS | SLICES, "kubernetes") => object.namespace == "default",
        // It contains the date.
        ("configmaps", "kube-apiserver-legacy-service-account-token-tracking") => object.namespace == "kube-system",
        _ => false,
    }
}

/// Returns the normal form of the end state of a run.
pub(crate) fn normal(record: &Record, names: &Names, derived: &Derived) -> Normal {
    let mut normal = Normal::new();
    for (name, object) in record.end.iter().filter(|(name, _)| !is_ignored(name) || derived.contains(name)) {
        let mut object = Value::clone(object);
        let generation = object["metadata"]["generation"].as_i64();
        strip(&name.resource, &mut object);
        replace(&mut object, names, generation);
        sort_endpoints(&name.resource, &mut object);
        normal.entry(names.pattern(name)).or_default().push(object);
    }
    for alike in normal.values_mut() {
        alike.sort_by_cached_key(ToString::to_string);
    }
    normal
}

impl Derived {
    /// Selects the derived resources whose controllers the cluster does not run.
    pub(crate) fn without(controllers: &Controllers) -> Self {
        let is_provided = |of: &[BuiltIn]| !of.iter().any(|controller| controllers.contains(*controller));
        Self(DERIVED.iter().filter(|(_, of)| is_provided(of)).map(|(resource, _)| *resource).collect())
    }

    fn contains(&self, object: &ObjectName) -> bool {
        self.0.contains(object.resource.as_str()) && !is_bootstrap(object)
    }
}

/// Sorts the endpoints, whose order is that of assigned addresses or generated names, and removes their nodes, which the
/// cluster assigns.
fn sort_endpoints(resource: &str, object: &mut Value) {
    let lists: Vec<&mut Value> = match resource {
        SLICES => object.get_mut("endpoints").into_iter().collect(),
        ENDPOINTS => {
            let subsets = object.get_mut("subsets").and_then(Value::as_array_mut).into_iter().flatten();
            let fields = subsets.filter_map(Value::as_object_mut).flat_map(|subset| subset.values_mut());
            fields.collect()
        }
        _ => return,
    };
    for list in lists.into_iter().filter_map(Value::as_array_mut) {
        for endpoint in list.iter_mut().filter_map(Value::as_object_mut) {
            for assigned in ["nodeName", "zone", "hints"] {
                endpoint.remove(assigned);
            }
        }
        list.sort_by_cached_key(ToString::to_string);
    }
}

/// Removes the fields that record the history of an object, and those that the cluster assigns.
fn strip(resource: &str, object: &mut Value) {
    for (_, pointers) in ASSIGNED.iter().filter(|(of, _)| *of == resource) {
        for pointer in *pointers {
            remove(object, pointer);
        }
    }
    if resource == "services"
        && let Some(Value::Array(ports)) = object.pointer_mut("/spec/ports")
    {
        for port in &mut *ports {
            remove(port, "/nodePort");
        }
        // The order has no meaning, and programs that keep ports in a map change it.
        ports.sort_by_cached_key(ToString::to_string);
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        for field in HISTORY {
            metadata.remove(field);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(CONFLICT);
        }
        // A field that was added and removed again can leave an empty map.
        metadata.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
}

fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(fields)) = object.pointer_mut(parent) {
        fields.remove(&field.replace("~1", "/"));
    }
}

/// Replaces the names, UIDs, addresses, times and versions in a value.
fn replace(value: &mut Value, names: &Names, generation: Option<i64>) {
    match value {
        Value::String(text) => {
            if let Some(replaced) = names.replaced(text) {
                *text = replaced;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, names, generation)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == "observedGeneration" && field.is_i64() {
                    let is_current = field.as_i64() == generation;
                    *field = if is_current { "the current one" } else { "an older one" }.into();
                } else if name == "resourceVersion" && field.is_string() {
                    // The resource version in a reference to another object.
                    *field = "a version".into();
                } else {
                    replace(field, names, generation);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns `true` if several conditions have the same type.
fn has_history(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut types = BTreeSet::new();
    let mut types_of = conditions.into_iter().flatten().filter_map(|condition| condition["type"].as_str());
    !types_of.all(|name| types.insert(name))
}

impl Mask {
    /// Adds the differences of two runs without faults.
    pub(crate) fn learn(&mut self, one: &Normal, other: &Normal) {
        let none = Vec::new();
        for name in one.keys().chain(other.keys()) {
            let (a, b) = (one.get(name).unwrap_or(&none), other.get(name).unwrap_or(&none));
            if a.len() != b.len() {
                self.objects.insert(name.clone());
                continue;
            }
            for difference in a.iter().zip(b).flat_map(|(a, b)| differences(a, b)) {
                self.fields.entry(name.clone()).or_default().insert(starred_path(&difference.path));
            }
        }
    }

    /// Adds the conditions of each object that had two conditions of one type during the run. Its program keeps a history
    /// in them, which contains errors that are over. Returns `true` if an object is new.
    pub(crate) fn learn_histories(&mut self, record: &Record, patterns: &Patterns) -> bool {
        let states = record.changes.iter().filter_map(|change| Some((&change.object, change.after.as_deref()?)));
        let histories: BTreeSet<_> = states.filter(|(_, state)| has_history(state)).map(|(object, _)| object).collect();
        if histories.is_empty() {
            return false;
        }
        let names = Names::new(record, patterns);
        let mut is_new = false;
        for object in histories {
            is_new |= self.fields.entry(names.pattern(object)).or_default().insert(CONDITIONS.to_owned());
        }
        is_new
    }

    /// Returns `true` if the path, or a path above it, is masked.
    pub(crate) fn covers(&self, object: &ObjectName, path: &str) -> bool {
        let Some(masked) = self.fields.get(object) else { return false };
        let path = starred_path(path);
        let is_above = |above: &String| path.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('/'));
        masked.contains(&path) || masked.iter().any(is_above)
    }

    /// Returns `true` if no part is masked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.objects.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exploration::simulated::{Builder, ended_with, object};

    const UID: &str = "0c4be7b6-1d63-4a4c-bd8b-9d2b4aa7a3f1";
    const OTHER: &str = "ffffe7b6-1d63-4a4c-bd8b-9d2b4aa7a3f1";

    fn state(suffix: &str, uid: &str, time: &str, address: &str) -> Normal {
        let name = format!("web-{suffix}");
        let pod = json!({
            "metadata": {"name": name, "generateName": "web-", "uid": uid, "resourceVersion": suffix, "generation": 3,
                "creationTimestamp": time, "managedFields": [{"time": time}], "labels": {}},
            "spec": {"nodeName": suffix},
            "status": {"since": time, "observedGeneration": 3, "message": format!("{name} is ready"),
                "podIP": address, "podIPs": [{"ip": address}], "active": [{"name": name, "resourceVersion": suffix}]},
        });
        let config = json!({"metadata": {"name": "a", "ownerReferences": [{"uid": uid, "name": name}]},
            "data": {"address": address, "volume": format!("pvc-{uid}")}, "status": {"observedGeneration": 1}});
        let event = json!({"metadata": {"name": suffix}});
        let record = ended_with([
            (object(&format!("pods/default/{name}")), pod),
            (object("configmaps/default/a"), config),
            (object(&format!("events/default/{suffix}")), event),
            (object("configmaps/default/kube-root-ca.crt"), json!({"data": suffix})),
            (
                object("configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking"),
                json!({"data": {"since": suffix}}),
            ),
            (object(&format!("apiservices.apiregistration.k8s.io/{suffix}")), json!({"metadata": {"name": suffix}})),
            (object(&format!("ipaddresses.networking.k8s.io/{address}")), json!({"metadata": {"name": address}})),
        ]);
        normal(&record, &Names::new(&record, &Patterns::default()), &Derived::default())
    }

    #[test]
    fn run_specific_values_are_replaced() {
        let one = state("abcde", UID, "2026-01-01T00:00:00Z", "10.0.0.1");
        let other = state("vwxyz", OTHER, "2026-02-02T00:00:00Z", "10.0.0.9");
        assert_eq!(one, other);
        assert_eq!(one.len(), 2, "events and objects of the control plane are not compared");
        let pod = &one[&object("pods/default/web-*")][0];
        let expected = json!({"since": "a time", "observedGeneration": "the current one", "message": "web-* is ready",
            "podIP": "the address of pods/default/web-*", "podIPs": [{"ip": "the address of pods/default/web-*"}],
            "active": [{"name": "web-*", "resourceVersion": "a version"}]});
        assert_eq!(pod["status"], expected);
        assert_eq!(pod["metadata"], json!({"name": "web-*", "generateName": "web-"}));
        let config = &one[&object("configmaps/default/a")][0];
        assert_eq!(config["metadata"]["ownerReferences"][0]["uid"], "the UID of pods/default/web-*");
        assert_eq!(config["data"]["volume"], "pvc-*");
        assert_eq!(config["status"]["observedGeneration"], "an older one");
    }

    #[test]
    fn numbers_of_revisions_are_removed() {
        let state = |revision: &str| {
            let annotations = json!({"deployment.kubernetes.io/revision": revision, "note": "kept"});
            let record = ended_with([
                (object("deployments.apps/default/a"), json!({"metadata": {"annotations": annotations}})),
                (object("controllerrevisions.apps/default/a"), json!({"revision": revision.parse::<u8>().unwrap()})),
            ]);
            let derived = Derived::without(&"*,-statefulset,-daemonset".parse().unwrap());
            normal(&record, &Names::new(&record, &Patterns::default()), &derived)
        };
        assert_eq!(state("1").len(), 2);
        assert_eq!(state("1"), state("2"));
        assert_eq!(
            state("1")[&object("deployments.apps/default/a")][0]["metadata"]["annotations"],
            json!({"note": "kept"})
        );
    }

    #[test]
    fn conditions_that_are_a_history_are_masked() {
        let learned = |types: &[&str]| {
            let conditions: Vec<_> = types.iter().map(|name| json!({"type": name, "status": "True"})).collect();
            let mut run = Builder::new();
            run.program("create dbs.example.com/default/a", Some(json!({"status": {"conditions": conditions}})));
            // The history is lost at the end.
            run.program("update dbs.example.com/default/a", Some(json!({"status": {}})));
            let (mut mask, patterns) = (Mask::default(), Patterns::default());
            let is_new = mask.learn_histories(&run.record, &patterns);
            assert!(!is_new || !mask.learn_histories(&run.record, &patterns), "it is known");
            (is_new, mask.covers(&object("dbs.example.com/default/a"), "status/conditions/0/message"))
        };
        assert_eq!(learned(&["Ready", "Error", "Ready"]), (true, true));
        // The types of conditions are unique, except in a history.
        assert_eq!(learned(&["Ready", "Error"]), (false, false));
    }

    #[test]
    fn token_volumes_do_not_determine_the_order_of_pods() {
        let state = |volumes: [&str; 2]| {
            let pods = volumes.iter().zip(["a", "b"]).map(|(volume, node)| {
                let metadata = json!({"name": format!("web-{volume}"), "generateName": "web-"});
                let spec = json!({"volumes": [{"name": format!("kube-api-access-{volume}")}], "zone": node});
                (object(&format!("pods/default/web-{volume}")), json!({"metadata": metadata, "spec": spec}))
            });
            let record = ended_with(pods);
            normal(&record, &Names::new(&record, &Patterns::default()), &Derived::default())
        };
        assert_eq!(state(["abcde", "vwxyz"]), state(["vwxyz", "abcde"]));
        assert_eq!(state(["abcde", "vwxyz"]).values().next().unwrap().len(), 2);
    }

    #[test]
    fn order_of_service_ports_is_ignored() {
        let state = |ports: Value| {
            let record = ended_with([(object("services/default/a"), json!({"spec": {"ports": ports}}))]);
            normal(&record, &Names::new(&record, &Patterns::default()), &Derived::default())
        };
        let one = json!([{"port": 1, "nodePort": 30_001}, {"port": 2, "nodePort": 30_002}]);
        assert_eq!(state(one), state(json!([{"port": 2, "nodePort": 30_001}, {"port": 1, "nodePort": 30_009}])));
    }

    #[test]
    fn endpoints_are_compared_unless_the_cluster_derives_them() {
        let state = |[first, second]: [&str; 2], controllers: &str| {
            let name = |suffix: &str| format!("web-{suffix}");
            let pod = |suffix: &str, address: &str| {
                let metadata = json!({"name": name(suffix), "generateName": "web-"});
                (
                    object(&format!("pods/default/web-{suffix}")),
                    json!({"metadata": metadata, "status": {"podIPs": [{"ip": address}]}}),
                )
            };
            let endpoint = |suffix: &str, address: &str, node: &str| json!({"addresses": [address], "nodeName": node, "targetRef": {"name": name(suffix)}});
            let ready = |suffix: &str, address: &str| json!({"ip": address, "nodeName": suffix, "targetRef": {"name": name(suffix)}});
            let annotations = json!({"endpoints.kubernetes.io/last-change-trigger-time": first});
            let slice = json!({"metadata": {"generateName": "web-", "annotations": annotations},
                "endpoints": [endpoint(first, "10.1.0.1", "a"), endpoint(second, "10.1.0.2", "b")]});
            let subsets =
                json!([{"addresses": [ready(first, "10.1.0.1"), ready(second, "10.1.0.2")], "ports": [{"port": 80}]}]);
            let record = ended_with([
                pod(first, "10.1.0.1"),
                pod(second, "10.1.0.2"),
                (object("endpointslices.discovery.k8s.io/default/web-slice"), slice),
                (object("endpointslices.discovery.k8s.io/default/kubernetes"), json!({"endpoints": first})),
                (object("endpoints/default/web"), json!({"subsets": subsets})),
                (object("endpoints/default/kubernetes"), json!({"subsets": first})),
            ]);
            let derived = Derived::without(&controllers.parse().unwrap());
            normal(&record, &Names::new(&record, &Patterns::default()), &derived)
        };
        let resources = |state: &Normal| state.keys().map(|object| object.resource.clone()).collect::<Vec<_>>();
        let (one, other) = (["abcde", "vwxyz"], ["zzzzz", "bbbbb"]);
        assert_eq!(resources(&state(one, "*")), ["pods"]);
        assert_eq!(resources(&state(one, "*,-endpointslice")), ["pods"], "the cluster still mirrors endpoints");
        assert_eq!(resources(&state(one, "*,-endpoints")), ["endpoints", "pods"]);
        let none = state(one, "none");
        assert_eq!(resources(&none), ["endpoints", "endpointslices.discovery.k8s.io", "pods"]);
        assert_eq!(none, state(other, "none"));
        let expected = json!({"ip": "the address of pods/default/web-*", "targetRef": {"name": "web-*"}});
        assert_eq!(none[&object("endpoints/default/web")][0]["subsets"][0]["addresses"], json!([expected, expected]));
    }

    #[test]
    fn uids_of_deleted_objects_differ_from_those_of_existing_ones() {
        let one = ended_with([(object("configmaps/default/a"), json!({"data": {"owner": UID}}))]);
        let normal = normal(&one, &Names::new(&one, &Patterns::default()), &Derived::default());
        assert_eq!(normal[&object("configmaps/default/a")][0]["data"]["owner"], "the UID of another object");
    }

    #[test]
    fn short_names_are_not_replaced_in_uids() {
        let pod = json!({"metadata": {"generateName": "db-", "name": "db-4"}});
        let run = ended_with([(object("pods/default/db-4"), pod)]);
        let names = Names::new(&run, &Patterns::default());
        assert_eq!(names.starred("pvc-e59511db-4298-47b6-929f-d5f775afd69a of db-4"), "pvc-* of db-*");
    }

    #[test]
    fn mask_covers_differences_of_runs_without_faults() {
        let end = |token: &str, extra: bool| {
            let objects = [
                (object("secrets/default/a"), json!({"data": {"token": token}, "list": [{"x": token, "y": 1}]})),
                (object("configmaps/default/b"), json!({})),
            ];
            let record = ended_with(objects.into_iter().take(if extra { 2 } else { 1 }));
            normal(&record, &Names::new(&record, &Patterns::default()), &Derived::default())
        };
        let mut mask = Mask::default();
        mask.learn(&end("s3cr3t", true), &end("0th3r", false));
        let secret = object("secrets/default/a");
        assert_eq!(mask.objects, [object("configmaps/default/b")].into());
        assert_eq!(mask.fields[&secret], ["data/token".to_owned(), "list/*/x".to_owned()].into());
        assert!(mask.covers(&secret, "list/7/x") && mask.covers(&secret, "data/token/below"));
        assert!(!mask.covers(&secret, "list/7/y") && !mask.covers(&secret, "data/token2"));
    }
}
