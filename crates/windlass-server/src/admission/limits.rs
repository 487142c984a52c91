//! The plugin `LimitRanger`: defaults and limits for pods and claims from the limit ranges of their namespace.

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    kinds::{add_amounts, amount},
    object::{Tree, as_object, items_mut, metadata_mut, object_mut},
    registry::Registry,
    resource::{Item, Target},
};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets default requests and limits of containers, and rejects values out of range.
#[derive(Debug)]
pub(crate) struct LimitRanges;

/// An object that a limit range constrains: a container, a pod or a claim.
struct Measured<'v> {
    kind: &'static str,
    requests: &'v Value,
    limits: &'v Value,
}

impl Admission for LimitRanges {
    fn handles(&self, write: &Attributes) -> bool {
        if !write.resource.group.is_empty() || write.operation == Operation::Delete {
            return false;
        }
        match (&*write.resource.kind, write.subresource.as_deref()) {
            ("Pod", None) => write.operation == Operation::Create,
            ("Pod", Some("resize")) | ("PersistentVolumeClaim", None) => true,
            _ => false,
        }
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.resource.kind != "Pod" {
                return Ok(());
            }
            for range in ranges(registry, &write.namespace).await? {
                apply_defaults(&mut write.object, &range);
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            for range in ranges(registry, &write.namespace).await? {
                let problems = match write.resource.kind.as_str() {
                    "Pod" => pod_problems(&write.object, &range),
                    _ => claim_problems(&write.object, &range),
                };
                match problems.as_slice() {
                    [] => {}
                    [only] => return Err(write.forbidden(only)),
                    several => return Err(write.forbidden(format!("[{}]", several.join(", ")))),
                }
            }
            Ok(())
        })
    }
}

async fn ranges(registry: &Registry, namespace: &str) -> Result<Vec<Value>, Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get("", "v1", "limitranges") else { return Ok(Vec::new()) };
    let ranges = registry.peek_all(&Target::collection(resource, Some(namespace))).await?;
    Ok(ranges.iter().map(Item::value).collect())
}

/// Sets the defaults of a limit range in containers that do not set them, and records this in an annotation.
fn apply_defaults(pod: &mut Value, range: &Value) {
    let of = |field: &str| -> Map<String, Value> {
        let path = [field];
        let limits = range.items(&["spec", "limits"]).iter().filter(|limit| limit.text(&["type"]) == "Container");
        limits.flat_map(|limit| limit.entries(&path)).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let defaults = [("request", "requests", of("defaultRequest")), ("limit", "limits", of("default"))];
    let mut notes = Vec::new();
    for (list, noun) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(spec) = pod.get_mut("spec") else { return };
        for container in items_mut(spec, list) {
            let name = container.text(&["name"]).to_owned();
            for (what, field, defaults) in &defaults {
                let resources =
                    as_object(object_mut(container, "resources").entry(*field).or_insert_with(|| json!({})));
                let mut set: Vec<&str> = Vec::new();
                for (resource, amount) in defaults {
                    if !resources.contains_key(resource) {
                        resources.insert(resource.clone(), amount.clone());
                        set.push(resource);
                    }
                }
                if !set.is_empty() {
                    set.sort_unstable();
                    notes.push(format!("{} {what} for {noun} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let annotations = as_object(metadata_mut(pod).entry("annotations").or_insert_with(|| json!({})));
        annotations.insert(ANNOTATION.to_owned(), format!("LimitRanger plugin set: {}", notes.join("; ")).into());
    }
}

fn pod_problems(pod: &Value, range: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for limit in range.items(&["spec", "limits"]) {
        match limit.text(&["type"]) {
            "Container" => {
                for container in pod.items(&["spec", "containers"]).iter().chain(pod.items(&["spec", "initContainers"]))
                {
                    let of = |field: &str| container.at(&["resources", field]).unwrap_or(&Value::Null);
                    let measured = Measured { kind: "Container", requests: of("requests"), limits: of("limits") };
                    measured.check(limit, &mut problems);
                }
            }
            "Pod" => {
                let (requests, limits) = (total(pod, "requests"), total(pod, "limits"));
                Measured { kind: "Pod", requests: &requests, limits: &limits }.check(limit, &mut problems);
            }
            _ => {}
        }
    }
    problems
}

fn claim_problems(claim: &Value, range: &Value) -> Vec<String> {
    let requests = claim.at(&["spec", "resources", "requests"]).unwrap_or(&Value::Null);
    let mut problems = Vec::new();
    for limit in range.items(&["spec", "limits"]) {
        if limit.text(&["type"]) == "PersistentVolumeClaim" {
            // A claim has no limits: its requests are compared with both minimum and maximum.
            let measured = Measured { kind: "PersistentVolumeClaim", requests, limits: &Value::Null };
            measured.check_min(limit, &mut problems);
            measured.check_request_max(limit, &mut problems);
        }
    }
    problems
}

/// Returns the total requests or limits of a pod's containers.
fn total(pod: &Value, field: &str) -> Value {
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    let containers = spec.items(&["containers"]).iter().chain(spec.items(&["initContainers"]));
    let path = ["resources", field];
    let names = containers.flat_map(|container| container.entries(&path)).map(|(name, _)| name.clone());
    let mut all = Map::new();
    for name in names {
        if let Some(amount) = add_amounts(spec, field, &name) {
            all.insert(name, amount.into());
        }
    }
    for (name, amount) in
        spec.entries(&["resources", field]).filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"))
    {
        all.insert(name.clone(), amount.clone());
    }
    Value::Object(all)
}

impl Measured<'_> {
    fn check(&self, range: &Value, problems: &mut Vec<String>) {
        self.check_min(range, problems);
        self.check_max(range, problems);
        self.check_ratio(range, problems);
    }

    fn check_min(&self, range: &Value, problems: &mut Vec<String>) {
        for (name, min) in range.entries(&["min"]) {
            let min = min.as_str().unwrap_or_default();
            let text = format!("minimum {name} usage per {} is {min}", self.kind);
            let (request, limit) = (self.requests.text(&[name]), self.limits.text(&[name]));
            if request.is_empty() {
                problems.push(format!("{text}.  No request is specified"));
            } else if amount(request) < amount(min) {
                problems.push(format!("{text}, but request is {request}"));
            } else if !limit.is_empty() && amount(limit) < amount(min) {
                problems.push(format!("{text}, but limit is {limit}"));
            }
        }
    }

    fn check_max(&self, range: &Value, problems: &mut Vec<String>) {
        for (name, max) in range.entries(&["max"]) {
            let max = max.as_str().unwrap_or_default();
            let text = format!("maximum {name} usage per {} is {max}", self.kind);
            let (request, limit) = (self.requests.text(&[name]), self.limits.text(&[name]));
            if limit.is_empty() {
                problems.push(format!("{text}.  No limit is specified"));
            } else if amount(limit) > amount(max) {
                problems.push(format!("{text}, but limit is {limit}"));
            } else if !request.is_empty() && amount(request) > amount(max) {
                problems.push(format!("{text}, but request is {request}"));
            }
        }
    }

    fn check_request_max(&self, range: &Value, problems: &mut Vec<String>) {
        for (name, max) in range.entries(&["max"]) {
            let max = max.as_str().unwrap_or_default();
            let text = format!("maximum {name} usage per {} is {max}", self.kind);
            let request = self.requests.text(&[name]);
            if request.is_empty() {
                problems.push(format!("{text}.  No request is specified"));
            } else if amount(request) > amount(max) {
                problems.push(format!("{text}, but request is {request}"));
            }
        }
    }

    fn check_ratio(&self, range: &Value, problems: &mut Vec<String>) {
        for (name, max) in range.entries(&["maxLimitRequestRatio"]) {
            let max = max.as_str().unwrap_or_default();
            let text = format!("{name} max limit to request ratio per {} is {max}", self.kind);
            let of = |amounts: &Value| amount(amounts.text(&[name])).filter(|amount| *amount > 0.0);
            match (of(self.requests), of(self.limits)) {
                (None, _) => problems.push(format!("{text}, but no request is specified or request is 0")),
                (_, None) => problems.push(format!("{text}, but no limit is specified or limit is 0")),
                (Some(request), Some(limit)) => {
                    let ratio = limit / request;
                    if amount(max).is_some_and(|max| ratio > max) {
                        problems.push(format!("{text}, but provided ratio is {ratio:.6}"));
                    }
                }
            }
        }
    }
}
