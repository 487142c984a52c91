//! Authorization webhooks of a server in this process: their configuration file and their transport.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::future::BoxFuture;
use http::{Request, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use tower::ServiceExt as _;
use windlass_api::BoxError;
use windlass_client::{Body, Config, Transport};
use windlass_server::{AccessReviewer, AuthorizationConfiguration, AuthorizerChain};

/// The maximum size of a response, in bytes.
const LIMIT: usize = 1 << 20;

/// Posts reviews to the server of a kubeconfig, at the path of its URL.
struct Remote {
    /// The path of the kubeconfig.
    file: PathBuf,
    path: String,
    transport: Transport,
}

/// Reads a file of kind `AuthorizationConfiguration` and the kubeconfigs that it references.
pub(crate) fn read(path: &Path) -> Result<AuthorizerChain, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let file: Value =
        serde_saphyr::from_str(&text).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let chain =
        AuthorizationConfiguration::parse(file)?.connect(|kubeconfig| Ok(Arc::new(Remote::new(kubeconfig)?)))?;
    Ok(chain)
}

impl Remote {
    fn new(file: &Path) -> Result<Self, BoxError> {
        let mut config = Config::from_file(file)?;
        // A transport prepends the path of its server to each request path. Here the two are the same.
        let mut server = config.server.into_parts();
        let path = server.path_and_query.replace(PathAndQuery::from_static("/"));
        config.server = Uri::from_parts(server)?;
        let path = path.map_or_else(|| "/".to_owned(), |path| path.to_string());
        Ok(Self { file: file.to_owned(), path, transport: config.connect()? })
    }
}

impl AccessReviewer for Remote {
    fn review(&self, review: Value) -> BoxFuture<'_, Result<Value, BoxError>> {
        Box::pin(async move {
            let request = Request::post(&*self.path)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json")
                .body(Body::from(review.to_string()))?;
            let (parts, body) = self.transport.clone().oneshot(request).await?.into_parts();
            let body = Limited::new(body, LIMIT).collect().await?.to_bytes();
            if !matches!(parts.status, StatusCode::OK | StatusCode::CREATED) {
                return Err(format!("the authorization webhook answered {}", parts.status).into());
            }
            Ok(serde_json::from_slice(&body)?)
        })
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("file", &self.file).finish_non_exhaustive()
    }
}
