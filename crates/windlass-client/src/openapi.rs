//! The OpenAPI schemas that a server publishes, in versions 2 and 3.

use std::{collections::HashMap, fmt, sync::Arc};

use http::{Request, Uri, uri::PathAndQuery};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use windlass_api::{GroupVersion, ListWatchError};

use crate::{Client, Error, Result, body::Body, operation::Operation};

/// The locations of the OpenAPI v3 documents, one for each group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct OpenApiRoot {
    /// The documents by path without the leading slash, such as `apis/apps/v1`.
    pub paths: HashMap<String, OpenApiPath>,
}

/// The location of a document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OpenApiPath {
    /// The URL of the document. It contains a hash of the content, so equal URLs have equal content.
    #[serde(rename = "serverRelativeURL")]
    pub server_relative_url: String,
}

/// A cached client for the OpenAPI v3 documents. Each document is fetched again only if its content changed. Clones
/// share the cache.
#[derive(Clone)]
pub struct OpenApi {
    client: Client,
    /// The latest document of each path, with the URL that identifies its content.
    documents: Arc<Mutex<HashMap<String, (String, Arc<Value>)>>>,
}

impl Client {
    /// Fetches the OpenAPI v2 document, which covers all resources and has a size of some megabytes.
    pub async fn openapi_v2(&self) -> Result<Value> {
        fetch(self, &Uri::from_static("/openapi/v2")).await
    }

    /// Returns a cached client for the OpenAPI v3 documents.
    #[must_use]
    pub fn openapi(&self) -> OpenApi {
        OpenApi { client: self.clone(), documents: Arc::default() }
    }
}

impl OpenApi {
    /// Fetches the list of documents.
    pub async fn root(&self) -> Result<OpenApiRoot> {
        fetch(&self.client, &Uri::from_static("/openapi/v3")).await
    }

    /// Returns the document of a group and version; `None` if the server has none.
    ///
    /// Fetches the root each time, and the document only if its hash in the root has changed.
    pub async fn document(&self, group_version: &GroupVersion) -> Result<Option<Arc<Value>>> {
        let root = if group_version.group.is_empty() { "api" } else { "apis" };
        self.document_at(&format!("{root}/{group_version}")).await
    }

    /// Returns the document of a path in the [root](Self::root), such as `apis/apps/v1`; `None` if the server has none.
    pub async fn document_at(&self, path: &str) -> Result<Option<Arc<Value>>> {
        let root = self.root().await?;
        let Some(OpenApiPath { server_relative_url: url }) = root.paths.get(path) else { return Ok(None) };
        let known =
            self.documents.lock().get(path).filter(|(known, _)| known == url).map(|(_, document)| Arc::clone(document));
        if known.is_some() {
            return Ok(known);
        }
        // Accept only a path on this server, so that credentials are never sent elsewhere.
        let uri = url.parse::<PathAndQuery>().ok().filter(|_| url.starts_with('/')).map(Uri::from);
        let uri = uri.ok_or_else(|| {
            let why = format!("the document is said to be at {url:?}, which is no path");
            Error::new(Operation::request("/openapi/v3"), ListWatchError::Decode(why.into()))
        })?;
        let document = Arc::new(fetch(&self.client, &uri).await?);
        // Without a hash in the URL, as in some aggregated servers, the URL does not identify the content.
        if uri.query().is_some_and(|query| query.contains("hash=")) {
            self.documents.lock().insert(path.to_owned(), (url.clone(), Arc::clone(&document)));
        }
        Ok(Some(document))
    }

    /// Clears the cache.
    pub fn invalidate(&self) {
        self.documents.lock().clear();
    }
}

async fn fetch<T: serde::de::DeserializeOwned>(client: &Client, uri: &Uri) -> Result<T> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = uri.clone();
    client.for_discovery().request_json(request).await
}

impl fmt::Debug for OpenApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApi").field("known", &self.documents.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;

    use super::*;
    use crate::testing::Fake;

    fn apps() -> GroupVersion {
        GroupVersion::new("apps", "v1")
    }

    #[tokio::test]
    async fn a_document_is_fetched_once_for_each_hash() {
        let hash = Arc::new(AtomicUsize::new(1));
        let now = Arc::clone(&hash);
        let fake = Fake::new(move |request| {
            let hash = now.load(Ordering::Relaxed);
            Response::new(match request.uri().path() {
                "/openapi/v3" => format!(
                    r#"{{"paths":{{"apis/apps/v1":{{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash={hash}"}},
                        "api/v1":{{"serverRelativeURL":"/openapi/v3/api/v1"}}}}}}"#
                )
                .into(),
                _ => format!(r#"{{"openapi":"3.0.0","of":{hash}}}"#).into(),
            })
        });
        let openapi = fake.client().openapi();
        assert_eq!(openapi.document(&apps()).await.unwrap().unwrap()["of"], 1);
        assert_eq!(openapi.clone().document(&apps()).await.unwrap().unwrap()["of"], 1);
        hash.store(2, Ordering::Relaxed);
        assert_eq!(openapi.document(&apps()).await.unwrap().unwrap()["of"], 2);
        openapi.invalidate();
        openapi.document(&apps()).await.unwrap();
        let documents = fake.seen().iter().filter(|line| line.contains("apps")).cloned().collect::<Vec<_>>();
        let line = |hash| format!("GET /openapi/v3/apis/apps/v1?hash={hash}");
        assert_eq!(documents, [line(1), line(2), line(2)]);
        // A document without a hash is not cached.
        let core = GroupVersion::new("", "v1");
        openapi.document(&core).await.unwrap();
        openapi.document(&core).await.unwrap();
        assert_eq!(fake.seen().iter().filter(|line| line.ends_with("/api/v1")).count(), 2);
        assert_eq!(openapi.document(&GroupVersion::new("x.io", "v1")).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_document_elsewhere_is_not_fetched() {
        let fake = Fake::json(r#"{"paths":{"apis/apps/v1":{"serverRelativeURL":"https://evil.example/"}}}"#);
        let error = fake.client().openapi().document(&apps()).await.unwrap_err();
        assert!(error.chain().contains("evil"), "{}", error.chain());
        assert_eq!(fake.seen().len(), 1);
    }

    #[tokio::test]
    async fn the_second_version_is_one_document() {
        let fake = Fake::json(r#"{"swagger":"2.0"}"#);
        assert_eq!(fake.client().openapi_v2().await.unwrap()["swagger"], "2.0");
        assert_eq!(fake.seen(), ["GET /openapi/v2"]);
    }
}
