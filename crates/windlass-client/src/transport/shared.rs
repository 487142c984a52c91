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
    Config, ConfigError,
    auth::{Auth, Credentials, Issuer},
    config::{Dialer, Proxy, TlsOptions},
    metrics::Source,
};

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
pub(crate) struct Connections(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    issuers: Vec<(Auth, Weak<Issuer>)>,
    pools: Vec<(ConnectionKey, Weak<pools::Shared>)>,
}

/// The settings on which clients must agree to share connections.
#[derive(Clone)]
struct ConnectionKey {
    server: Uri,
    tls: TlsOptions,
    proxy: Proxy,
    dialer: Option<Dialer>,
    timeout: Duration,
    /// The source of the client certificate.
    issuer: Option<Weak<Issuer>>,
}

impl Connections {
    /// Returns the credentials of a configuration. Renewable credentials are shared.
    pub(super) fn credentials(&self, config: &Config) -> Result<Credentials, ConfigError> {
        let mut table = self.0.lock();
        table.issuers.retain(|(_, issuer)| issuer.strong_count() > 0);
        let known = table.issuers.iter().find(|(auth, _)| *auth == config.auth);
        if let Some(issuer) = known.and_then(|(_, issuer)| issuer.upgrade()) {
            return Ok(Credentials::Issued(issuer));
        }
        let credentials = Credentials::new(&config.auth, &config.clock, &config.recorder)?;
        if let Credentials::Issued(issuer) = &credentials {
            table.issuers.push((config.auth.clone(), Arc::downgrade(issuer)));
        }
        Ok(credentials)
    }

    /// Returns the pools of a configuration, creating them with `open` if there are none.
    pub(super) fn pools(
        &self,
        config: &Config,
        issuer: Option<&Arc<Issuer>>,
        open: impl FnOnce() -> Result<Pools, ConfigError>,
    ) -> Result<Pools, ConfigError> {
        let key = ConnectionKey {
            server: config.server.clone(),
            tls: config.tls.clone(),
            proxy: config.proxy.clone(),
            dialer: config.dialer.clone(),
            timeout: config.connect_timeout,
            issuer: issuer.map(Arc::downgrade),
        };
        let mut table = self.0.lock();
        table.pools.retain(|(_, pools)| pools.strong_count() > 0);
        if let Some(pools) = table.pools.iter().find(|(known, _)| *known == key).and_then(|(_, it)| Pools::upgrade(it))
        {
            config.recorder.record(|metrics| metrics.transport_taken(Source::Shared, table.pools.len()));
            return Ok(pools);
        }
        let pools = open()?;
        table.pools.push((key, pools.downgrade()));
        config.recorder.record(|metrics| metrics.transport_taken(Source::New, table.pools.len()));
        Ok(pools)
    }

    pub(crate) fn close(&self, which: Closing) {
        let pools: Vec<_> = self.0.lock().pools.iter().filter_map(|(_, pools)| Pools::upgrade(pools)).collect();
        for pools in pools {
            pools.close(which);
        }
    }
}

impl PartialEq for ConnectionKey {
    fn eq(&self, other: &Self) -> bool {
        let issuer = match (&self.issuer, &other.issuer) {
            (None, None) => true,
            (Some(one), Some(other)) => one.ptr_eq(other),
            (None, Some(_)) | (Some(_), None) => false,
        };
        issuer
            && self.server == other.server
            && self.tls == other.tls
            && self.proxy == other.proxy
            && self.dialer == other.dialer
            && self.timeout == other.timeout
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}
