//! The checks of the probes, with the names and in the order of kube-apiserver.
//!
//! A name stands for a part of kube-apiserver. Not all of these parts exist here separately. A check then depends on the
//! state without which the function of that part is missing:
//!
//! | state | checks |
//! |---|---|
//! | The server answers. It calls itself without a connection, so there is no loopback certificate that expires. | `ping`, `loopback-serving-certificate` |
//! | The log takes an event. The program's subscriber writes it during the check. | `log` |
//! | The storage answers: etcd a read, a directory reads and writes. | `etcd`, `etcd-readiness` |
//! | The registry has started. Its start creates the namespaces, the priority classes, the range of services, the service `kubernetes` with its endpoints, and the ConfigMaps about authentication. It reads the CRDs and API services, and starts the tasks that follow them. In a shared storage, it also creates the Lease of the server. | `informer-sync`, and the post-start hooks of informers, controllers and caches |
//! | The roles are reconciled, the API services exist, and the objects of priority and fairness are applied. The check begins this if no request has needed it so far. | `rbac/bootstrap-roles`, `priority-and-fairness-*`, `kube-apiserver-autoregistration`, `autoregister-completion` |
//! | The server is not shutting down. | `shutdown` |
//!
//! As in kube-apiserver, a post-start hook that has finished stays `ok`.

use std::{borrow::Cow, time::Duration};

use tokio::time::timeout;
use windlass_api::Status;

use crate::{kubernetes::KubernetesVersion, state::State};

/// The probes that include a check: `healthz`, `livez`, `readyz`.
type Probes = [bool; 3];

const ALL: Probes = [true, true, true];
const NOT_READYZ: Probes = [true, true, false];
const NOT_LIVEZ: Probes = [true, false, true];
const READYZ: Probes = [false, false, true];

/// The names of the probes.
const PROBES: [&str; 3] = ["healthz", "livez", "readyz"];

/// The time that a probe waits for a start. kube-apiserver does not wait, but it starts without a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state that a check depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Answers,
    Log,
    Storage,
    /// The check that the program has added.
    Added,
    Registry,
    Deferred,
    Runs,
}

/// A check that some servers have.
struct Row {
    name: &'static str,
    probes: Probes,
    condition: Condition,
    /// Reports whether a server has the check.
    applies: fn(&State) -> bool,
}

/// A check of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    condition: Condition,
}

/// The results of one probe so far, so that checks with the same condition share one.
#[derive(Debug, Default)]
pub(super) struct Results {
    storage: Option<Result<(), String>>,
    registry: Option<bool>,
    deferred: Option<bool>,
}

const fn row(name: &'static str, probes: Probes, condition: Condition, applies: fn(&State) -> bool) -> Row {
    Row { name, probes, condition, applies }
}

const fn hook(name: &'static str, condition: Condition, applies: fn(&State) -> bool) -> Row {
    row(name, ALL, condition, applies)
}

const ROWS: &[Row] = &[
    row("ping", ALL, Condition::Answers, always),
    row("log", ALL, Condition::Log, always),
    row("loopback-serving-certificate", NOT_READYZ, Condition::Answers, since_1_36),
    row("etcd", ALL, Condition::Storage, always),
    row("etcd-readiness", READYZ, Condition::Storage, always),
    row("", NOT_LIVEZ, Condition::Added, always),
    row("informer-sync", READYZ, Condition::Registry, always),
    hook("poststarthook/start-apiserver-admission-initializer", Condition::Registry, always),
    hook("poststarthook/generic-apiserver-start-informers", Condition::Registry, always),
    hook("poststarthook/priority-and-fairness-config-consumer", Condition::Deferred, is_fair),
    hook("poststarthook/priority-and-fairness-filter", Condition::Deferred, is_fair),
    hook("poststarthook/max-in-flight-filter", Condition::Registry, is_unfair),
    hook("poststarthook/storage-object-count-tracker-hook", Condition::Registry, always),
    hook("poststarthook/start-apiextensions-informers", Condition::Registry, is_cluster),
    hook("poststarthook/start-apiextensions-controllers", Condition::Registry, is_cluster),
    hook("poststarthook/crd-informer-synced", Condition::Registry, is_cluster),
    hook("poststarthook/start-system-namespaces-controller", Condition::Registry, is_cluster),
    hook("poststarthook/peer-endpoint-reconciler-controller", Condition::Registry, is_cluster_since_1_36),
    hook("poststarthook/start-cluster-authentication-info-controller", Condition::Registry, is_cluster),
    hook("poststarthook/start-kube-apiserver-identity-lease-controller", Condition::Registry, is_cluster),
    hook("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", Condition::Registry, is_cluster),
    hook("poststarthook/storage-readiness", Condition::Registry, is_cluster_since_1_36),
    hook("poststarthook/start-legacy-token-tracking-controller", Condition::Registry, is_cluster),
    hook("poststarthook/start-service-ip-repair-controllers", Condition::Registry, is_cluster),
    hook("poststarthook/rbac/bootstrap-roles", Condition::Deferred, has_roles),
    hook("poststarthook/scheduling/bootstrap-system-priority-classes", Condition::Registry, is_cluster),
    hook("poststarthook/priority-and-fairness-config-producer", Condition::Deferred, is_cluster),
    hook("poststarthook/bootstrap-controller", Condition::Registry, is_cluster),
    hook("poststarthook/start-kubernetes-service-cidr-controller", Condition::Registry, is_cluster),
    hook("poststarthook/aggregator-reload-proxy-client-cert", Condition::Registry, has_proxy_identity),
    hook("poststarthook/start-kube-aggregator-informers", Condition::Registry, is_cluster),
    hook("poststarthook/apiservice-status-local-available-controller", Condition::Registry, is_cluster),
    hook("poststarthook/apiservice-status-remote-available-controller", Condition::Registry, is_cluster),
    hook("poststarthook/apiservice-registration-controller", Condition::Registry, is_cluster),
    hook("poststarthook/apiservice-discovery-controller", Condition::Registry, is_cluster),
    hook("poststarthook/kube-apiserver-autoregistration", Condition::Deferred, is_cluster),
    row("autoregister-completion", ALL, Condition::Deferred, is_cluster),
    hook("poststarthook/apiservice-openapi-controller", Condition::Registry, is_cluster),
    hook("poststarthook/apiservice-openapiv3-controller", Condition::Registry, is_cluster),
    row("shutdown", READYZ, Condition::Runs, always),
];

fn always(_: &State) -> bool {
    true
}

fn since_1_36(server: &State) -> bool {
    server.choices.kubernetes >= KubernetesVersion::V1_36
}

/// Reports whether the server has the built-in kinds of a cluster. A program that extends a cluster does not.
fn is_cluster(server: &State) -> bool {
    server.choices.extension.is_none()
}

fn is_cluster_since_1_36(server: &State) -> bool {
    is_cluster(server) && since_1_36(server)
}

fn is_fair(server: &State) -> bool {
    server.flow_control().fairness().is_some()
}

fn is_unfair(server: &State) -> bool {
    !is_fair(server)
}

fn has_roles(server: &State) -> bool {
    is_cluster(server) && server.authorizer.has_roles()
}

fn has_proxy_identity(server: &State) -> bool {
    is_cluster(server) && server.aggregation().has_identity()
}

/// Reports whether a start succeeds within [`PATIENCE`]. It continues after that.
async fn finished<T>(start: impl Future<Output = Result<T, Status>>) -> bool {
    matches!(timeout(PATIENCE, start).await, Ok(Ok(_)))
}

/// Returns the names of the probes, each with its checks.
pub(super) fn all(server: &State) -> impl Iterator<Item = (&'static str, Vec<Check>)> {
    PROBES.into_iter().filter_map(|probe| Some((probe, of_probe(server, probe)?)))
}

/// Returns the checks of a probe. Returns `None` for another name.
pub(super) fn of_probe(server: &State, probe: &str) -> Option<Vec<Check>> {
    let index = PROBES.iter().position(|known| *known == probe)?;
    let rows = ROWS.iter().filter(|row| row.probes[index] && (row.applies)(server));
    Some(rows.filter_map(|row| Check::new(row, server)).collect())
}

// === impl Check ===

impl Check {
    /// Returns `None` for the check of the program, if it has not added one.
    fn new(row: &Row, server: &State) -> Option<Self> {
        let name = match row.condition {
            Condition::Added => server.added_check()?.name,
            _ => row.name,
        };
        Some(Self { name, condition: row.condition })
    }

    /// Returns the reason of a failure. As in kube-apiserver, only the path of the check itself reports it, for which
    /// clients need more permissions than for the probe.
    pub(super) async fn run(self, server: &State, results: &mut Results) -> Result<(), Cow<'static, str>> {
        let holds = match self.condition {
            Condition::Log => {
                tracing::trace!("the log takes events");
                return Ok(());
            }
            Condition::Storage => return results.storage(server).await.map_err(Into::into),
            Condition::Added => match server.added_check() {
                Some(added) => return (added.check)().await.map_err(|error| error.to_string().into()),
                None => true,
            },
            Condition::Registry => results.registry(server).await,
            Condition::Deferred => results.deferred(server).await,
            Condition::Runs if server.is_stopping() => return Err("process is shutting down".into()),
            Condition::Runs | Condition::Answers => true,
        };
        if holds { Ok(()) } else { Err("not finished".into()) }
    }
}

// === impl Results ===

impl Results {
    async fn storage(&mut self, server: &State) -> Result<(), String> {
        if self.storage.is_none() {
            self.storage = Some(server.storage().check().await.map_err(|error| error.to_string()));
        }
        self.storage.clone().unwrap_or(Ok(()))
    }

    /// Reports whether the registry has started. Starts it, unless the storage does not work.
    async fn registry(&mut self, server: &State) -> bool {
        if let Some(known) = self.registry {
            return known;
        }
        let is_blocked = matches!(self.storage, Some(Err(_)));
        let has_started = server.registry.get().is_some() || (!is_blocked && finished(server.registry()).await);
        *self.registry.insert(has_started)
    }

    /// Reports whether the roles, flow control objects and API services exist. Creates them, unless the storage does not
    /// work.
    async fn deferred(&mut self, server: &State) -> bool {
        if let Some(known) = self.deferred {
            return known;
        }
        let is_blocked = matches!(self.storage, Some(Err(_))) || !self.registry(server).await;
        let exist = server.deferred.initialized() || (!is_blocked && finished(server.ensure_deferred()).await);
        *self.deferred.insert(exist)
    }
}
