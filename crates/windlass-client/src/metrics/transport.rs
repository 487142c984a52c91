//! Metrics below the requests: of connections, TLS and credential plugins.

use std::{fmt::Debug, sync::Arc, time::Duration};

/// A recorder of metrics for the connections of a configuration's clients. The default methods do nothing. Each method
/// documents the name of client-go's metric, if there is one.
///
/// If clients share connections, the recorder of the first client receives the metrics.
pub trait TransportMetrics: Debug + Send + Sync + 'static {
    /// The addresses of a host were looked up, successfully or not: `rest_client_dns_resolution_duration_seconds`.
    fn resolved(&self, host: &str, took: Duration) {
        let _ = (host, took);
    }

    /// A connection was opened, including TLS, or could not be opened.
    fn connected(&self, connection: &Opened<'_>) {
        let _ = connection;
    }

    /// A client started to use shared or new connections. `open` is the number of configurations with connections:
    /// `rest_client_transport_create_calls_total`, `rest_client_transport_cache_entries`.
    fn transport_taken(&self, from: Source, open: usize) {
        let _ = (from, open);
    }

    /// The certificate files of TLS were read again: `rest_client_transport_ca_reload_total`.
    fn tls_files_read(&self, result: TlsReload) {
        let _ = result;
    }

    /// A credential plugin was called: `rest_client_exec_plugin_call_total`.
    fn plugin_called(&self, outcome: PluginCall) {
        let _ = outcome;
    }

    /// The policy allowed or denied a credential plugin: `rest_client_exec_plugin_policy_call_total`.
    fn plugin_policy_checked(&self, decision: PolicyDecision) {
        let _ = decision;
    }

    /// A plugin returned credentials that expire at this time. `None` if they are valid until they are rejected.
    /// `rest_client_exec_plugin_ttl_seconds`.
    fn credentials_expire(&self, at: Option<jiff::Timestamp>) {
        let _ = at;
    }
}

/// An attempt to open a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Opened<'c> {
    /// The host and port of the server.
    pub server: &'c str,
    /// The result of the attempt.
    pub outcome: Outcome,
    /// The time of the attempt, including name resolution, proxy and TLS.
    pub took: Duration,
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Outcome {
    Succeeded,
    Failed,
}

/// The origin of a client's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Shared with other clients: `hit`.
    Shared,
    /// New connections: `miss`.
    New,
}

/// The result of reading files again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsReload {
    /// The content is unchanged.
    Unchanged,
    /// The content has changed and is now in use.
    Changed,
    /// The content is missing or invalid. The earlier content remains in use.
    Unusable,
}

/// The result of a plugin call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginCall {
    /// The plugin returned credentials: `no_error`.
    Succeeded,
    /// The plugin failed, with this exit code if it has one: `plugin_execution_error`.
    Failed(Option<i32>),
    /// The program does not exist: `plugin_not_found_error`.
    Missing,
    /// The plugin was not run, or its output is invalid: `client_internal_error`.
    Unusable,
}

/// The decision of the plugin policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PolicyDecision {
    Allowed,
    Denied,
}

/// The recorder of metrics, if one is configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricsRecorder(Option<Arc<dyn TransportMetrics>>);

impl MetricsRecorder {
    pub(crate) fn new(metrics: impl TransportMetrics) -> Self {
        Self(Some(Arc::new(metrics)))
    }

    pub(crate) fn record(&self, what: impl FnOnce(&dyn TransportMetrics)) {
        if let Some(metrics) = &self.0 {
            what(&**metrics);
        }
    }
}

impl Outcome {
    pub(crate) const fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Succeeded } else { Self::Failed }
    }
}
