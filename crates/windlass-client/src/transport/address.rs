//! Prepends the server's address to the path of each request.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{
    Request, Uri,
    uri::{Authority, PathAndQuery, Scheme},
};
use tower::Service;
use windlass_api::BoxError;

use crate::{body::Body, config_error::ConfigError};

/// A service that receives paths and passes full URLs to its inner service.
#[derive(Clone, Debug)]
pub(crate) struct Addressed<S> {
    inner: S,
    scheme: Scheme,
    authority: Authority,
    /// The prefix of each path: empty, or with a leading but no trailing slash.
    prefix: String,
}

impl<S> Addressed<S> {
    pub(crate) fn new(inner: S, server: Uri) -> Result<Self, ConfigError> {
        let address = server.to_string();
        let parts = server.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(ConfigError::Server { server: address });
        };
        let prefix = parts.path_and_query.map_or_else(String::new, |path| path.path().trim_end_matches('/').to_owned());
        Ok(Self { inner, scheme, authority, prefix })
    }

    fn address(&self, uri: &Uri) -> Result<Uri, http::Error> {
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = if self.prefix.is_empty() { path.to_owned() } else { format!("{}{path}", self.prefix) };
        Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone()).path_and_query(path).build()
    }
}

impl<S> Service<Request<Body>> for Addressed<S>
where
    S: Service<Request<Body>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.address(request.uri()) {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return Box::pin(async move { Err(error.into()) }),
        }
        let response = self.inner.call(request);
        Box::pin(async move { response.await.map_err(Into::into) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_paths_are_appended_to_the_server_path() {
        for (server, expected) in [
            ("https://h:1", "https://h:1/api/v1/pods?limit=1"),
            ("https://h/", "https://h/api/v1/pods?limit=1"),
            ("http://h/k8s/clusters/c-1/", "http://h/k8s/clusters/c-1/api/v1/pods?limit=1"),
        ] {
            let addressed = Addressed::new((), server.parse().unwrap()).unwrap();
            assert_eq!(addressed.address(&"/api/v1/pods?limit=1".parse().unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn a_server_without_a_scheme_is_refused() {
        let error = Addressed::new((), "/only/a/path".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("/only/a/path"), "{error}");
    }
}
