//! The discovery and OpenAPI documents of another API server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time;
use windlass_api::BoxError;

use super::{
    connection::Connection,
    proxy::{self, AGGREGATOR, UNPRIVILEGED_AGGREGATOR},
    remote::RemoteService,
};
use crate::{object::Tree, openapi::ForeignPaths};

/// The time to read one document, and its maximum size in bytes.
const LIMIT: Duration = Duration::from_secs(5);
const MAX_SIZE: usize = 16 << 20;
/// The maximum size of the resources of a group version, which every discovery document contains, and of the address or the
/// ETag of its OpenAPI document, in bytes.
const MAX_RESOURCES: usize = 1 << 20;
const MAX_ADDRESS: usize = 2 << 10;
/// The maximum size of a part of the OpenAPI document of version 2, in bytes.
const MAX_PATHS: usize = 4 << 20;
const AGGREGATED: &str = concat!(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,",
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
);

/// The documents of one group version.
#[derive(Debug)]
pub(super) struct Documents {
    /// The resources, as in an aggregated discovery document. Null if the server does not have the group version.
    pub(super) resources: Value,
    /// The address of the OpenAPI document of version 3 on the server, if there is one.
    pub(super) openapi: Option<String>,
}

/// The part of the OpenAPI document of version 2 of another server that belongs to a group version.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// The ETag of the document.
    etag: Option<HeaderValue>,
    /// `None` if the document has no such part, or if it is too large.
    pub(super) paths: Option<Arc<ForeignPaths>>,
}

/// A response to a request for a document.
struct Answer {
    status: StatusCode,
    etag: Option<HeaderValue>,
    content_type: String,
    body: Value,
}

/// A resource in an aggregated discovery document. Unknown fields are not passed on.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    resource: String,
    response_kind: ResponseKind,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Subresource>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Subresource {
    subresource: String,
    response_kind: ResponseKind,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted_types: Vec<ResponseKind>,
    verbs: Vec<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct ResponseKind {
    group: String,
    version: String,
    kind: String,
}

/// A resource in an `APIResourceList`. The name of a subresource contains a slash.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LegacyResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
}

impl Documents {
    /// Reads the documents of an API service from the server at an address.
    pub(super) async fn read(remote: &RemoteService, address: &str) -> Result<Self, BoxError> {
        let connection = remote.connection.as_ref().map_err(Clone::clone)?;
        let all = get(connection, address, "/apis", AGGREGATED, AGGREGATOR).await?;
        let resources = if all.status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(format!("service {} returned non-success response code: 503", remote.service).into());
        } else if all.status == StatusCode::OK && all.content_type.contains("as=APIGroupDiscoveryList") {
            aggregated(&all.body, &remote.group, &remote.version)?
        } else {
            let path = remote.path();
            let legacy = get(connection, address, &path, "application/json", UNPRIVILEGED_AGGREGATOR).await?;
            if legacy.status != StatusCode::OK {
                return Err(format!("failed to download legacy discovery for {path}: {}", legacy.status).into());
            }
            from_legacy(&legacy.body, &remote.group, &remote.version)?
        };
        let index = get(connection, address, "/openapi/v3", "application/json", AGGREGATOR).await;
        let path = remote.path();
        let openapi = index.ok().filter(|index| index.status == StatusCode::OK).and_then(|index| {
            let document = index.body.at(&["paths", path.trim_start_matches('/')])?;
            Some(document.text(&["serverRelativeURL"]).to_owned())
                .filter(|address| address.starts_with("/openapi/v3/") && address.len() <= MAX_ADDRESS)
        });
        if resources.to_string().len() > MAX_RESOURCES {
            return Err(format!("the resources of {path} have more than {MAX_RESOURCES} bytes").into());
        }
        Ok(Self { resources, openapi })
    }
}

impl Described {
    /// Reads the document of an API service, unless it is the one that was read last. Returns the last one if it cannot be
    /// read, as kube-apiserver does, and `None` if there is none.
    pub(super) async fn read(remote: &RemoteService, address: &str) -> Option<Self> {
        let last = remote.described.clone();
        let Ok(connection) = &remote.connection else { return last };
        let known = last.as_ref().and_then(|last| last.etag.as_ref());
        let document = get_if_changed(connection, address, "/openapi/v2", "application/json", AGGREGATOR, known).await;
        match document {
            Ok(document) if document.status == StatusCode::OK => {
                let paths = ForeignPaths::below(&format!("{}/", remote.path()), document.body);
                let paths = paths.filter(|paths| paths.size() <= MAX_PATHS).map(Arc::new);
                Some(Self { etag: document.etag, paths })
            }
            Ok(document) if document.status == StatusCode::NOT_FOUND => None,
            Ok(_) | Err(_) => last,
        }
    }
}

/// Reads one document.
async fn get(
    connection: &Connection,
    address: &str,
    path: &str,
    accept: &'static str,
    user: proxy::Aggregator,
) -> Result<Answer, BoxError> {
    get_if_changed(connection, address, path, accept, user, None).await
}

/// Reads one document. The server answers with status 304 if its ETag is `known`.
async fn get_if_changed(
    connection: &Connection,
    address: &str,
    path: &str,
    accept: &'static str,
    user: proxy::Aggregator,
    known: Option<&HeaderValue>,
) -> Result<Answer, BoxError> {
    let answered = async {
        let mut request = proxy::request_as(user, address, path)?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
        if let Some(known) = known {
            request.headers_mut().insert(header::IF_NONE_MATCH, known.clone());
        }
        let response = connection.send(request).await?;
        let (head, body) = response.into_parts();
        let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        // The body of a failure is not needed, and may never end.
        let body = if head.status == StatusCode::OK {
            serde_json::from_slice(&Limited::new(body, MAX_SIZE).collect().await?.to_bytes())?
        } else {
            Value::Null
        };
        let etag = head.headers.get(header::ETAG).filter(|etag| etag.len() <= MAX_ADDRESS).cloned();
        Ok(Answer { status: head.status, etag, content_type: content_type.unwrap_or_default().to_owned(), body })
    };
    time::timeout(LIMIT, answered).await.unwrap_or_else(|_| Err(format!("GET {path}: request timed out").into()))
}

/// Returns the resources of a group version in an aggregated document.
fn aggregated(list: &Value, group: &str, version: &str) -> Result<Value, serde_json::Error> {
    let groups = list.items(&["items"]).iter().filter(|found| found.text(&["metadata", "name"]) == group);
    let mut versions = groups.flat_map(|found| found.items(&["versions"]));
    let Some(found) = versions.find(|found| found.text(&["version"]) == version) else { return Ok(Value::Null) };
    let resources = found.at(&["resources"]).cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    let resources: Vec<Resource> = serde_json::from_value(resources)?;
    serde_json::to_value(resources)
}

/// Converts an `APIResourceList` into the resources of an aggregated document.
fn from_legacy(list: &Value, group: &str, version: &str) -> Result<Value, serde_json::Error> {
    let listed = list.at(&["resources"]).cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    let listed: Vec<LegacyResource> = serde_json::from_value(listed)?;
    let mut resources = Vec::<Resource>::new();
    let mut positions = BTreeMap::new();
    for found in listed {
        let or = |own: String, default: &str| if own.is_empty() { default.to_owned() } else { own };
        let response_kind =
            ResponseKind { group: or(found.group, group), version: or(found.version, version), kind: found.kind };
        let scope = if found.namespaced { "Namespaced" } else { "Cluster" };
        let (name, subresource) = match found.name.split_once('/') {
            Some((name, subresource)) => (name.to_owned(), Some(subresource.to_owned())),
            None => (found.name, None),
        };
        let at = *positions.entry(name.clone()).or_insert_with(|| {
            resources.push(Resource { resource: name, scope: scope.to_owned(), ..Resource::default() });
            resources.len() - 1
        });
        let resource = &mut resources[at];
        if let Some(subresource) = subresource {
            let (accepted_types, verbs) = (Vec::new(), found.verbs);
            resource.subresources.push(Subresource { subresource, response_kind, accepted_types, verbs });
            continue;
        }
        resource.response_kind = response_kind;
        resource.singular_resource = found.singular_name;
        resource.verbs = found.verbs;
        resource.short_names = found.short_names;
        resource.categories = found.categories;
    }
    serde_json::to_value(resources)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_of_a_legacy_document_include_their_subresources() {
        let list = json!({"resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get"],
                "shortNames": ["fl"]},
            {"name": "flunders/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": ["update"]},
        ]});
        let kind = |group, version, kind| json!({"group": group, "version": version, "kind": kind});
        let expected = json!([{
            "resource": "flunders", "responseKind": kind("wardle.example.com", "v1", "Flunder"), "scope": "Namespaced",
            "singularResource": "flunder", "verbs": ["get"], "shortNames": ["fl"],
            "subresources": [{
                "subresource": "scale", "responseKind": kind("autoscaling", "v1", "Scale"), "verbs": ["update"],
            }],
        }]);
        assert_eq!(from_legacy(&list, "wardle.example.com", "v1").unwrap(), expected);
    }

    #[test]
    fn only_the_resources_of_the_group_version_are_read() {
        let flunders = json!([{
            "resource": "flunders", "responseKind": {"group": "", "version": "", "kind": "Flunder"},
            "scope": "Namespaced", "singularResource": "flunder", "verbs": ["get"],
        }]);
        let list = json!({"items": [
            {"metadata": {"name": "other.example.com"}, "versions": [{"version": "v1", "resources": [{"resource": "a"}]}]},
            {"metadata": {"name": "wardle.example.com"}, "versions": [
                {"version": "v1", "resources": flunders, "freshness": "Current"},
            ]},
        ]});
        assert_eq!(aggregated(&list, "wardle.example.com", "v1").unwrap(), flunders);
        assert_eq!(aggregated(&list, "wardle.example.com", "v2").unwrap(), Value::Null);
        assert!(
            aggregated(
                &json!({"items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v1", "resources": "none"}]}]}),
                "g",
                "v1"
            )
            .is_err()
        );
    }
}
