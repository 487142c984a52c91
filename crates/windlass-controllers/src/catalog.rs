//! Which controllers there are, and which of them to run.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use thiserror::Error;
use windlass_runtime::Manager;

use crate::{
    Autoscaling, Pace, autoscaler, cronjob, daemonset, deployment, disruption, endpoints, ephemeral_volume,
    garbage_collector, job, namespace, node_lifecycle, nodes, replicaset, role_aggregation, service_account,
    statefulset, storage_protection, ttl_after_finished, volumes,
};

/// How many nodes are simulated unless it is said.
const NODES: usize = 3;

/// A built-in controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BuiltIn {
    /// Rollouts.
    Deployment,
    /// So many pods of a template.
    ReplicaSet,
    /// The same, for older users.
    ReplicationController,
    /// Pods that are told apart, each with its name and its claims.
    StatefulSet,
    /// A pod on each node.
    DaemonSet,
    /// Pods that run until they have succeeded.
    Job,
    /// Jobs that begin when they are due.
    CronJob,
    /// The end of jobs that are over.
    TtlAfterFinished,
    /// How many pods may be evicted.
    Disruption,
    /// How many replicas there are to be, by what is measured.
    HorizontalPodAutoscaling,
    /// Which pods are behind a service.
    EndpointSlice,
    /// Slices for the Endpoints that users write.
    EndpointSliceMirroring,
    /// Which pods are behind a service, for older readers.
    Endpoints,
    /// The end of namespaces.
    Namespace,
    /// What every namespace has: its default account, the certificate authority.
    ServiceAccount,
    /// The rules of roles that gather those of others.
    RoleAggregation,
    /// The end of what has lost its owners.
    GarbageCollector,
    /// Claims bound to volumes, and volumes of deleted claims reclaimed.
    PersistentVolume,
    /// The claims of pods with generic ephemeral volumes.
    EphemeralVolume,
    /// The end of claims and volumes, not before that of their use.
    StorageProtection,
    /// What a control plane adds to nodes.
    NodeLifecycle,
    /// Simulated nodes, with their scheduler and kubelets.
    Nodes,
}

/// The controllers of a control plane, and what they need to know of it.
#[derive(Clone, Debug)]
#[must_use = "controllers do nothing until they are added to a manager"]
pub struct Controllers {
    chosen: BTreeSet<BuiltIn>,
    nodes: usize,
    pace: Pace,
    root_ca: Option<Arc<str>>,
    autoscaling: Autoscaling,
}

/// Why a choice of controllers cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControllersError {
    /// A name that is no built-in controller's.
    #[error("there is no controller {name:?}; there are: {}, or none", names())]
    Unknown {
        /// The name as it was given.
        name: String,
    },
    /// Nothing stands where a name should.
    #[error("a name is empty; there are: {}, or none", names())]
    Empty,
    /// No controllers, and some.
    #[error("none stands alone: it cannot be chosen together with controllers")]
    NoneOfSome,
}

impl BuiltIn {
    /// All of them, in the order in which they are shown.
    pub const ALL: &[Self] = &[
        Self::Deployment,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::CronJob,
        Self::TtlAfterFinished,
        Self::Disruption,
        Self::HorizontalPodAutoscaling,
        Self::EndpointSlice,
        Self::EndpointSliceMirroring,
        Self::Endpoints,
        Self::Namespace,
        Self::ServiceAccount,
        Self::RoleAggregation,
        Self::GarbageCollector,
        Self::PersistentVolume,
        Self::EphemeralVolume,
        Self::StorageProtection,
        Self::NodeLifecycle,
        Self::Nodes,
    ];

    /// The name in flags and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replicaset",
            Self::ReplicationController => "replicationcontroller",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
            Self::Job => "job",
            Self::CronJob => "cronjob",
            Self::TtlAfterFinished => "ttlafterfinished",
            Self::Disruption => "disruption",
            Self::HorizontalPodAutoscaling => "horizontalpodautoscaling",
            Self::EndpointSlice => "endpointslice",
            Self::EndpointSliceMirroring => "endpointslicemirroring",
            Self::Endpoints => "endpoints",
            Self::Namespace => "namespace",
            Self::ServiceAccount => "serviceaccount",
            Self::RoleAggregation => "clusterroleaggregation",
            Self::GarbageCollector => "garbagecollector",
            Self::PersistentVolume => "persistentvolume",
            Self::EphemeralVolume => "ephemeralvolume",
            Self::StorageProtection => "storageprotection",
            Self::NodeLifecycle => "nodelifecycle",
            Self::Nodes => "nodes",
        }
    }
}

impl fmt::Display for BuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Controllers {
    /// All controllers.
    pub fn all() -> Self {
        Self::of(BuiltIn::ALL.iter().copied())
    }

    /// Some controllers.
    pub fn of(chosen: impl IntoIterator<Item = BuiltIn>) -> Self {
        Self {
            chosen: chosen.into_iter().collect(),
            nodes: NODES,
            pace: Pace::default(),
            root_ca: None,
            autoscaling: Autoscaling::default(),
        }
    }

    /// How many nodes are simulated, `node-0` and on; 3 by default.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// How long things take on the simulated nodes.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The certificate authority of the API server, as PEM. Without it, namespaces get no ConfigMap that holds it.
    pub fn root_ca(mut self, pem: impl Into<Arc<str>>) -> Self {
        self.root_ca = Some(pem.into());
        self
    }

    /// How horizontal pod autoscalers are run, and where their metrics come from.
    pub fn autoscaling(mut self, autoscaling: Autoscaling) -> Self {
        self.autoscaling = autoscaling;
        self
    }

    /// Whether this one is among them.
    pub fn contains(&self, controller: BuiltIn) -> bool {
        self.chosen.contains(&controller)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// Returns the storage of the nodes. Without a controller that binds claims, pods do not wait for them.
    fn storage(&self) -> nodes::Storage {
        if self.contains(BuiltIn::PersistentVolume) { nodes::Storage::Simulated } else { nodes::Storage::None }
    }

    /// Adds them to a manager.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn add_to(&self, manager: &mut Manager) {
        for controller in &self.chosen {
            match controller {
                BuiltIn::Deployment => deployment::add_to(manager),
                BuiltIn::ReplicaSet => replicaset::add_to(manager),
                BuiltIn::ReplicationController => replicaset::add_older_to(manager),
                BuiltIn::StatefulSet => statefulset::add_to(manager),
                BuiltIn::DaemonSet => daemonset::add_to(manager),
                BuiltIn::Job => job::add_to(manager),
                BuiltIn::CronJob => cronjob::add_to(manager),
                BuiltIn::TtlAfterFinished => ttl_after_finished::add_to(manager),
                BuiltIn::Disruption => disruption::add_to(manager),
                BuiltIn::HorizontalPodAutoscaling => autoscaler::add_to(manager, self.autoscaling.clone()),
                BuiltIn::EndpointSlice => endpoints::add_slices_to(manager),
                BuiltIn::EndpointSliceMirroring => endpoints::add_mirror_to(manager),
                BuiltIn::Endpoints => endpoints::add_older_to(manager),
                BuiltIn::Namespace => namespace::add_to(manager),
                BuiltIn::ServiceAccount => service_account::add_to(manager, self.root_ca.clone()),
                BuiltIn::RoleAggregation => role_aggregation::add_to(manager),
                BuiltIn::GarbageCollector => garbage_collector::add_to(manager),
                BuiltIn::PersistentVolume => volumes::add_to(manager),
                BuiltIn::EphemeralVolume => ephemeral_volume::add_to(manager),
                BuiltIn::StorageProtection => storage_protection::add_to(manager),
                BuiltIn::NodeLifecycle => node_lifecycle::add_to(manager),
                BuiltIn::Nodes => nodes::add_to(manager, self.nodes, self.pace.clone(), self.storage()),
            }
        }
    }
}

impl FromStr for Controllers {
    type Err = ControllersError;

    /// Names separated by commas, `*` for all, or `none`; one behind a `-` is left out, whatever else is said of it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self::of([]));
        }
        let (mut chosen, mut left_out) = (BTreeSet::new(), BTreeSet::new());
        for name in text.split(',').map(str::trim) {
            match name {
                "*" => chosen.extend(BuiltIn::ALL),
                "" => return Err(ControllersError::Empty),
                "none" => return Err(ControllersError::NoneOfSome),
                name => {
                    let (set, name) = match name.strip_prefix('-') {
                        Some(name) => (&mut left_out, name),
                        None => (&mut chosen, name),
                    };
                    set.insert(named(name)?);
                }
            }
        }
        Ok(Self::of(chosen.difference(&left_out).copied()))
    }
}

fn named(name: &str) -> Result<BuiltIn, ControllersError> {
    let known = BuiltIn::ALL.iter().find(|controller| controller.name() == name);
    known.copied().ok_or_else(|| ControllersError::Unknown { name: name.to_owned() })
}

fn names() -> String {
    BuiltIn::ALL.iter().map(|controller| controller.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_by_name() {
        let chosen: Controllers = "deployment, replicaset".parse().unwrap();
        assert_eq!(chosen.chosen.into_iter().collect::<Vec<_>>(), [BuiltIn::Deployment, BuiltIn::ReplicaSet]);
        assert!("none".parse::<Controllers>().unwrap().is_empty());
        assert_eq!("*".parse::<Controllers>().unwrap().chosen.len(), BuiltIn::ALL.len());
        let all_but_nodes = "*,-nodes".parse::<Controllers>().unwrap();
        assert!(!all_but_nodes.contains(BuiltIn::Nodes) && all_but_nodes.contains(BuiltIn::Deployment));
        assert_eq!(all_but_nodes.chosen.len(), BuiltIn::ALL.len() - 1);
        assert!("*,-node".parse::<Controllers>().unwrap_err().to_string().contains("\"node\""));
        let error = "deployment,cronjobs".parse::<Controllers>().unwrap_err().to_string();
        assert!(error.contains("\"cronjobs\"") && error.contains("replicaset"), "{error}");
        assert_eq!("none,deployment".parse::<Controllers>().unwrap_err(), ControllersError::NoneOfSome);
        for empty in ["", "deployment,", "deployment, ,nodes"] {
            assert_eq!(empty.parse::<Controllers>().unwrap_err(), ControllersError::Empty);
        }
    }
}
