//! Requests to connect subresources: logs, containers, ports and proxies of an object.

use bytes::Bytes;
use http::{Method, Request, Response};
use windlass_api::{ObjectRef, Resource};

use crate::{
    Client, Error, Result,
    body::Body,
    client::DefaultNamespace,
    operation::{Operation, Verb},
    request::Target,
};

/// A subresource of one object that is a connection instead of an API object.
#[derive(Clone, Debug)]
pub(crate) struct ConnectRequest {
    client: Client,
    target: Target,
}

/// A response whose head has arrived, with its operation.
pub(crate) struct ConnectResponse {
    pub(crate) response: Response<Body>,
    pub(crate) operation: Operation,
}

impl ConnectRequest {
    pub(crate) fn new<K: Resource>(client: &Client, key: ObjectRef<K>, subresource: &'static str) -> Self {
        let target = Target::new(K::api_resource())
            .within(key.namespace().unwrap_or_default())
            .named(key.name())
            .subresource(subresource);
        Self { client: client.clone(), target }
    }

    /// Sets the namespace. Overrides any namespace set before.
    pub(crate) fn within(&mut self, namespace: impl Into<String>) {
        self.target.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
    }

    /// Sets another name, for subresources whose name in the path contains more than the object's name.
    pub(crate) fn rename(&mut self, name: String) {
        self.target.name = Some(name);
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn operation(&self) -> Operation {
        let mut target = self.target.clone();
        // Building the request reports an invalid namespace.
        let _ = self.client.place(&mut target, DefaultNamespace::OfClient);
        target.operation(Verb::Connect)
    }

    /// Builds the request for a path below the subresource.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        query: Vec<(&'static str, String)>,
        body: Bytes,
    ) -> Result<Request<Bytes>> {
        let mut target = self.target.clone();
        let placed = self.client.place(&mut target, DefaultNamespace::OfClient);
        placed
            .and_then(|()| target.connect(method, path, query, body))
            .map_err(|source| Error::Request { operation: Box::new(target.operation(Verb::Connect)), source })
    }

    /// Sends the request. Returns an error if the response is not a success.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        query: Vec<(&'static str, String)>,
        body: Bytes,
    ) -> Result<ConnectResponse> {
        let operation = self.operation();
        let request = self.request(method, path, query, body)?;
        match self.client.execute(request, &operation).await {
            Ok(response) => Ok(ConnectResponse { response, operation }),
            Err(error) => Err(Error::new(operation, error)),
        }
    }
}
