//! Admission plugins for classes: default classes, and the settings that pods and claims get from their class.

use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    kinds::amount,
    object::{Tree, as_object, object_mut, same},
    registry::Registry,
    resource::{Item, Target},
};

/// The plugins `DefaultStorageClass` and `DefaultIngressClass`.
#[derive(Debug)]
pub(crate) struct DefaultClasses;

/// A kind whose objects have a class.
struct Classed {
    group: &'static str,
    kind: &'static str,
    /// The field of the spec that names the class, and the legacy annotations for it.
    field: &'static str,
    annotations: &'static [&'static str],
    /// The group and plural of the classes, and the annotations that mark the default class.
    classes: (&'static str, &'static str),
    marks: &'static [&'static str],
}

const CLASSED: [Classed; 2] = [
    Classed {
        group: "",
        kind: "PersistentVolumeClaim",
        field: "storageClassName",
        annotations: &["volume.beta.kubernetes.io/storage-class"],
        classes: ("storage.k8s.io", "storageclasses"),
        marks: &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
    },
    Classed {
        group: "networking.k8s.io",
        kind: "Ingress",
        field: "ingressClassName",
        annotations: &["kubernetes.io/ingress.class"],
        classes: ("networking.k8s.io", "ingressclasses"),
        marks: &["ingressclass.kubernetes.io/is-default-class"],
    },
];

fn classed(write: &Attributes) -> Option<&'static Classed> {
    CLASSED.iter().find(|classed| classed.group == write.resource.group && classed.kind == write.resource.kind)
}

impl Admission for DefaultClasses {
    fn handles(&self, write: &Attributes) -> bool {
        write.operation == Operation::Create && write.subresource.is_none() && classed(write).is_some()
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(classed) = classed(write) else { return Ok(()) };
            let named = write.object.at(&["spec", classed.field]).is_some()
                || classed.annotations.iter().any(|key| write.object.at(&["metadata", "annotations", key]).is_some());
            if named {
                return Ok(());
            }
            let is_default = |class: &Value| {
                classed.marks.iter().any(|mark| class.text(&["metadata", "annotations", mark]) == "true")
            };
            let mut defaults = all(registry, classed.classes.0, classed.classes.1).await?;
            defaults.retain(is_default);
            // The newest default class. If several are equally new, the first by name.
            let created = |class: &Value| class.text(&["metadata", "creationTimestamp"]).to_owned();
            let name = |class: &Value| class.text(&["metadata", "name"]).to_owned();
            let chosen =
                defaults.into_iter().max_by(|a, b| created(a).cmp(&created(b)).then_with(|| name(b).cmp(&name(a))));
            if let Some(chosen) = chosen {
                object_mut(&mut write.object, "spec").insert(classed.field.to_owned(), name(&chosen).into());
            }
            Ok(())
        })
    }
}

/// The plugin `Priority` for priority classes: at most one default, and system classes are protected.
#[derive(Debug)]
pub(crate) struct PriorityClasses;

impl Admission for PriorityClasses {
    fn handles(&self, write: &Attributes) -> bool {
        write.resource.group == "scheduling.k8s.io" && write.resource.kind == "PriorityClass"
    }

    fn admit<'a>(&'a self, _registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.operation == Operation::Delete && write.name.starts_with("system-") {
                return Err(write.forbidden("this is a system priority class and cannot be deleted"));
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if !write.object.flag(&["globalDefault"]) {
                return Ok(());
            }
            match default_priority(registry).await? {
                Some(other) if other.text(&["metadata", "name"]) != write.name => {
                    let other = other.text(&["metadata", "name"]);
                    Err(write.forbidden(format!(
                        "PriorityClass {other} is already marked as default. Only one default can exist"
                    )))
                }
                _ => Ok(()),
            }
        })
    }
}

/// Returns the priority class of pods that name none: the default class with the lowest priority.
pub(super) async fn default_priority(registry: &Registry) -> Result<Option<Value>, Status> {
    let mut classes = all(registry, "scheduling.k8s.io", "priorityclasses").await?;
    classes.retain(|class| class.flag(&["globalDefault"]));
    Ok(classes.into_iter().min_by_key(|class| class.int(&["value"]).unwrap_or_default()))
}

/// Returns a class; `None` if it does not exist.
pub(super) async fn class(registry: &Registry, group: &str, plural: &str, name: &str) -> Result<Option<Value>, Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(group, "v1", plural) else { return Ok(None) };
    Ok(registry.peek_recent(&Target::object(resource, None, name)).await?.map(|item| item.value()))
}

async fn all(registry: &Registry, group: &str, plural: &str) -> Result<Vec<Value>, Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(group, "v1", plural) else { return Ok(Vec::new()) };
    Ok(registry.peek_all(&Target::collection(resource, None)).await?.iter().map(Item::value).collect())
}

/// The plugin `RuntimeClass`: pods get the overhead and the scheduling rules of their class.
#[derive(Debug)]
pub(crate) struct RuntimeClasses;

impl Admission for RuntimeClasses {
    fn handles(&self, write: &Attributes) -> bool {
        let pods = write.resource.group.is_empty() && write.resource.kind == "Pod" && write.subresource.is_none();
        pods && write.operation == Operation::Create
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let own = write.object.at(&["spec", "overhead"]).cloned();
            let name = write.object.text(&["spec", "runtimeClassName"]).to_owned();
            if name.is_empty() {
                return Ok(());
            }
            let Some(class) = class(registry, "node.k8s.io", "runtimeclasses", &name).await? else {
                return Err(write.forbidden(format!("pod rejected: RuntimeClass {name:?} not found")));
            };
            if let Some(overhead) = class.at(&["overhead", "podFixed"]) {
                if own.is_some() && !same(own.as_ref(), Some(overhead)) {
                    let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
                    return Err(write.forbidden(why));
                }
                object_mut(&mut write.object, "spec").insert("overhead".to_owned(), overhead.clone());
            }
            for (key, value) in class.entries(&["scheduling", "nodeSelector"]) {
                let value = value.as_str().unwrap_or_default();
                let given = write.object.at(&["spec", "nodeSelector", key]).and_then(Value::as_str);
                if let Some(given) = given.filter(|given| *given != value) {
                    return Err(write.forbidden(format!(
                        "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
                    )));
                }
                let selector = object_mut(&mut write.object, "spec").entry("nodeSelector").or_insert_with(|| json!({}));
                as_object(selector).insert(key.clone(), value.into());
            }
            for toleration in class.items(&["scheduling", "tolerations"]) {
                let list = object_mut(&mut write.object, "spec").entry("tolerations").or_insert_with(|| json!([]));
                match list {
                    Value::Array(list) if !list.contains(toleration) => list.push(toleration.clone()),
                    _ => {}
                }
            }
            Ok(())
        })
    }

    /// Rejects pods whose overhead differs from the overhead of their class.
    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let name = write.object.text(&["spec", "runtimeClassName"]);
            let Some(own) = write.object.at(&["spec", "overhead"]) else { return Ok(()) };
            let class =
                if name.is_empty() { None } else { class(registry, "node.k8s.io", "runtimeclasses", name).await? };
            match class.as_ref().and_then(|class| class.at(&["overhead", "podFixed"])) {
                Some(overhead) if same(Some(own), Some(overhead)) => Ok(()),
                Some(_) => {
                    Err(write.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
                }
                None => {
                    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                    Err(write.forbidden(why))
                }
            }
        })
    }
}

/// The plugin `PersistentVolumeClaimResize`: a claim can grow only if its class allows expansion.
#[derive(Debug)]
pub(crate) struct ClaimResize;

impl Admission for ClaimResize {
    fn handles(&self, write: &Attributes) -> bool {
        let claims = write.resource.group.is_empty() && write.resource.kind == "PersistentVolumeClaim";
        claims && write.operation == Operation::Update && write.subresource.is_none()
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let nothing = Value::Null;
            let old = write.old.as_ref().unwrap_or(&nothing);
            let size =
                |claim: &Value| amount(claim.text(&["spec", "resources", "requests", "storage"])).unwrap_or_default();
            if size(&write.object) <= size(old) {
                return Ok(());
            }
            if old.text(&["status", "phase"]) != "Bound" {
                return Err(write.forbidden("Only bound persistent volume claims can be expanded"));
            }
            let name = match old.text(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]) {
                "" => old.text(&["spec", "storageClassName"]),
                name => name,
            };
            let class = class(registry, "storage.k8s.io", "storageclasses", name).await?;
            if class.is_some_and(|class| class.flag(&["allowVolumeExpansion"])) {
                return Ok(());
            }
            let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                       support resize";
            Err(write.forbidden(why))
        })
    }
}
