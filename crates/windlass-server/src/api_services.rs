//! The `APIService` objects of the group versions that this server serves.
//!
//! Those of built-in groups are bootstrap objects. Those of custom resources are created and deleted with their CRDs.
//! Objects that name a service, or that a user created, are not changed: see [`crate::aggregation`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_api::Status;

use crate::{
    discovery::priorities,
    encoded::Style,
    object::Tree,
    registry::{DeleteParams, GetParams, ListParams, Registry, WriteParams},
    resource::{Body, ResourceInfo, Target},
};

const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// A group and a version.
type GroupVersion = (String, String);

/// Returns the objects for built-in groups.
pub(crate) fn built_in(registry: &Registry) -> Vec<Value> {
    let served = served(registry, Style::BuiltIn).into_iter();
    // This group has no object for itself.
    let served = served.filter(|(group, _)| group != "apiregistration.k8s.io");
    served.map(|(group, version)| registration(&group, &version, "onstart")).collect()
}

/// The served versions of custom resources, and the versions whose objects are out of date.
#[derive(Debug, Default)]
pub(crate) struct ApiServices {
    /// The number of CRDs that serve a version.
    served: BTreeMap<GroupVersion, usize>,
    changed: BTreeSet<GroupVersion>,
    /// The objects of an earlier run of the server are up to date.
    is_complete: bool,
}

impl ApiServices {
    /// Replaces the versions that a CRD serves.
    pub(crate) fn replace(&mut self, old: Vec<GroupVersion>, new: Vec<GroupVersion>) {
        for version in new {
            let count = self.served.entry(version.clone()).or_default();
            *count += 1;
            if *count == 1 {
                self.changed.insert(version);
            }
        }
        for version in old {
            let Some(count) = self.served.get_mut(&version) else { continue };
            *count -= 1;
            if *count == 0 {
                self.served.remove(&version);
                self.changed.insert(version);
            }
        }
    }

    /// Creates and deletes the objects of changed versions. Returns `false` if it must be retried.
    pub(crate) async fn sync(&mut self, registry: &Registry) -> bool {
        if !self.is_complete {
            self.is_complete = self.sync_all(registry).await.is_ok();
            if self.is_complete {
                self.changed.clear();
            }
            return self.is_complete;
        }
        while let Some(version) = self.changed.pop_first() {
            let done = if self.served.contains_key(&version) {
                add(registry, &version).await
            } else {
                remove(registry, &version).await
            };
            if done.is_err() {
                self.changed.insert(version);
                return false;
            }
        }
        true
    }

    async fn sync_all(&self, registry: &Registry) -> Result<(), Status> {
        let Some(collection) = collection(registry) else { return Ok(()) };
        let mut missing: BTreeSet<&GroupVersion> = self.served.keys().collect();
        let params = ListParams { labels: Some(format!("{LABEL}=true")), ..ListParams::default() };
        for item in registry.list(&collection, params).await?.items {
            let object = item.value();
            let text = |field| object.text(&["spec", field]).to_owned();
            let version = (text("group"), text("version"));
            if !missing.remove(&version) {
                delete(registry, object.text(&["metadata", "name"])).await?;
            }
        }
        for version in missing {
            add(registry, version).await?;
        }
        Ok(())
    }
}

fn collection(registry: &Registry) -> Option<Target> {
    let resources = registry.resources();
    resources.get("apiregistration.k8s.io", "v1", "apiservices").map(|resource| Target::collection(resource, None))
}

async fn add(registry: &Registry, (group, version): &GroupVersion) -> Result<(), Status> {
    let Some(collection) = collection(registry) else { return Ok(()) };
    let object = registration(group, version, "true");
    match registry.create(&collection, Body::Value(object), WriteParams::default()).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}

/// Deletes the object of a version, unless a user created it.
async fn remove(registry: &Registry, (group, version): &GroupVersion) -> Result<(), Status> {
    let Some(collection) = collection(registry) else { return Ok(()) };
    let name = format!("{version}.{group}");
    let item = match registry.get(&Target::object(&collection.resource, None, &name), GetParams::default()).await {
        Err(status) if status.is_not_found() => return Ok(()),
        item => item?,
    };
    if item.value().text(&["metadata", "labels", LABEL]) == "true" { delete(registry, &name).await } else { Ok(()) }
}

async fn delete(registry: &Registry, name: &str) -> Result<(), Status> {
    let Some(collection) = collection(registry) else { return Ok(()) };
    match registry.delete(&Target::object(&collection.resource, None, name), DeleteParams::default()).await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}

fn served(registry: &Registry, style: Style) -> BTreeSet<GroupVersion> {
    let resources = registry.resources();
    let of_style = |resource: &&ResourceInfo| resource.shape.style() == style;
    resources.iter().filter(of_style).map(|resource| (resource.group.clone(), resource.version.clone())).collect()
}

fn registration(group: &str, version: &str, managed: &str) -> Value {
    let (rank, rank_of_version) = priorities(group, version);
    let mut spec = json!({"version": version, "groupPriorityMinimum": rank, "versionPriority": rank_of_version});
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    json!({"metadata": {"name": format!("{version}.{group}"), "labels": {LABEL: managed}}, "spec": spec})
}
