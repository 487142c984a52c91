//! Connections that several clients share.
//!
//! client-go keeps a global table of transports. Here, the table belongs to a configuration and its clones. Connections
//! depend on the runtime that opened them, and a program or a test may have several runtimes.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use http::Uri;
use parking_lot::Mutex;

use super::pools::{self, Pools};
use crate::{
    config_error::ConfigError,
    connection_options::{Dialer, LiveIdentity, Proxy, TlsOptions},
    metrics::{MetricsRecorder, Source},
};

/// The default time limit for opening a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Idle connections immediately, the others after their current requests.
    Idle,
    /// All connections immediately. Their requests fail as if the connection broke, and are retried if that is safe.
    /// Watches end.
    All,
}

/// The open connections of a configuration's clients. The table holds only weak references.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Vec<(ConnectionKey, Weak<pools::Shared>)>>>);

/// The settings of connections to a server. Clients with equal settings share connections.
#[derive(Clone, PartialEq)]
pub(crate) struct ConnectionKey {
    pub(crate) server: Uri,
    pub(crate) tls: TlsOptions,
    pub(crate) proxy: Proxy,
    /// The function that opens connections; `None` for TCP.
    pub(crate) dialer: Option<Dialer>,
    /// The time limit for opening a connection, including TLS.
    pub(crate) timeout: Duration,
    /// The client certificate of a credential plugin. It is used if `tls` contains none.
    pub(crate) plugin_identity: Option<LiveIdentity>,
}

impl ConnectionKey {
    /// Creates the default settings for a server.
    pub(crate) fn new(server: Uri) -> Self {
        Self {
            server,
            tls: TlsOptions::default(),
            proxy: Proxy::default(),
            dialer: None,
            timeout: CONNECT_TIMEOUT,
            plugin_identity: None,
        }
    }
}

impl Connections {
    /// Returns the pools for `key`, creating them with `open` if there are none.
    pub(super) fn pools(
        &self,
        key: ConnectionKey,
        recorder: &MetricsRecorder,
        open: impl FnOnce(&ConnectionKey) -> Result<Pools, ConfigError>,
    ) -> Result<Pools, ConfigError> {
        let mut table = self.0.lock();
        table.retain(|(_, pools)| pools.strong_count() > 0);
        if let Some(pools) = table.iter().find(|(known, _)| *known == key).and_then(|(_, it)| Pools::upgrade(it)) {
            recorder.record(|metrics| metrics.transport_taken(Source::Shared, table.len()));
            return Ok(pools);
        }
        let pools = open(&key)?;
        table.push((key, pools.downgrade()));
        recorder.record(|metrics| metrics.transport_taken(Source::New, table.len()));
        Ok(pools)
    }

    pub(crate) fn close(&self, which: Closing) {
        let pools: Vec<_> = self.0.lock().iter().filter_map(|(_, pools)| Pools::upgrade(pools)).collect();
        for pools in pools {
            pools.close(which);
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}
