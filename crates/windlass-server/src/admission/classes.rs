//! Admission plugins for classes: default classes, and the settings that pods and claims get from their class.

use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::Status;

use super::tolerations::merge;
use crate::registry::{Admission, Attributes, Operation};
use crate::{
    kinds::amount,
    object::{Tree, as_object, object_mut, same},
    registry::Registry,
    resource::{Item, Target},
};

/// A plugin that sets the class of new objects of a kind.
#[derive(Debug)]
pub(crate) struct DefaultClass {
    group: &'static str,
    kind: &'static str,
    /// The field of the spec that names the class, and the legacy annotations for it.
    field: &'static str,
    annotations: &'static [&'static str],
    /// The group and plural of the classes, and the annotations that mark the default class.
    classes: (&'static str, &'static str),
    marks: &'static [&'static str],
}

/// The plugin `DefaultStorageClass`.
pub(crate) const DEFAULT_STORAGE_CLASS: DefaultClass = DefaultClass {
    group: "",
    kind: "PersistentVolumeClaim",
    field: "storageClassName",
    annotations: &["volume.beta.kubernetes.io/storage-class"],
    classes: ("storage.k8s.io", "storageclasses"),
    marks: &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
};

/// The plugin `DefaultIngressClass`.
pub(crate) const DEFAULT_INGRESS_CLASS: DefaultClass = DefaultClass {
    group: "networking.k8s.io",
    kind: "Ingress",
    field: "ingressClassName",
    annotations: &["kubernetes.io/ingress.class"],
    classes: ("networking.k8s.io", "ingressclasses"),
    marks: &["ingressclass.kubernetes.io/is-default-class"],
};

impl Admission for DefaultClass {
    fn handles(&self, write: &Attributes) -> bool {
        let is_new = write.operation == Operation::Create && write.subresource.is_none();
        is_new && write.resource.group == self.group && write.resource.kind == self.kind
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let named = write.object.at(&["spec", self.field]).is_some()
                || self.annotations.iter().any(|key| write.object.at(&["metadata", "annotations", key]).is_some());
            if named {
                return Ok(());
            }
            let is_default =
                |class: &Value| self.marks.iter().any(|mark| class.text(&["metadata", "annotations", mark]) == "true");
            let mut defaults = all(registry, self.classes.0, self.classes.1).await?;
            defaults.retain(is_default);
            // The newest default class. If several are equally new, the first by name.
            let created = |class: &Value| class.text(&["metadata", "creationTimestamp"]).to_owned();
            let name = |class: &Value| class.text(&["metadata", "name"]).to_owned();
            let chosen =
                defaults.into_iter().max_by(|a, b| created(a).cmp(&created(b)).then_with(|| name(b).cmp(&name(a))));
            if let Some(chosen) = chosen {
                object_mut(&mut write.object, "spec").insert(self.field.to_owned(), name(&chosen).into());
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

/// Returns a cluster-scoped object; `None` if it does not exist.
pub(super) async fn cluster_object(
    registry: &Registry,
    group: &str,
    plural: &str,
    name: &str,
) -> Result<Option<Value>, Status> {
    Ok(cluster_item(registry, group, plural, name).await?.map(|item| item.value()))
}

/// Returns a recent state of a cluster-scoped object as it is stored.
pub(super) async fn cluster_item(
    registry: &Registry,
    group: &str,
    plural: &str,
    name: &str,
) -> Result<Option<Item>, Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(group, "v1", plural) else { return Ok(None) };
    registry.peek_recent(&Target::object(resource, None, name)).await
}

async fn all(registry: &Registry, group: &str, plural: &str) -> Result<Vec<Value>, Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(group, "v1", plural) else { return Ok(Vec::new()) };
    Ok(registry.peek_all(&Target::collection(resource, None)).await?.iter().map(Item::value).collect())
}

/// The plugin `RuntimeClass`: pods get the overhead and the scheduling rules of their class.
#[derive(Debug)]
pub(crate) struct RuntimeClasses;

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

impl RuntimeClasses {
    /// Returns the class of a pod.
    async fn class(registry: &Registry, write: &Attributes) -> Result<Option<Value>, Status> {
        let name = write.object.text(&["spec", "runtimeClassName"]);
        if name.is_empty() {
            return Ok(None);
        }
        let class = cluster_object(registry, "node.k8s.io", "runtimeclasses", name).await?;
        let missing = || write.forbidden(format!("pod rejected: RuntimeClass {name:?} not found"));
        class.ok_or_else(missing).map(Some)
    }
}

impl Admission for RuntimeClasses {
    fn handles(&self, write: &Attributes) -> bool {
        write.is_pod_write() && write.operation == Operation::Create
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(class) = Self::class(registry, write).await? else { return Ok(()) };
            if let Some(overhead) = class.at(&["overhead"]) {
                let own = write.object.at(&["spec", "overhead"]).filter(|own| !same(Some(own), None));
                let fixed = overhead.at(&["podFixed"]);
                if own.is_some() && !same(own, fixed) {
                    return Err(write.forbidden(OTHER_OVERHEAD));
                }
                let spec = object_mut(&mut write.object, "spec");
                spec.shift_remove("overhead");
                spec.extend(fixed.map(|fixed| ("overhead".to_owned(), fixed.clone())));
            }
            let Some(scheduling) = class.at(&["scheduling"]) else { return Ok(()) };
            for (key, value) in scheduling.entries(&["nodeSelector"]) {
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
            let own = write.object.items(&["spec", "tolerations"]).iter();
            let merged = merge(own.chain(scheduling.items(&["tolerations"])).cloned().collect());
            if !merged.is_empty() {
                object_mut(&mut write.object, "spec").insert("tolerations".to_owned(), merged.into());
            }
            Ok(())
        })
    }

    /// Rejects pods whose overhead differs from the overhead of their class.
    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let own = write.object.at(&["spec", "overhead"]);
            let class = Self::class(registry, write).await?;
            match class.as_ref().and_then(|class| class.at(&["overhead"])) {
                Some(overhead) if same(own, overhead.at(&["podFixed"])) => Ok(()),
                Some(_) => Err(write.forbidden(OTHER_OVERHEAD)),
                None if own.is_none() => Ok(()),
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

/// Returns the name of a claim's class.
fn class_of(claim: &Value) -> &str {
    let annotation = claim.at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
    annotation.and_then(Value::as_str).unwrap_or_else(|| claim.text(&["spec", "storageClassName"]))
}

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
            let name = class_of(old);
            if !name.is_empty() && class_of(&write.object) == name {
                let class = cluster_object(registry, "storage.k8s.io", "storageclasses", name).await?;
                if class.is_some_and(|class| class.flag(&["allowVolumeExpansion"])) {
                    return Ok(());
                }
            }
            let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                       support resize";
            Err(write.forbidden(why))
        })
    }
}
