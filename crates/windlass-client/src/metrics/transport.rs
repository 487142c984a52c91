//! What is counted below the requests: of connections, of TLS, of plugins.

use std::{fmt::Debug, sync::Arc, time::Duration};

/// Told of what the clients of a configuration do to reach the server. Each method does nothing unless it is implemented;
/// Go's name for each metric stands with it, where Go has one.
///
/// Clients that share connections tell those who came first.
pub trait TransportMetrics: Debug + Send + Sync + 'static {
    /// The addresses of a host were looked up, or could not be: `rest_client_dns_resolution_duration_seconds`.
    fn resolved(&self, host: &str, took: Duration) {
        let _ = (host, took);
    }

    /// A connection was opened, TLS included, or could not be.
    fn connected(&self, connection: &Opened<'_>) {
        let _ = connection;
    }

    /// A client took up connections that others share, or new ones; those of so many configurations are now open:
    /// `rest_client_transport_create_calls_total`, `rest_client_transport_cache_entries`.
    fn transport_taken(&self, from: Source, open: usize) {
        let _ = (from, open);
    }

    /// The files that TLS is made of were looked at: `rest_client_transport_ca_reload_total`.
    fn tls_files_read(&self, found: Found) {
        let _ = found;
    }

    /// A plugin for credentials was to be run: `rest_client_exec_plugin_call_total`.
    fn plugin_called(&self, outcome: PluginCall) {
        let _ = outcome;
    }

    /// Whether a plugin may be run was decided: `rest_client_exec_plugin_policy_call_total`.
    fn plugin_judged(&self, verdict: Verdict) {
        let _ = verdict;
    }

    /// A plugin has handed out credentials; `None`: they hold until they are refused.
    /// `rest_client_exec_plugin_ttl_seconds`.
    fn credentials_expire(&self, at: Option<jiff::Timestamp>) {
        let _ = at;
    }
}

/// An attempt to open a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Opened<'c> {
    /// Host and port of the server.
    pub server: &'c str,
    /// Whether there is a connection.
    pub outcome: Outcome,
    /// Name, proxy and TLS included.
    pub took: Duration,
}

/// Whether something was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its own name")]
pub enum Outcome {
    Succeeded,
    Failed,
}

/// Where a client's connections come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// They are those of other clients: `hit`.
    Shared,
    /// They are its own: `miss`.
    New,
}

/// What files hold that were read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// The same.
    Unchanged,
    /// Something else, which is now in use.
    Changed,
    /// Nothing that can be used; what was read before stands.
    Unusable,
}

/// How a run of a plugin ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginCall {
    /// It has handed out something: `no_error`.
    Succeeded,
    /// It has failed, with this exit code if it had one: `plugin_execution_error`.
    Failed(Option<i32>),
    /// There is no such program: `plugin_not_found_error`.
    Missing,
    /// It was not run, or its answer could not be read: `client_internal_error`.
    Unusable,
}

/// Whether a plugin may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its own name")]
pub enum Verdict {
    Allowed,
    Denied,
}

/// Whoever counts, if anybody does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audience(Option<Arc<dyn TransportMetrics>>);

impl Audience {
    pub(crate) fn of(metrics: impl TransportMetrics) -> Self {
        Self(Some(Arc::new(metrics)))
    }

    pub(crate) fn tell(&self, what: impl FnOnce(&dyn TransportMetrics)) {
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

impl PluginCall {
    pub(crate) fn of_error(error: &crate::auth::PluginError) -> Self {
        use crate::auth::PluginError as Error;
        match error {
            Error::Failed { code } => Self::Failed(*code),
            Error::Missing { .. } => Self::Missing,
            _ => Self::Unusable,
        }
    }
}
