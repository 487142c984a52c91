//! The kinds that scenarios speak of.

use windlass_api::{ApiResource, GroupVersionKind};

use super::metrics;

/// How a kind is asked for. What is `{}` in the group is the namespace of the scenario: definitions are the cluster's.
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
    /// Objects of a scenario have names that begin with its namespace's.
    Cluster,
}

const fn kind(name: &'static str, group: &'static str, version: &'static str, plural: &'static str) -> Kind {
    Kind { name, group, version, plural, place: Place::Namespace }
}

const fn of_cluster(name: &'static str, group: &'static str, version: &'static str, plural: &'static str) -> Kind {
    Kind { name, group, version, plural, place: Place::Cluster }
}

/// Those that are looked at when a file names none.
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

const KINDS: [Kind; 34] = [
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
    /// That of a name.
    ///
    /// # Panics
    /// When no scenario has it.
    pub(super) fn find(name: &str) -> &'static Self {
        KINDS.iter().find(|kind| kind.name == name).unwrap_or_else(|| panic!("no scenario has {name}"))
    }

    /// What it is asked for by, in a namespace's scenario.
    pub(super) fn resource(&self, namespace: &str) -> ApiResource {
        let group = self.group.replace("{}", namespace);
        let resource = ApiResource::namespaced(GroupVersionKind::new(group, self.version, self.name), self.plural);
        if self.place == Place::Cluster { resource.cluster_scoped() } else { resource }
    }
}
