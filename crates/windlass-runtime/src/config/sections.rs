//! The sections of a configuration. Field names in files are in camel case: `leaseDuration`.

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{ControllerOverride, units};

/// `metrics`: the [`MetricsServer`](crate::metrics::MetricsServer).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct Metrics {
    /// `host:port`, or `:port` for every address of the machine. Defaults to `0`, which disables the server.
    #[serde(deserialize_with = "units::text")]
    pub bind_address: String,
    /// Serves over TLS. Defaults to `true`.
    pub secure: bool,
    /// The clients that may read metrics. Defaults to authorized clients if `secure` is set, otherwise everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// The serving certificate. Defaults to a generated self-signed certificate.
    pub certificate: Certificate,
}

/// The clients that may read metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// Clients with a token that the cluster accepts, and that may `get` the path.
    Authorized,
    /// Every client that can connect.
    Everybody,
}

/// A certificate in files. The files may be replaced while the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct Certificate {
    /// The directory of the two files. If it is not set, the program provides a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The file name of the certificate. Defaults to `tls.crt`.
    pub name: String,
    /// The file name of the key. Defaults to `tls.key`.
    pub key: String,
}

/// `health`: the server of the [`Probes`](crate::health::Probes).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct Health {
    /// `host:port`, or `:port` for every address of the machine; `0` disables the server. Defaults to `:8081`.
    #[serde(deserialize_with = "units::text")]
    pub bind_address: String,
}

/// `console`: the [`Console`](crate::Console).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct ConsoleAddress {
    /// A port on loopback, or `host:port`. Defaults to `0`, which disables the console.
    #[serde(deserialize_with = "units::text")]
    pub bind_address: String,
}

/// `leaderElection`: the settings of [`LeaderElection`](crate::LeaderElection). Its methods document the durations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct LeaderElectionConfig {
    /// Enables leader election. Defaults to `false`.
    pub enabled: bool,
    /// The name of the lease. Programs usually set a default.
    pub id: String,
    /// The namespace of the lease. Defaults to the client's namespace, which in a cluster is the pod's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Defaults to 15 s.
    #[serde(with = "units::duration")]
    pub lease_duration: Duration,
    /// Defaults to 10 s.
    #[serde(with = "units::duration")]
    pub renew_deadline: Duration,
    /// Defaults to 2 s.
    #[serde(with = "units::duration")]
    pub retry_period: Duration,
    /// Releases the lease on shutdown, after all runnables that need leadership have ended. Defaults to `false`.
    pub release_on_cancel: bool,
}

/// `sharding`: the settings of [`Sharding`](crate::Sharding). Its methods document the durations. Only sharded
/// controllers are affected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct ShardingConfig {
    /// Enables sharding. Defaults to `false`.
    pub enabled: bool,
    /// The name of the group. Programs usually set a default.
    pub group: String,
    /// The namespace of the leases. Defaults to the client's namespace, which in a cluster is the pod's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Defaults to 15 s.
    #[serde(with = "units::duration")]
    pub lease_duration: Duration,
    /// Defaults to 10 s.
    #[serde(with = "units::duration")]
    pub renew_deadline: Duration,
    /// Defaults to 2 s.
    #[serde(with = "units::duration")]
    pub retry_period: Duration,
    /// Defaults to 2 s.
    #[serde(with = "units::duration")]
    pub margin: Duration,
    /// Defaults to 30 s.
    #[serde(with = "units::duration")]
    pub patience: Duration,
}

/// `webhook`: the webhook server, see [`Self::server`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct Webhook {
    /// The IP address to listen on. Defaults to all addresses of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<IpAddr>,
    /// The port to listen on; 0 selects a free port. Defaults to 9443.
    pub port: u16,
    /// Enables HTTP/2. Defaults to `false`, as in programs generated by kubebuilder.
    pub http2: bool,
    /// The serving certificate. By default the program provides one, for example with
    /// [`WebhookCertificates`](crate::webhook::WebhookCertificates).
    pub certificate: Certificate,
    /// A file with the authorities of client certificates. By default every client may connect.
    #[serde(rename = "clientCA", skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

/// `cache`: the caches of all kinds for which the program sets no options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct Cache {
    /// The namespaces to cache, with one watch each. Defaults to all namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The interval at which every object is reconciled again, changed or not. Defaults to never.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::optional_duration")]
    pub resync: Option<Duration>,
    /// The number of bytes per kind above which cached objects are compressed, for example `64Mi`. Defaults to 512 MiB,
    /// or an eighth of the memory limit of the process's cgroup if that is less.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::optional_bytes")]
    pub memory_budget: Option<usize>,
}

/// `controllers`: defaults for all controllers, and overrides for single ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct Controllers {
    /// The number of keys that a controller reconciles concurrently. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroUsize>,
    /// The concurrency of the controllers of a kind: `Deployment.apps`.
    pub group_kind_concurrency: BTreeMap<String, NonZeroUsize>,
    /// How long controllers wait for their caches to sync. Defaults to 2 minutes.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::optional_duration")]
    pub cache_sync_timeout: Option<Duration>,
    /// The time limit of a reconcile. Defaults to no limit.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::optional_duration")]
    pub reconcile_timeout: Option<Duration>,
    /// Overrides by controller name, which take precedence over the controller's own settings. A name without a
    /// controller at the manager's start is an error.
    pub overrides: BTreeMap<String, ControllerOverride>,
}

/// `client`: the connection to the cluster, see [`Self::connect`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a map")]
#[non_exhaustive]
pub struct Connection {
    /// The kubeconfig. Defaults to `$KUBECONFIG`, the file in the home directory, or the pod's service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Defaults to the current context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The maximum number of requests per second. Defaults to no limit, because queues limit the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps: Option<f64>,
    /// The maximum burst of requests, if there is a limit. Defaults to one and a half times `qps`.
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

impl Default for LeaderElectionConfig {
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

impl Default for ShardingConfig {
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
