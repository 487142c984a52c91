//! The API servers that extend this one: requests for the groups and versions of an `APIService` that names a service are
//! forwarded to that service.
//!
//! ```text
//! controller   follows the APIService objects, with one task for each remote one
//! availability the check of a remote API service, and its condition
//! documents    the discovery and OpenAPI documents of a remote API service
//! proxy        forwards requests
//! endpoint     finds the address of a service
//! connection   connections with the TLS settings of an API service
//! identity     the certificate of this server at other servers
//! remote       an API service whose requests are forwarded
//! ```
//!
//! # Guarantees
//!
//! - A request is forwarded after it was authenticated and authorized. The other server receives the user in headers, and
//!   headers of that name from the client are removed.
//! - An unavailable API service affects only the requests for its own group version: they are answered with 503 at once.
//!   Discovery lists it as stale.
//! - A server that does not answer keeps its paths in the OpenAPI document of version 2. They are read again only if the
//!   document of the server has changed.
//! - The time for each discovery document of another server is limited to 5 s, also if a client requests it.
//!
//! # Not guaranteed
//!
//! - Requests for a change of the protocol (such as WebSocket) are not forwarded: they fail with code 501.
//! - If the connection is lost in the middle of a response of unknown length, the response to the client ends there.
//! - A document of OpenAPI version 2 that is larger than 4 MiB is left out. Documents of version 3 are forwarded.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::Arc,
};

use parking_lot::RwLock;
use serde_json::Value;

use crate::{discovery::ForeignVersion, object::Tree, openapi::ForeignPaths};

mod controller;
mod availability;
mod documents;
mod proxy;
mod endpoint;
mod connection;
mod identity;
mod remote;

pub use self::identity::{ProxyIdentity, ProxyIdentityError};
pub(crate) use self::{
    controller::start,
    proxy::{Forwarded, forward},
    remote::RemoteService,
};

/// The other API servers that a server knows.
#[derive(Debug, Default)]
pub(crate) struct Aggregation {
    remotes: RwLock<Arc<Remotes>>,
    /// The certificate by which other API servers recognize this one.
    identity: Option<ProxyIdentity>,
}

/// The remote API services at one point in time, by their names.
#[derive(Clone, Default)]
pub(crate) struct Remotes {
    services: BTreeMap<String, Arc<RemoteService>>,
    /// The number of changes so far.
    generation: u64,
}

impl Aggregation {
    pub(crate) fn new(identity: Option<ProxyIdentity>) -> Self {
        Self { remotes: RwLock::default(), identity }
    }

    /// Reports whether the server presents a certificate to other API servers.
    pub(crate) const fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Returns the current remote API services.
    pub(crate) fn remotes(&self) -> Arc<Remotes> {
        Arc::clone(&self.remotes.read())
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Arc<RemoteService>>)) {
        let mut remotes = self.remotes.write();
        let remotes = Arc::make_mut(&mut remotes);
        remotes.generation += 1;
        change(&mut remotes.services);
    }

    /// Changes one remote API service, if it exists.
    fn change_one(&self, name: &str, change: impl FnOnce(&mut RemoteService)) {
        self.change(|remotes| {
            if let Some(remote) = remotes.get_mut(name) {
                change(Arc::make_mut(remote));
            }
        });
    }
}

impl Remotes {
    /// Returns the API service that serves a path, if it is a remote one.
    pub(crate) fn route(&self, path: &str) -> Option<&Arc<RemoteService>> {
        if self.services.is_empty() {
            return None;
        }
        let mut parts = path.strip_prefix('/')?.split('/');
        let (group, version) = match parts.next()? {
            "api" => ("", parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        self.services.get(&format!("{version}.{group}"))
    }

    /// Returns the group versions for discovery.
    pub(crate) fn versions(&self) -> Vec<ForeignVersion<'_>> {
        self.services.values().map(|remote| remote.version()).collect()
    }

    /// Returns the plural name of a kind of another server, and whether it is namespaced. `None` if it is not known.
    pub(crate) fn resource(&self, group: &str, version: &str, kind: &str) -> Option<(String, bool)> {
        let resources = self.services.get(&format!("{version}.{group}"))?.version().resources?;
        let of_kind = |resource: &&Value| resource.text(&["responseKind", "kind"]) == kind;
        let resource = resources.items(&[]).iter().find(of_kind)?;
        Some((resource.text(&["resource"]).to_owned(), resource.text(&["scope"]) == "Namespaced"))
    }

    /// Returns a number that differs after each change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the paths of the OpenAPI documents of other servers, with their addresses.
    pub(crate) fn openapi_paths(&self) -> Vec<(String, String)> {
        self.services.values().filter_map(|remote| remote.openapi_path()).collect()
    }

    /// Returns the parts of the OpenAPI document of version 2, those of the group with the highest priority first.
    pub(crate) fn openapi_v2(&self) -> Vec<Arc<ForeignPaths>> {
        let mut services: Vec<_> = self.services.values().collect();
        services.sort_by_key(|remote| (-remote.group_priority, -remote.version_priority));
        services.into_iter().filter_map(|remote| remote.described.as_ref()?.paths.clone()).collect()
    }

    /// Returns the API service whose OpenAPI document has this path, if its server has one.
    pub(crate) fn openapi_route(&self, path: &str) -> Option<&Arc<RemoteService>> {
        let remote = self.route(path.strip_prefix("/openapi/v3")?)?;
        remote.openapi_path().is_some().then_some(remote)
    }

    /// Returns the metrics of the remote API services in Prometheus' text format. Without any, there are none.
    pub(crate) fn metrics(&self) -> String {
        const NAME: &str = "aggregator_unavailable_apiservice";
        if self.services.is_empty() {
            return String::new();
        }
        let mut text = format!("# HELP {NAME} Whether a remote API service is unavailable.\n# TYPE {NAME} gauge\n");
        for (name, remote) in &self.services {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{NAME}{{name=\"{name}\"}} {}", u8::from(!remote.is_available()));
        }
        text
    }
}

impl fmt::Debug for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.services.keys()).finish()
    }
}
