//! The server of a kubeconfig, for webhooks of the API server.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Limited};
use tower::ServiceExt as _;
use windlass_api::BoxError;
use windlass_client::{Body, Config, Transport};

/// The maximum size of a response, in bytes.
const LIMIT: usize = 1 << 20;

/// Posts documents to the server of a kubeconfig, at the path of its URL.
pub(crate) struct Remote {
    /// The path of the kubeconfig.
    file: PathBuf,
    path: String,
    transport: Transport,
}

impl Remote {
    pub(crate) fn new(file: &Path) -> Result<Self, BoxError> {
        let mut config = Config::from_file(file)?;
        // A transport prepends the path of its server to each request path. Here the two are the same.
        let mut server = config.server.into_parts();
        let path = server.path_and_query.replace(PathAndQuery::from_static("/"));
        config.server = Uri::from_parts(server)?;
        let path = path.map_or_else(|| "/".to_owned(), |path| path.to_string());
        Ok(Self { file: file.to_owned(), path, transport: config.connect()? })
    }

    /// Posts a document in JSON, and returns the response. `query` is empty or begins with `?`.
    pub(crate) async fn post(&self, body: Body, query: &str) -> Result<(StatusCode, Bytes), BoxError> {
        let request = Request::post(format!("{}{query}", self.path))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(body)?;
        let (parts, body) = self.transport.clone().oneshot(request).await?.into_parts();
        Ok((parts.status, Limited::new(body, LIMIT).collect().await?.to_bytes()))
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("file", &self.file).finish_non_exhaustive()
    }
}
