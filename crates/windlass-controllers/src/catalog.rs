//! The list of built-in controllers, and the choice of the ones to run.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc, time::Duration};

use thiserror::Error;
use windlass_client::Client;
use windlass_runtime::Manager;

use crate::{
    Autoscaling, CertificateSigner, EvictionRates, Identity, Pace, Stages, TokenSigner, autoscaler, certificates,
    cronjob, daemonset, deployment, disruption, endpoints, ephemeral_volume, garbage_collector, identity::Identities,
    job, namespace, node_lifecycle, nodes, policy_status, replicaset, resource_quota, role_aggregation,
    service_account, service_account_tokens, statefulset, storage_protection, storage_version_migrator,
    ttl_after_finished, volumes,
};

/// The default number of simulated nodes.
const NODES: usize = 3;
/// The default time without heartbeats after which a node is unreachable.
const NODE_GRACE: Duration = Duration::from_secs(50);

/// A built-in controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BuiltIn {
    /// Rolls out Deployments.
    Deployment,
    /// Keeps the replica count of ReplicaSets.
    ReplicaSet,
    /// Keeps the replica count of ReplicationControllers.
    ReplicationController,
    /// Runs the pods of StatefulSets, each with a stable name and its own claims.
    StatefulSet,
    /// Runs one pod of a DaemonSet on each matching node.
    DaemonSet,
    /// Runs pods until enough of them have succeeded.
    Job,
    /// Creates Jobs on a schedule.
    CronJob,
    /// Deletes finished Jobs after their time to live.
    TtlAfterFinished,
    /// Computes the number of allowed evictions of PodDisruptionBudgets.
    Disruption,
    /// Scales workloads by metrics.
    HorizontalPodAutoscaling,
    /// Writes the EndpointSlices of services.
    EndpointSlice,
    /// Mirrors user-defined Endpoints to EndpointSlices.
    EndpointSliceMirroring,
    /// Writes the Endpoints of services, for clients that do not read EndpointSlices.
    Endpoints,
    /// Deletes the content of terminating namespaces.
    Namespace,
    /// Creates the default ServiceAccount and the certificate authority's ConfigMap in each namespace.
    ServiceAccount,
    /// Computes the usage of ResourceQuotas.
    ResourceQuota,
    /// Fills aggregated ClusterRoles with the rules of the selected roles.
    RoleAggregation,
    /// Deletes dependents whose owners are gone.
    GarbageCollector,
    /// Binds claims to volumes, and reclaims the volumes of deleted claims.
    PersistentVolume,
    /// Creates the claims of pods with generic ephemeral volumes.
    EphemeralVolume,
    /// Protects claims and volumes that are in use from deletion.
    StorageProtection,
    /// Rewrites stored objects in the current storage version, as StorageVersionMigrations request.
    StorageVersionMigrator,
    /// Checks the types of the expressions in ValidatingAdmissionPolicies.
    ValidatingAdmissionPolicyStatus,
    /// Approves the certificate requests of kubelets whose users have the permission.
    CsrApproving,
    /// Signs the approved certificate requests of the built-in signers.
    CsrSigning,
    /// Deletes old certificate requests.
    CsrCleaner,
    /// Sets the taints, labels and annotations that a control plane adds to nodes, detects nodes without heartbeats, and
    /// evicts pods from nodes with `NoExecute` taints.
    NodeLifecycle,
    /// Simulated nodes, with their scheduler and kubelets.
    Nodes,
}

/// A selection of controllers, with their settings.
#[derive(Clone, Debug)]
#[must_use = "controllers do nothing until they are added to a manager"]
pub struct Controllers {
    chosen: BTreeSet<BuiltIn>,
    nodes: usize,
    zones: u16,
    /// `true` if another program binds claims.
    binder_elsewhere: bool,
    pace: Pace,
    stages: Stages,
    node_grace: Duration,
    eviction_rates: EvictionRates,
    root_ca: Option<Arc<str>>,
    token_signer: Option<TokenSigner>,
    certificate_signer: Option<CertificateSigner>,
    autoscaling: Autoscaling,
    identities: Identities,
}

/// An invalid selection of controllers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControllersError {
    /// The name belongs to no built-in controller.
    #[error("unknown controller {name:?}: valid names are {}, or none", names())]
    Unknown {
        /// The name as given.
        name: String,
    },
    /// A name in the list is empty.
    #[error("a name is empty: valid names are {}, or none", names())]
    Empty,
    /// The list combines `none` with controllers.
    #[error("none cannot be combined with controllers")]
    NoneOfSome,
}

impl BuiltIn {
    /// All built-in controllers, in display order.
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
        Self::ResourceQuota,
        Self::RoleAggregation,
        Self::GarbageCollector,
        Self::PersistentVolume,
        Self::EphemeralVolume,
        Self::StorageProtection,
        Self::StorageVersionMigrator,
        Self::ValidatingAdmissionPolicyStatus,
        Self::CsrApproving,
        Self::CsrSigning,
        Self::CsrCleaner,
        Self::NodeLifecycle,
        Self::Nodes,
    ];

    /// Returns the name used in flags and logs.
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
            Self::ResourceQuota => "resourcequota",
            Self::RoleAggregation => "clusterroleaggregation",
            Self::GarbageCollector => "garbagecollector",
            Self::PersistentVolume => "persistentvolume",
            Self::EphemeralVolume => "ephemeralvolume",
            Self::StorageProtection => "storageprotection",
            Self::StorageVersionMigrator => "storageversionmigrator",
            Self::ValidatingAdmissionPolicyStatus => "validatingadmissionpolicystatus",
            Self::CsrApproving => "csrapproving",
            Self::CsrSigning => "csrsigning",
            Self::CsrCleaner => "csrcleaner",
            Self::NodeLifecycle => "nodelifecycle",
            Self::Nodes => "nodes",
        }
    }
}

impl BuiltIn {
    /// Returns the service account in the namespace `kube-system` that the controller acts as: that of the real controller.
    /// `None` for [`BuiltIn::Nodes`], which acts as several users.
    #[must_use]
    pub const fn account(self) -> Option<&'static str> {
        Some(match self {
            Self::Deployment => "deployment-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::ReplicationController => "replication-controller",
            Self::StatefulSet => "statefulset-controller",
            Self::DaemonSet => "daemon-set-controller",
            Self::Job => "job-controller",
            Self::CronJob => "cronjob-controller",
            Self::TtlAfterFinished => "ttl-after-finished-controller",
            Self::Disruption => "disruption-controller",
            Self::HorizontalPodAutoscaling => "horizontal-pod-autoscaler",
            Self::EndpointSlice => "endpointslice-controller",
            Self::EndpointSliceMirroring => "endpointslicemirroring-controller",
            Self::Endpoints => "endpoint-controller",
            Self::Namespace => "namespace-controller",
            Self::ServiceAccount => "service-account-controller",
            Self::ResourceQuota => "resourcequota-controller",
            Self::RoleAggregation => "clusterrole-aggregation-controller",
            Self::GarbageCollector => "generic-garbage-collector",
            Self::PersistentVolume => "persistent-volume-binder",
            Self::EphemeralVolume => "ephemeral-volume-controller",
            Self::StorageProtection => "pvc-protection-controller",
            Self::StorageVersionMigrator => "storage-version-migrator-controller",
            Self::ValidatingAdmissionPolicyStatus => "validatingadmissionpolicy-status-controller",
            Self::CsrApproving | Self::CsrSigning | Self::CsrCleaner => "certificate-controller",
            Self::NodeLifecycle => "node-controller",
            Self::Nodes => return None,
        })
    }
}

impl fmt::Display for BuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Controllers {
    /// Selects all controllers.
    pub fn all() -> Self {
        Self::of(BuiltIn::ALL.iter().copied())
    }

    /// Selects the given controllers.
    pub fn of(chosen: impl IntoIterator<Item = BuiltIn>) -> Self {
        Self {
            chosen: chosen.into_iter().collect(),
            nodes: NODES,
            zones: 0,
            binder_elsewhere: false,
            pace: Pace::default(),
            stages: Stages::default(),
            node_grace: NODE_GRACE,
            eviction_rates: EvictionRates::default(),
            root_ca: None,
            token_signer: None,
            certificate_signer: None,
            autoscaling: Autoscaling::default(),
            identities: Identities::default(),
        }
    }

    /// Sets the number of simulated nodes, named `node-0`, `node-1` and so on. Defaults to 3.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Spreads the simulated nodes evenly over `zones` zones, named `zone-0`, `zone-1` and so on, of the region
    /// `region-0`. By default, nodes have no zones.
    pub fn zones(mut self, zones: u16) -> Self {
        self.zones = zones;
        self
    }

    /// Lets the simulated nodes provision volumes, and their pods wait for their claims, although another program runs
    /// [`BuiltIn::PersistentVolume`]. Without either, pods do not wait for their claims.
    pub fn binder_elsewhere(mut self) -> Self {
        self.binder_elsewhere = true;
        self
    }

    /// Sets the time without heartbeats after which a node is unreachable: its conditions become `Unknown`, and its pods
    /// are evicted. Defaults to 50 s, as in kube-controller-manager.
    pub fn node_monitor_grace_period(mut self, grace: Duration) -> Self {
        self.node_grace = grace;
        self
    }

    /// Sets the rates at which the pods of unready nodes are evicted. The defaults are those of kube-controller-manager.
    pub fn eviction_rates(mut self, rates: EvictionRates) -> Self {
        self.eviction_rates = rates;
        self
    }

    /// Sets rules for the life cycle of pods and nodes on the simulated nodes. Pods and nodes that no stage has selected
    /// yet have the default life cycle.
    pub fn stages(mut self, stages: Stages) -> Self {
        self.stages = stages;
        self
    }

    /// Sets the durations on the simulated nodes.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Sets the certificate authority of the API server, as PEM. Without it, namespaces get no ConfigMap with the
    /// certificate.
    pub fn root_ca(mut self, pem: impl Into<Arc<str>>) -> Self {
        self.root_ca = Some(pem.into());
        self
    }

    /// Sets the signer of the tokens in secrets of type `kubernetes.io/service-account-token`, which the controller of
    /// ServiceAccounts fills in. Without it, such secrets stay empty.
    pub fn token_signer(mut self, signer: TokenSigner) -> Self {
        self.token_signer = Some(signer);
        self
    }

    /// Sets the signer of the built-in signers' certificates. Without it, approved certificate requests get none.
    pub fn certificate_signer(mut self, signer: CertificateSigner) -> Self {
        self.certificate_signer = Some(signer);
        self
    }

    /// Sets the autoscaler's settings and its source of metrics.
    pub fn autoscaling(mut self, autoscaling: Autoscaling) -> Self {
        self.autoscaling = autoscaling;
        self
    }

    /// Lets each controller act as its own user, as kube-controller-manager does with
    /// `--use-service-account-credentials`. `client_of` returns the client of a user, or `None` to use the client of the
    /// manager.
    ///
    /// The manager's client reads the objects for all controllers and takes part in the leader election. It should be that
    /// of [`Identity::ControllerManager`]. By default, all controllers use it.
    ///
    /// The default roles of kube-apiserver suffice for all users. Simulated nodes need the node authorizer.
    pub fn identities(mut self, client_of: impl Fn(Identity<'_>) -> Option<Client> + Send + Sync + 'static) -> Self {
        self.identities = Identities::new(client_of);
        self
    }

    /// Returns `true` if the controller is selected.
    pub fn contains(&self, controller: BuiltIn) -> bool {
        self.chosen.contains(&controller)
    }

    /// Returns `true` if no controller is selected.
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// Returns the storage mode of the nodes. If no controller binds claims, pods do not wait for their claims.
    fn storage(&self) -> nodes::Storage {
        let has_binder = self.contains(BuiltIn::PersistentVolume) || self.binder_elsewhere;
        if has_binder { nodes::Storage::Simulated } else { nodes::Storage::None }
    }

    /// Adds the selected controllers to a manager.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn add_to(&self, manager: &mut Manager) {
        let identities = &self.identities;
        for controller in &self.chosen {
            let account = match controller.account() {
                Some(account) => Identity::Controller(account),
                None => Identity::ControllerManager,
            };
            identities.add(manager, account, |manager| self.add_one_to(manager, *controller));
            // Those that consist of several controllers in kube-controller-manager.
            match controller {
                BuiltIn::ServiceAccount => {
                    if let Some(signer) = &self.token_signer {
                        // The real controller also acts as the program and not as a service account.
                        identities.add(manager, Identity::ControllerManager, |manager| {
                            service_account_tokens::add_to(manager, signer.clone(), self.root_ca.clone());
                        });
                    }
                }
                BuiltIn::StorageProtection => {
                    let volumes = Identity::Controller("pv-protection-controller");
                    identities.add(manager, volumes, storage_protection::add_volumes_to);
                    let classes = Identity::Controller("volumeattributesclass-protection-controller");
                    identities.add(manager, classes, storage_protection::add_classes_to);
                }
                _ => {}
            }
        }
    }

    fn add_one_to(&self, manager: &mut Manager, controller: BuiltIn) {
        match controller {
            BuiltIn::Deployment => deployment::add_to(manager),
            BuiltIn::ReplicaSet => replicaset::add_to(manager),
            BuiltIn::ReplicationController => replicaset::add_legacy_to(manager),
            BuiltIn::StatefulSet => statefulset::add_to(manager),
            BuiltIn::DaemonSet => daemonset::add_to(manager),
            BuiltIn::Job => job::add_to(manager),
            BuiltIn::CronJob => cronjob::add_to(manager),
            BuiltIn::TtlAfterFinished => ttl_after_finished::add_to(manager),
            BuiltIn::Disruption => disruption::add_to(manager),
            BuiltIn::HorizontalPodAutoscaling => autoscaler::add_to(manager, self.autoscaling.clone()),
            BuiltIn::EndpointSlice => endpoints::add_slices_to(manager),
            BuiltIn::EndpointSliceMirroring => endpoints::add_mirror_to(manager),
            BuiltIn::Endpoints => endpoints::add_legacy_to(manager),
            BuiltIn::Namespace => namespace::add_to(manager),
            BuiltIn::ServiceAccount => {
                service_account::add_to(manager, self.root_ca.clone(), self.identities.clone());
            }
            BuiltIn::ResourceQuota => resource_quota::add_to(manager),
            BuiltIn::RoleAggregation => role_aggregation::add_to(manager),
            BuiltIn::GarbageCollector => garbage_collector::add_to(manager),
            BuiltIn::PersistentVolume => volumes::add_to(manager),
            BuiltIn::EphemeralVolume => ephemeral_volume::add_to(manager),
            BuiltIn::StorageProtection => storage_protection::add_claims_to(manager),
            BuiltIn::StorageVersionMigrator => storage_version_migrator::add_to(manager),
            BuiltIn::ValidatingAdmissionPolicyStatus => policy_status::add_to(manager),
            BuiltIn::CsrApproving => certificates::add_approver_to(manager),
            BuiltIn::CsrSigning => {
                if let Some(signer) = &self.certificate_signer {
                    certificates::add_signer_to(manager, signer.clone());
                }
            }
            BuiltIn::CsrCleaner => certificates::add_cleaner_to(manager),
            BuiltIn::NodeLifecycle => node_lifecycle::add_to(manager, self.node_grace, self.eviction_rates),
            BuiltIn::Nodes => {
                let settings = nodes::Settings {
                    count: self.nodes,
                    zones: self.zones,
                    pace: self.pace.clone(),
                    stages: self.stages.clone(),
                    storage: self.storage(),
                };
                nodes::add_to(manager, settings, &self.identities);
            }
        }
    }
}

impl FromStr for Controllers {
    type Err = ControllersError;

    /// Parses names separated by commas, `*` for all controllers, or `none`. A name after `-` is excluded, whatever its
    /// position.
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
    fn nodes_provision_volumes_if_claims_are_bound() {
        let only = Controllers::of([BuiltIn::Nodes]);
        assert_eq!(only.storage(), nodes::Storage::None);
        assert_eq!(only.binder_elsewhere().storage(), nodes::Storage::Simulated);
        assert_eq!(Controllers::all().storage(), nodes::Storage::Simulated);
    }

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
