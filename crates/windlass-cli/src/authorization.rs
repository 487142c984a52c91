//! Authorization webhooks of a server in this process: their configuration file and their transport.

use std::{error::Error, path::Path, sync::Arc};

use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;
use windlass_api::BoxError;
use windlass_client::Body;
use windlass_server::{AccessReviewer, AuthorizationConfiguration, AuthorizerChain};

use crate::remote::Remote;

/// Reads a file of kind `AuthorizationConfiguration` and the kubeconfigs that it references.
pub(crate) fn read(path: &Path) -> Result<AuthorizerChain, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let file: Value =
        serde_saphyr::from_str(&text).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let chain =
        AuthorizationConfiguration::parse(file)?.connect(|kubeconfig| Ok(Arc::new(Remote::new(kubeconfig)?)))?;
    Ok(chain)
}

impl AccessReviewer for Remote {
    fn review(&self, review: Value) -> BoxFuture<'_, Result<Value, BoxError>> {
        Box::pin(async move {
            let (status, body) = self.post(Body::from(review.to_string()), "").await?;
            if !matches!(status, StatusCode::OK | StatusCode::CREATED) {
                return Err(format!("the authorization webhook answered {status}").into());
            }
            Ok(serde_json::from_slice(&body)?)
        })
    }
}
