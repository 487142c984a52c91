//! The kinds in scenarios.

use windlass_api::{ApiResource, GroupVersionKind};

use super::metrics;

/// The resource of a kind. `{}` in the group is replaced by the scenario's namespace, because CRDs are cluster-scoped.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    pub(super) place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Namespace,
    /// Names of such objects begin with the scenario's namespace.
    Cluster,
}

const fn kind(name: &'static str, group: &'static str, version: &'static str, plural: &'static str) -> Kind {
    Kind { name, group, version, plural, place: Place::Namespace }
}

const fn of_cluster(name: &'static str, group: &'static str, version: &'static str, plural: &'static str) -> Kind {
    Kind { name, group, version, plural, place: Place::Cluster }
}

/// The compared kinds of files that name none.
pub(super) const USUAL: [&str; 11] = [
    "Pod",
    "Job",
    "CronJob",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "ControllerRevision",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Event",
];

const KINDS: [Kind; 35] = [
    kind("Pod", "", "v1", "pods"),
    kind("Job", "batch", "v1", "jobs"),
    kind("CronJob", "batch", "v1", "cronjobs"),
    kind("Deployment", "apps", "v1", "deployments"),
    kind("StatefulSet", "apps", "v1", "statefulsets"),
    kind("DaemonSet", "apps", "v1", "daemonsets"),
    kind("ReplicaSet", "apps", "v1", "replicasets"),
    kind("ReplicationController", "", "v1", "replicationcontrollers"),
    kind("ControllerRevision", "apps", "v1", "controllerrevisions"),
    kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
    kind("HorizontalPodAutoscaler", "autoscaling", "v2", "horizontalpodautoscalers"),
    kind("PodMetrics", metrics::RESOURCE, "v1beta1", "pods"),
    kind("ExternalMetricValue", metrics::EXTERNAL, "v1beta1", metrics::DEPTHS),
    kind("Event", "", "v1", "events"),
    kind("ConfigMap", "", "v1", "configmaps"),
    kind("Secret", "", "v1", "secrets"),
    kind("Service", "", "v1", "services"),
    kind("ServiceAccount", "", "v1", "serviceaccounts"),
    kind("Endpoints", "", "v1", "endpoints"),
    kind("EndpointSlice", "discovery.k8s.io", "v1", "endpointslices"),
    kind("LimitRange", "", "v1", "limitranges"),
    kind("ResourceQuota", "", "v1", "resourcequotas"),
    kind("Role", "rbac.authorization.k8s.io", "v1", "roles"),
    kind("Lease", "coordination.k8s.io", "v1", "leases"),
    kind("Thing", "{}.example.com", "v1", "things"),
    of_cluster("Realm", "{}.example.com", "v1", "realms"),
    of_cluster("Namespace", "", "v1", "namespaces"),
    of_cluster("Node", "", "v1", "nodes"),
    of_cluster("PersistentVolume", "", "v1", "persistentvolumes"),
    of_cluster("StorageClass", "storage.k8s.io", "v1", "storageclasses"),
    of_cluster("VolumeAttributesClass", "storage.k8s.io", "v1", "volumeattributesclasses"),
    of_cluster("ClusterRole", "rbac.authorization.k8s.io", "v1", "clusterroles"),
    of_cluster("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    of_cluster("APIService", "apiregistration.k8s.io", "v1", "apiservices"),
];

impl Kind {
    /// Returns the kind with this name.
    ///
    /// # Panics
    ///
    /// If the kind is unknown.
    pub(super) fn find(name: &str) -> &'static Self {
        KINDS.iter().find(|kind| kind.name == name).unwrap_or_else(|| panic!("no scenario has {name}"))
    }

    /// Returns the resource for a scenario in this namespace.
    pub(super) fn resource(&self, namespace: &str) -> ApiResource {
        let group = self.group.replace("{}", namespace);
        let resource = ApiResource::namespaced(GroupVersionKind::new(group, self.version, self.name), self.plural);
        if self.place == Place::Cluster { resource.cluster_scoped() } else { resource }
    }
}
