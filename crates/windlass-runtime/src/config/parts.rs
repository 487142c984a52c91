//! The parts of a configuration. What a field is called in a file is said in camel case: `leaseDuration`.

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::units;
use crate::ControllerOverride;

/// `metrics`: where a [`MetricsServer`](crate::metrics::MetricsServer) answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Metrics {
    /// `host:port`, or `:port` for every address of the machine; `0` is nowhere, and the default.
    pub bind_address: String,
    /// Over TLS, which is the default.
    pub secure: bool,
    /// Who may see them; by default whom the cluster lets, if they are secure, else everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// By default the program makes one itself, which nobody else has signed.
    pub certificate: Certificate,
}

/// Who may see metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// Whoever shows a token that the cluster knows, and may `get` the path.
    Authorized,
    /// Whoever gets there.
    Everybody,
}

/// A certificate in files, which may be replaced while the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Certificate {
    /// The directory of the two files. Without it the program sees to a certificate itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The file of the certificate, `tls.crt`.
    pub name: String,
    /// The file of the key, `tls.key`.
    pub key: String,
}

/// `health`: where [`Probes`](crate::health::Probes) are answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Health {
    /// As that of metrics; `:8081` by default.
    pub bind_address: String,
}

/// `console`: where a [`Console`](crate::Console) is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ConsoleAddress {
    /// A port of this machine's loopback, or `host:port`; `0` is nowhere, and the default.
    pub bind_address: String,
}

/// `leaderElection`: see [`LeaderElection`](crate::LeaderElection), whose methods say what the durations are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Election {
    /// Whether there is one; not by default.
    pub enabled: bool,
    /// The name of the lease: usually what the program has for a default.
    pub id: String,
    /// The lease's namespace; by default the client's, which in a cluster is that of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// 15 seconds by default.
    #[serde(with = "units::duration")]
    pub lease_duration: Duration,
    /// 10 seconds by default.
    #[serde(with = "units::duration")]
    pub renew_deadline: Duration,
    /// 2 seconds by default.
    #[serde(with = "units::duration")]
    pub retry_period: Duration,
    /// Whether the lease is given up on a stop, when all that needed it has ended; not by default.
    pub release_on_cancel: bool,
}

/// `sharding`: see [`Sharding`](crate::Sharding), whose methods say what the durations are. Only controllers that are sharded are
/// concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Shards {
    /// Whether keys are shared; not by default.
    pub enabled: bool,
    /// The name of those who share them: usually what the program has for a default.
    pub group: String,
    /// The namespace of the leases; by default the client's, which in a cluster is that of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// 15 seconds by default.
    #[serde(with = "units::duration")]
    pub lease_duration: Duration,
    /// 10 seconds by default.
    #[serde(with = "units::duration")]
    pub renew_deadline: Duration,
    /// 2 seconds by default.
    #[serde(with = "units::duration")]
    pub retry_period: Duration,
    /// 2 seconds by default.
    #[serde(with = "units::duration")]
    pub margin: Duration,
    /// 30 seconds by default.
    #[serde(with = "units::duration")]
    pub patience: Duration,
}

/// `webhook`: where a webhook server answers, see [`Self::server`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Webhook {
    /// All of the machine's addresses by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<IpAddr>,
    /// 9443 by default; 0 is any that is free.
    pub port: u16,
    /// Whether HTTP/2 is spoken; not by default, as in what kubebuilder makes.
    pub http2: bool,
    /// By default what the program sees to: [`WebhookCertificates`](crate::webhook::WebhookCertificates), say.
    pub certificate: Certificate,
    /// A file of the authorities of those who may connect; by default everybody may.
    #[serde(rename = "clientCA", skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

/// `cache`: what holds for the caches of kinds for which the program has chosen nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Cache {
    /// Only what is in these namespaces, each watched by itself; by default all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// How often every object is reconciled again, changed or not; by default never.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::optional_duration")]
    pub resync: Option<Duration>,
    /// How many bytes of objects each kind may take before they are compressed, `64Mi`; 512 MiB by default, or an eighth of the
    /// memory limit of the process' cgroup if that is less.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::optional_bytes")]
    pub memory_budget: Option<usize>,
}

/// `controllers`: what holds for controllers that choose nothing else, and what holds whatever they choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Controllers {
    /// How many keys each reconciles at the same time; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroUsize>,
    /// The same of the controllers of a kind: `Deployment.apps`.
    pub group_kind_concurrency: BTreeMap<String, NonZeroUsize>,
    /// How long they wait for their caches; 2 minutes by default.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::optional_duration")]
    pub cache_sync_timeout: Option<Duration>,
    /// How long a reconcile may take; as long as it likes by default.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::optional_duration")]
    pub reconcile_timeout: Option<Duration>,
    /// By the controller's name, what holds whatever it chooses itself. A name that no controller has when the manager starts is
    /// an error.
    pub overrides: BTreeMap<String, ControllerOverride>,
}

/// `client`: how the cluster is reached, see [`Self::connect`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Connection {
    /// A kubeconfig; by default what `$KUBECONFIG`, the home folder or the pod has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of it; by default the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Requests a second; without a limit by default, because queues limit the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps: Option<f64>,
    /// Requests at once, where there is a limit; by default one and a half times as many as a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { bind_address: "0".into(), secure: true, access: None, certificate: Certificate::default() }
    }
}

impl Default for Certificate {
    fn default() -> Self {
        Self { path: None, name: "tls.crt".into(), key: "tls.key".into() }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self { bind_address: ":8081".into() }
    }
}

impl Default for ConsoleAddress {
    fn default() -> Self {
        Self { bind_address: "0".into() }
    }
}

impl Default for Election {
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period] = [15, 10, 2].map(Duration::from_secs);
        Self {
            enabled: false,
            id: String::new(),
            namespace: None,
            lease_duration,
            renew_deadline,
            retry_period,
            release_on_cancel: false,
        }
    }
}

impl Default for Shards {
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period, margin, patience] =
            [15, 10, 2, 2, 30].map(Duration::from_secs);
        Self {
            enabled: false,
            group: String::new(),
            namespace: None,
            lease_duration,
            renew_deadline,
            retry_period,
            margin,
            patience,
        }
    }
}

impl Default for Webhook {
    fn default() -> Self {
        Self { host: None, port: 9443, http2: false, certificate: Certificate::default(), client_ca: None }
    }
}
