//! Requests that the API server proxies to a service, a pod or a node.

use std::fmt;

use bytes::Bytes;
use http::{Method, Response, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use windlass_api::{
    ObjectRef,
    k8s_openapi::api::core::v1::{Node, Pod, Service},
};

use crate::{Client, Error, Result, body::Body, connect::ConnectRequest, request::RequestError};

/// The characters that are not escaped in a path.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/').remove(b':').remove(b'@');

/// A builder of requests that the API server proxies to a service, pod or node.
#[derive(Clone)]
#[must_use = "nothing is sent before `get` or `request`"]
pub struct Proxied {
    connect: ConnectRequest,
    /// The object's name, without the scheme and port that surround it in the path.
    name: String,
    scheme: Option<String>,
    port: Option<String>,
}

impl Client {
    /// Sends requests to a service through the API server.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> windlass_client::Result<()> {
    /// let answer = client.service_proxy("web").within("shop").port("http").get("/metrics?format=text").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn service_proxy(&self, service: impl Into<ObjectRef<Service>>) -> Proxied {
        let service = service.into();
        Proxied::new(service.name().to_owned(), ConnectRequest::new(self, service, "proxy"))
    }

    /// Sends requests to a pod through the API server.
    pub fn pod_proxy(&self, pod: impl Into<ObjectRef<Pod>>) -> Proxied {
        let pod = pod.into();
        Proxied::new(pod.name().to_owned(), ConnectRequest::new(self, pod, "proxy"))
    }

    /// Sends requests to the kubelet of a node through the API server.
    pub fn node_proxy(&self, node: impl Into<ObjectRef<Node>>) -> Proxied {
        let node = node.into();
        Proxied::new(node.name().to_owned(), ConnectRequest::new(self, node, "proxy"))
    }
}

impl Proxied {
    const fn new(name: String, connect: ConnectRequest) -> Self {
        Self { connect, name, scheme: None, port: None }
    }

    /// Sets the namespace. Overrides any namespace set before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.connect.within(namespace);
        self
    }

    /// Sets the scheme, such as `https`. Defaults to `http`.
    pub fn scheme(mut self, scheme: impl Into<String>) -> Self {
        self.scheme = Some(scheme.into());
        self
    }

    /// Sets the port, by number or name. Defaults to the first port.
    pub fn port(mut self, port: impl Into<String>) -> Self {
        self.port = Some(port.into());
        self
    }

    /// Sends a `GET` request for a path with its query.
    pub async fn get(self, path: &str) -> Result<Response<Body>> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    /// Sends a request with any method for a path with its query. Returns an error if the response is not a success.
    pub async fn request(mut self, method: Method, path: &str, body: Bytes) -> Result<Response<Body>> {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let path = format!("/{}", utf8_percent_encode(path.trim_start_matches('/'), PATH));
        self.connect.rename(match (self.scheme, self.port) {
            (None, None) => self.name,
            (None, Some(port)) => format!("{}:{port}", self.name),
            (Some(scheme), port) => format!("{scheme}:{}:{}", self.name, port.unwrap_or_default()),
        });
        let operation = self.connect.operation();
        let mut request = self.connect.request(method, &path, Vec::new(), body)?;
        if let Some(query) = query {
            let uri = format!("{}?{query}", request.uri());
            let uri: Result<Uri, _> = uri.parse();
            *request.uri_mut() = uri.map_err(|_| Error::Request {
                operation: Box::new(operation.clone()),
                source: RequestError::Uri { path: query.to_owned() },
            })?;
        }
        // The proxied program may respond with any media type.
        request.headers_mut().remove(http::header::ACCEPT);
        self.connect.client().execute(request, &operation).await.map_err(|error| Error::new(operation, error))
    }
}

impl fmt::Debug for Proxied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxied({})", self.connect.operation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    #[tokio::test]
    async fn scheme_name_and_port_make_one_segment() {
        let fake = Fake::json("{}");
        let client = fake.client();
        client.service_proxy("web").get("/").await.unwrap();
        client.service_proxy("web").within("a").port("http").get("/m x?q=1&r=%2F").await.unwrap();
        client.pod_proxy("p").scheme("https").port("8443").get("healthz").await.unwrap();
        client.node_proxy("n").scheme("https").request(Method::POST, "/run", "body".into()).await.unwrap();
        assert_eq!(
            fake.seen(),
            [
                "GET /api/v1/namespaces/home/services/web/proxy/",
                "GET /api/v1/namespaces/a/services/web:http/proxy/m%20x?q=1&r=%2F",
                "GET /api/v1/namespaces/home/pods/https:p:8443/proxy/healthz",
                "POST /api/v1/nodes/https:n:/proxy/run",
            ]
        );
        let error = client.pod_proxy("../p").get("/").await.unwrap_err();
        assert!(matches!(error, Error::Request { .. }), "{error}");
    }
}
