//! Requests with any verb and path, built part by part, for everything that the typed verbs do not cover.
//!
//! ```no_run
//! # async fn example(client: windlass_client::Client) -> windlass_client::Result<()> {
//! use windlass_api::{GroupVersion, ListOptions, k8s_openapi::api::core::v1::Pod};
//!
//! let rest = client.rest(GroupVersion::new("", "v1"));
//! let pod = rest.get().namespace("default").resource("pods").name("test").send().await?.into::<Pod>()?;
//!
//! let few = ListOptions { limit: Some(5), ..ListOptions::default() };
//! let page = rest.get().resource("pods").params(few.query_pairs()).send().await?;
//! let health = rest.get().abs_path("/readyz").param("verbose", "").send().await?;
//! # let _ = (pod, page, health);
//! # Ok(())
//! # }
//! ```
//!
//! The setters never fail. The first invalid part is recorded, and the method that sends the request returns it as an
//! error.

mod path;
mod rest_response;

use std::{borrow::Cow, fmt, future::IntoFuture, time::Duration};

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use serde::Serialize;
use windlass_api::{GroupResource, GroupVersion, ListWatchError, Object, PatchKind};

pub use rest_response::RestResponse;

use crate::{
    Client, Error, Result,
    body::Body,
    operation::{Operation, Verb},
    pipeline::{RateLimit, Reading},
    request::{RequestError, append_query},
    response,
    verbs::{BuildError, WatchStream},
    warnings::WarningHandler,
};
use path::Path;

/// The default `Accept` header: JSON, or anything if the server has no JSON.
const ACCEPT: HeaderValue = HeaderValue::from_static("application/json, */*");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Creates requests for one group and version.
#[derive(Clone, Debug)]
pub struct RestClient {
    client: Client,
    group_version: GroupVersion,
}

/// A request that is being built.
#[must_use = "nothing is sent before `send`, `stream` or `watch`"]
pub struct RestRequest {
    client: Client,
    method: Method,
    group: Cow<'static, str>,
    path: Path,
    query: Vec<(Cow<'static, str>, String)>,
    headers: HeaderMap,
    body: Body,
    timeout: Option<Duration>,
    /// The first error; later ones are ignored.
    error: Option<BuildError>,
}

impl Client {
    /// Returns a builder of requests for a group and version.
    #[must_use]
    pub fn rest(&self, group_version: GroupVersion) -> RestClient {
        RestClient { client: self.clone(), group_version }
    }
}

// === impl RestClient ===

impl RestClient {
    /// Returns the group and version of the requests.
    #[must_use]
    pub const fn group_version(&self) -> &GroupVersion {
        &self.group_version
    }

    /// Starts a `GET` request.
    pub fn get(&self) -> RestRequest {
        self.verb(Method::GET)
    }

    /// Starts a `POST` request.
    pub fn post(&self) -> RestRequest {
        self.verb(Method::POST)
    }

    /// Starts a `PUT` request.
    pub fn put(&self) -> RestRequest {
        self.verb(Method::PUT)
    }

    /// Starts a `DELETE` request.
    pub fn delete(&self) -> RestRequest {
        self.verb(Method::DELETE)
    }

    /// Starts a `PATCH` request with the media type of this kind of patch.
    pub fn patch(&self, kind: PatchKind) -> RestRequest {
        let mut request = self.verb(Method::PATCH);
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind.media_type()));
        request
    }

    /// Starts a request with any method.
    pub fn verb(&self, method: Method) -> RestRequest {
        RestRequest {
            client: self.client.clone(),
            method,
            group: self.group_version.group.clone(),
            path: Path::of(&self.group_version),
            query: Vec::new(),
            headers: HeaderMap::from_iter([(header::ACCEPT, ACCEPT)]),
            body: Body::empty(),
            timeout: None,
            error: None,
        }
    }
}

// === The target ===

impl RestRequest {
    /// Sets the namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.on_path(|path| path.set_namespace(namespace.into()))
    }

    /// Sets the namespace, if one is given.
    pub fn namespace_if(self, namespace: Option<impl Into<String>>) -> Self {
        match namespace {
            Some(namespace) => self.namespace(namespace),
            None => self,
        }
    }

    /// Sets the resource, for example `pods`.
    pub fn resource(self, resource: impl Into<String>) -> Self {
        self.on_path(|path| path.set_resource(resource.into()))
    }

    /// Sets the object's name.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.on_path(|path| path.set_name(name.into()))
    }

    /// Sets the subresource. Slashes separate several path segments.
    pub fn sub_resource(self, subresource: impl Into<String>) -> Self {
        self.on_path(|path| path.set_subresource(subresource.into()))
    }

    /// Adds path segments after the group and version.
    pub fn prefix(self, segments: &str) -> Self {
        self.on_path(|path| path.push_prefix(segments))
    }

    /// Adds path segments at the end of the path.
    pub fn suffix(self, segments: &str) -> Self {
        self.on_path(|path| path.push_suffix(segments))
    }

    /// Replaces the path of the group and version. The other parts are appended to it.
    pub fn abs_path(self, path: &str) -> Self {
        self.on_path(|parts| parts.set_prefix(path))
    }

    /// Sets a path with its query, encoded as in a URL. Replaces the path of the group and version and all parameters.
    pub fn request_uri(mut self, uri: &str) -> Self {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        self.query.clear();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.query.push((decoded(&name.replace('+', " ")).into(), decoded(&value.replace('+', " "))));
        }
        self.abs_path(&decoded(path))
    }

    /// Adds a query parameter. A parameter that is added twice is sent twice.
    pub fn param(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Adds query parameters, such as the `query_pairs` of options.
    pub fn params<N, V>(mut self, pairs: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<Cow<'static, str>>,
        V: Into<String>,
    {
        self.query.extend(pairs.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Sets a header. Replaces an earlier value.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        match (name.parse::<HeaderName>(), HeaderValue::from_str(value.as_ref())) {
            (Ok(name), Ok(value)) => drop(self.headers.insert(name, value)),
            _ => self.fail(BuildError::Request(RequestError::Header { name: name.to_owned() })),
        }
        self
    }

    /// Sets the media type of the `Accept` header. Defaults to JSON.
    pub fn accept(self, media_type: &str) -> Self {
        self.header(header::ACCEPT, media_type)
    }

    /// Sets the body to these bytes. A request with a streamed body cannot be retried.
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to a value encoded as JSON, and the `Content-Type` header unless it is already set.
    pub fn json(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(bytes) => {
                self.headers.entry(header::CONTENT_TYPE).or_insert(JSON);
                self.body = bytes.into();
            }
            Err(error) => self.fail(BuildError::Encode(error)),
        }
        self
    }

    fn on_path(mut self, set: impl FnOnce(&mut Path) -> Result<(), RequestError>) -> Self {
        if let Err(error) = set(&mut self.path) {
            self.fail(BuildError::Request(error));
        }
        self
    }

    fn fail(&mut self, error: BuildError) {
        self.error.get_or_insert(error);
    }
}

// === Sending ===

impl RestRequest {
    /// Limits the total time of the call. The limit is also sent to the server as the `timeout` parameter.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.client = self.client.with_timeout(timeout);
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of retries. Overrides the client's.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.client = self.client.with_retries(retries);
        self
    }

    /// Sets a rate limit for this request. Overrides the client's.
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.client = self.client.with_rate_limit(limit);
        self
    }

    /// Sets the handler of the server's warnings. Overrides the client's.
    pub fn warnings(mut self, handler: impl WarningHandler) -> Self {
        self.client = self.client.with_warnings(handler);
        self
    }

    /// Sends the request and reads the whole response. `.await` does the same. Returns an error if the response is not
    /// a success.
    pub async fn send(self) -> Result<RestResponse> {
        let (client, request, operation) = self.build(None)?;
        let answer = async {
            let response = client.execute_as(request, &operation, Reading::Whole).await?;
            let (head, body) = response.into_parts();
            Ok((head, response::collect(body, client.response_limit()).await?))
        };
        let outcome: Result<_, ListWatchError> = answer.await;
        match outcome {
            Ok((head, body)) => Ok(RestResponse::new(operation, head, body)),
            Err(error) => Err(Error::new(operation, error)),
        }
    }

    /// Sends the request and streams the response body. The time to read it is not limited. Returns an error if the
    /// response is not a success.
    pub async fn stream(self) -> Result<Body> {
        let (client, request, operation) = self.build(None)?;
        let outcome = client.execute_as(request, &operation, Reading::Stream).await;
        outcome.map(http::Response::into_body).map_err(|error| Error::new(operation, error))
    }

    /// Sends the request as a watch and returns the stream of events.
    pub async fn watch<K: Object>(mut self) -> Result<WatchStream<K>> {
        if !self.query.iter().any(|(name, _)| name == "watch") {
            self.query.push(("watch".into(), "true".to_owned()));
        }
        let (client, request, operation) = self.build(Some(Verb::Watch))?;
        match client.execute_as(request, &operation, Reading::Watch).await {
            Ok(response) => Ok(WatchStream::new(response, client.object_limit(), operation)),
            Err(error) => Err(Error::new(operation, error)),
        }
    }

    fn build(mut self, verb: Option<Verb>) -> Result<(Client, Request<Body>, Operation)> {
        let operation = self.operation(verb);
        if let Some(timeout) = self.timeout {
            self.query.push(("timeout".into(), format!("{}ms", timeout.as_millis())));
        }
        let uri = self.path.checked_for(&self.method).and_then(|()| {
            let mut path = self.path.to_string();
            append_query(&mut path, std::mem::take(&mut self.query));
            path.parse().map_err(|_| RequestError::Uri { path })
        });
        let uri = match (self.error, uri) {
            (None, Ok(uri)) => uri,
            (Some(BuildError::Encode(source)), _) => {
                return Err(Error::Encode { operation: Box::new(operation), source });
            }
            (Some(BuildError::Request(source)), _) | (None, Err(source)) => {
                return Err(Error::Request { operation: Box::new(operation), source });
            }
        };
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers;
        Ok((self.client, request, operation))
    }

    /// Returns the operation to name in errors.
    fn operation(&self, verb: Option<Verb>) -> Operation {
        let path = &self.path;
        let Some(resource) = path.resource() else { return Operation::request(&path.to_string()) };
        let verb = verb.unwrap_or_else(|| match (&self.method, path.name()) {
            (&Method::GET, Some(_)) => Verb::Get,
            (&Method::GET, None) => Verb::List,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, _) => Verb::Patch,
            (&Method::DELETE, Some(_)) => Verb::Delete,
            (&Method::DELETE, None) => Verb::DeleteCollection,
            _ => Verb::Request,
        });
        Operation {
            verb,
            resource: GroupResource::new(self.group.clone(), resource.to_owned()).to_string(),
            subresource: path.subresource().map(str::to_owned),
            namespace: path.namespace().map(str::to_owned),
            name: path.name().map(str::to_owned),
        }
    }
}

impl IntoFuture for RestRequest {
    type Output = Result<RestResponse>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl fmt::Debug for RestRequest {
    /// Omits headers and body, because they may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RestRequest({} {})", self.method, self.path)
    }
}

#[cfg(test)]
mod tests;
