//! An API service whose requests are forwarded.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::{
    connection::Connection,
    documents::{Described, Documents},
    identity::ProxyIdentity,
};
use crate::{
    discovery::{ForeignVersion, Freshness},
    object::Tree,
};

/// An `APIService` that names a service.
#[derive(Clone, Debug)]
pub(crate) struct RemoteService {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) group_priority: i64,
    pub(super) version_priority: i64,
    pub(super) service: ServiceReference,
    /// The reason if connections are impossible.
    pub(super) connection: Result<Connection, String>,
    /// The condition `Available` of the object.
    is_available: bool,
    /// The documents that were read last. Empty before the first time.
    pub(super) documents: Option<Arc<Documents>>,
    /// The last part of the OpenAPI document of version 2. It is kept while the server does not answer.
    pub(super) described: Option<Described>,
    /// The last attempt to read the documents failed.
    pub(super) is_stale: bool,
    /// The specification from which this was created.
    spec: Value,
}

/// The service of an API service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceReference {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) port: i64,
}

impl fmt::Display for ServiceReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.name, self.port)
    }
}

impl RemoteService {
    /// Reads an `APIService`. Returns `None` if this server serves it itself.
    pub(super) fn read(object: &Value, identity: Option<&ProxyIdentity>) -> Option<Self> {
        let spec = object.at(&["spec"])?;
        let named = spec.at(&["service"])?;
        let service = ServiceReference {
            namespace: named.text(&["namespace"]).to_owned(),
            name: named.text(&["name"]).to_owned(),
            port: named.int(&["port"]).unwrap_or(443),
        };
        let connection = Connection::new(spec, &service, identity);
        Some(Self {
            group: spec.text(&["group"]).to_owned(),
            version: spec.text(&["version"]).to_owned(),
            group_priority: spec.int(&["groupPriorityMinimum"]).unwrap_or_default(),
            version_priority: spec.int(&["versionPriority"]).unwrap_or_default(),
            service,
            connection: connection.map_err(|error| error.to_string()),
            is_available: is_available(object),
            documents: None,
            described: None,
            is_stale: true,
            spec: spec.clone(),
        })
    }

    /// Reports whether an object has the specification from which this was created.
    pub(super) fn is_of(&self, object: &Value) -> bool {
        object.at(&["spec"]) == Some(&self.spec)
    }

    /// Reads the condition of the object.
    pub(super) fn observe(&mut self, object: &Value) {
        self.is_available = is_available(object);
    }

    pub(crate) fn is_available(&self) -> bool {
        self.is_available
    }

    /// Returns the path of the discovery document of the group version.
    pub(super) fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }

    /// Returns the group version for discovery.
    pub(super) fn version(&self) -> ForeignVersion<'_> {
        ForeignVersion {
            group: &self.group,
            version: &self.version,
            group_priority: self.group_priority,
            version_priority: self.version_priority,
            resources: self.documents.as_ref().map(|documents| &documents.resources),
            freshness: if self.is_stale { Freshness::Stale } else { Freshness::Current },
        }
    }

    /// Returns the path of the OpenAPI document below `/openapi/v3`, and its address on the server.
    pub(super) fn openapi_path(&self) -> Option<(String, String)> {
        let address = self.documents.as_ref()?.openapi.clone()?;
        Some((self.path().trim_start_matches('/').to_owned(), address))
    }
}

fn is_available(object: &Value) -> bool {
    let mut conditions = object.items(&["status", "conditions"]).iter();
    conditions.any(|condition| condition.text(&["type"]) == "Available" && condition.text(&["status"]) == "True")
}
