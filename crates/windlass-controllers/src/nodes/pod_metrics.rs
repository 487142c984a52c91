//! The resource usage of the pods on simulated nodes, declared by the pods themselves. It is published as `PodMetrics`,
//! as metrics-server does.
//!
//! A pod declares its usage by annotations. [`USAGE`] is the usage of its first container, such as
//! `cpu=250m,memory=64Mi`, or of a named one, such as `sidecar/cpu=10m`. [`LOAD`] has the same form, and is shared by
//! all ready pods of the same owner: the more pods there are, the less each one uses.
//!
//! Guaranteed: as long as no pod declares its usage, the metrics API is not registered and nothing is written. Not
//! guaranteed: that metrics are newer than the period.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hashbrown::HashSet;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Pod, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_api::{
    ApiResource, DynamicObject, GroupVersionKind, ObjectExt, ObjectKey, ObjectRef, Quantity, format_time,
};
use windlass_cache::{Cached, Lister};
use windlass_client::{Client, Error};
use windlass_runtime::{Result, RunnableContext, Watch};

use crate::pods;

/// The annotation with a pod's usage.
const USAGE: &str = "windlass.dev/usage";
/// The annotation with the usage that a pod shares with the other ready pods of its owner.
const LOAD: &str = "windlass.dev/load";
/// The label of the CustomResourceDefinition that the simulator has created.
const SIMULATED: &str = "windlass.dev/simulated";
/// The interval between two updates of the metrics.
const PERIOD: Duration = Duration::from_secs(15);
/// The window reported with the metrics. Short, so that the first metrics of a pod do not count as startup usage only.
const WINDOW: Duration = Duration::from_secs(10);
/// The resources reported for every container, even if the pod does not declare them.
const ALWAYS: [&str; 2] = ["cpu", "memory"];

/// The pods that declare their usage.
#[derive(Clone, Debug, Default)]
pub(super) struct PodMetrics(Arc<Mutex<HashSet<ObjectKey>>>);

/// The usage of a container, by resource.
type Usage = BTreeMap<String, Quantity>;

impl PodMetrics {
    /// Records the current state of a pod on a simulated node.
    pub(super) fn record(&self, key: &ObjectKey, pod: &Pod) {
        let says = [USAGE, LOAD].iter().any(|name| pod.annotations().contains_key(*name));
        let mut known = self.0.lock();
        if !says {
            known.remove(key);
        } else if !known.contains(key) {
            known.insert(key.clone());
        }
    }

    /// Drops a pod that is gone, or on another node.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    /// Publishes the declared usage until shutdown.
    pub(super) async fn run(self, running: RunnableContext) -> Result<()> {
        tokio::select! {
            biased;
            () = running.stop().requested() => {}
            () = self.publish(&running) => {}
        }
        Ok(())
    }

    async fn publish(self, running: &RunnableContext) {
        let cluster = running.cluster();
        let client = cluster.client().clone().with_component("nodes");
        let store = cluster.informer::<Pod>(&Watch::all()).store();
        let mut published = HashSet::new();
        let mut is_defined = false;
        loop {
            sleep(PERIOD).await;
            let keys: Vec<_> = self.0.lock().iter().cloned().collect();
            if keys.is_empty() && published.is_empty() {
                continue;
            }
            if !is_defined {
                is_defined = match define(&client).await {
                    Ok(is_ours) if !is_ours => {
                        tracing::warn!("another program provides the pod metrics API; usage annotations are ignored");
                        return;
                    }
                    Ok(_) => true,
                    Err(error) => {
                        tracing::warn!(error = error.chain(), "cannot create the CRD of PodMetrics; retrying");
                        continue;
                    }
                };
            }
            round(&client, &store, &keys, &mut published, cluster.clock().now()).await;
        }
    }
}

/// Writes the metrics of each ready pod, and deletes the metrics of the others.
async fn round(
    client: &Client,
    store: &Lister<Pod>,
    keys: &[ObjectKey],
    published: &mut HashSet<ObjectKey>,
    now: Timestamp,
) {
    let metrics = client.dynamic(&resource());
    let mut current = HashSet::new();
    for key in keys {
        let pod = store.get(&ObjectRef::from(key.clone())).and_then(|pod| pod.get().ok());
        let Some(pod) = pod.filter(|pod| is_working(pod)) else { continue };
        let siblings = if pod.annotations().contains_key(LOAD) { siblings(store, &pod) } else { 1 };
        match metrics.apply(&of_pod(&pod, siblings, now)).force().await {
            Ok(_) => _ = current.insert(key.clone()),
            Err(error) => tracing::debug!(pod = %key, error = error.chain(), "cannot write the metrics of a pod"),
        }
    }
    for key in published.difference(&current) {
        match metrics.delete(ObjectRef::from(key.clone())).await {
            Err(error) if !error.is_not_found() => {
                tracing::debug!(pod = %key, error = error.chain(), "cannot delete the metrics of a pod");
            }
            _ => {}
        }
    }
    *published = current;
}

fn is_working(pod: &Pod) -> bool {
    pods::is_ready(pod) && pods::is_active(pod)
}

/// Returns the number of pods that share the load of a pod, including itself.
fn siblings(store: &Lister<Pod>, pod: &Pod) -> u32 {
    let Some(owner) = pod.controller() else { return 1 };
    let is_sibling = |other: &Cached<Pod>| {
        other.meta().controller().is_some_and(|other| *other.uid == *owner.uid)
            && other.get().is_ok_and(|other| is_working(&other))
    };
    let count =
        store.within(pod.namespace().unwrap_or_default()).list().iter().filter(|other| is_sibling(other)).count();
    u32::try_from(count).unwrap_or(u32::MAX).max(1)
}

/// Builds the `PodMetrics` of a pod, as metrics-server does.
fn of_pod(pod: &Pod, siblings: u32, now: Timestamp) -> DynamicObject {
    let mut metrics = DynamicObject::new(&resource(), pod.name()).within(pod.namespace().unwrap_or_default());
    metrics.metadata.labels.clone_from(&pod.metadata.labels);
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid()}]);
    metrics.metadata.owner_references = serde_json::from_value(owner).ok();
    let containers: Vec<_> = used(pod, siblings)
        .into_iter()
        .map(|(name, usage)| {
            let usage: BTreeMap<_, _> =
                usage.into_iter().map(|(resource, amount)| (resource, amount.to_string())).collect();
            json!({"name": name, "usage": usage})
        })
        .collect();
    metrics.data.insert("timestamp".to_owned(), json!(format_time(now)));
    metrics.data.insert("window".to_owned(), json!(format!("{}s", WINDOW.as_secs())));
    metrics.data.insert("containers".to_owned(), json!(containers));
    metrics
}

/// Returns the usage of each container. Invalid parts of the annotations are ignored.
fn used(pod: &Pod, siblings: u32) -> Vec<(String, Usage)> {
    let names = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| container.name.clone());
    let nothing: Usage = ALWAYS.iter().map(|resource| ((*resource).to_owned(), Quantity::default())).collect();
    let mut containers: Vec<_> = names.map(|name| (name, nothing.clone())).collect();
    for (annotation, among) in [(USAGE, 1), (LOAD, siblings)] {
        let said = pod.annotations().get(annotation).map(String::as_str).unwrap_or_default();
        for part in said.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((what, amount)) = part.split_once('=') else { continue };
            let Ok(amount) = amount.trim().parse::<Quantity>() else { continue };
            let (container, resource) =
                what.trim().split_once('/').map_or((None, what.trim()), |(name, resource)| (Some(name), resource));
            let meant = match container {
                None => containers.first_mut(),
                Some(name) => containers.iter_mut().find(|(known, _)| known == name),
            };
            let Some((_, usage)) = meant else { continue };
            let share = Quantity::milli(amount.milli_value() / i64::from(among), amount.format());
            *usage.entry(resource.to_owned()).or_default() += &share;
        }
    }
    containers
}

fn resource() -> ApiResource {
    ApiResource::namespaced(GroupVersionKind::new("metrics.k8s.io", "v1beta1", "PodMetrics"), "pods")
}

/// Creates the CustomResourceDefinition of `PodMetrics`. Returns `false` if another program provides that API.
async fn define(client: &Client) -> Result<bool, Error> {
    let Ok(made) = serde_json::from_value::<CustomResourceDefinition>(definition()) else { return Ok(false) };
    match client.create(&made).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_already_exists() => {
            let found = client.get_opt::<CustomResourceDefinition>(made.name()).await?;
            Ok(found.is_some_and(|found| found.labels().contains_key(SIMULATED)))
        }
        Err(error) => Err(error),
    }
}

fn definition() -> Value {
    let text = json!({"type": "string"});
    let amounts = json!({
        "type": "object",
        "additionalProperties": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    });
    let container = json!({"type": "object", "properties": {"name": text, "usage": amounts}});
    let schema = json!({"type": "object", "properties": {
        "timestamp": {"type": "string", "format": "date-time"}, "window": text,
        "containers": {"type": "array", "items": container, "x-kubernetes-list-type": "atomic"},
    }});
    let version = json!({"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "labels": {SIMULATED: "true"},
            "annotations": {"api-approved.kubernetes.io": "unapproved, of simulated nodes"},
        },
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "PodMetrics", "listKind": "PodMetricsList", "plural": "pods", "singular": "podmetrics"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: Value) -> Pod {
        let containers = json!([{"name": "app"}, {"name": "side"}]);
        let metadata = json!({"name": "p", "namespace": "n", "labels": {"app": "web"}, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": containers}})).unwrap()
    }

    fn published(annotations: Value, siblings: u32) -> Value {
        let metrics = of_pod(&pod(annotations), siblings, Timestamp::UNIX_EPOCH);
        serde_json::to_value(metrics).unwrap()["containers"].clone()
    }

    #[test]
    fn pod_usage_comes_from_its_annotation() {
        let containers = published(json!({USAGE: "cpu=250m, memory=64Mi,side/cpu=10m"}), 3);
        assert_eq!(
            containers,
            json!([
                {"name": "app", "usage": {"cpu": "250m", "memory": "64Mi"}},
                {"name": "side", "usage": {"cpu": "10m", "memory": "0"}},
            ])
        );
    }

    #[test]
    fn shared_load_is_divided_and_added_to_usage() {
        let containers = published(json!({USAGE: "cpu=50m", LOAD: "cpu=1,memory=3Gi"}), 4);
        assert_eq!(containers[0]["usage"], json!({"cpu": "300m", "memory": "768Mi"}));
    }

    #[test]
    fn invalid_usage_is_ignored() {
        let containers = published(json!({USAGE: "cpu,memory=much,=,other/cpu=1,disk=5"}), 1);
        assert_eq!(containers[0]["usage"], json!({"cpu": "0", "memory": "0", "disk": "5"}));
    }

    #[test]
    fn only_annotated_pods_have_metrics() {
        let (pod_metrics, key) = (PodMetrics::default(), ObjectKey::new("p"));
        pod_metrics.record(&key, &pod(json!({})));
        assert!(pod_metrics.0.lock().is_empty());
        pod_metrics.record(&key, &pod(json!({LOAD: "cpu=1"})));
        assert_eq!(pod_metrics.0.lock().len(), 1);
        pod_metrics.record(&key, &pod(json!({})));
        assert!(pod_metrics.0.lock().is_empty());
    }
}
