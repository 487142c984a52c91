//! Requests as values: verb, resource and options become an `http::Request`. This module sends nothing.
//!
//! Parts of a path are validated as in client-go (a name must not escape its path segment) and percent-encoded. URIs
//! are paths with a query; the transport adds the server's address.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use thiserror::Error;
use windlass_api::{
    ApiResource, Content, DeleteOptions, ListOptions, Patch, PatchOptions, Scope, WatchOptions, WriteOptions,
};

use crate::operation::{Operation, Verb};

/// The target of a request: a resource, with the namespace, name and subresource that the verb requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The resource.
    pub resource: ApiResource,
    /// The namespace. `None` for cluster-scoped objects and for all namespaces.
    pub namespace: Option<String>,
    /// The object's name. `None` for the collection.
    pub name: Option<String>,
    /// The subresource, such as `status` or `scale`.
    pub subresource: Option<Cow<'static, str>>,
}

/// An error in the parts of a request, found before it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A path segment is empty.
    #[error("the {part} is empty")]
    Empty {
        /// The name of the segment.
        part: &'static str,
    },
    /// A path segment has an invalid value, which could change the path.
    #[error("the {part} {value:?} may not {rule}")]
    Segment {
        /// The name of the segment.
        part: &'static str,
        /// The invalid value.
        value: String,
        /// The violated rule.
        rule: &'static str,
    },
    /// A request for a namespaced object has no namespace.
    #[error("{resource} are namespaced, and no namespace is given")]
    NoNamespace {
        /// The resource.
        resource: String,
    },
    /// A request for a cluster-scoped object has a namespace.
    #[error("{resource} are not namespaced, and the namespace {namespace:?} is given")]
    Namespaced {
        /// The resource.
        resource: String,
        /// The namespace.
        namespace: String,
    },
    /// The client is confined to another namespace.
    #[error("the client is confined to the namespace {own:?}, and {namespace:?} is given")]
    Confined {
        /// The namespace of the request.
        namespace: String,
        /// The client's namespace.
        own: String,
    },
    /// The verb requires a name.
    #[error("no name is given")]
    NoName,
    /// A retrying watch has no resource version to start from.
    #[error("no resourceVersion is given to go on from")]
    NoVersion,
    /// A path segment is set twice.
    #[error("the {part} is already {first:?} and cannot be set to {second:?}")]
    Twice {
        /// The name of the segment.
        part: &'static str,
        /// The first value.
        first: String,
        /// The second value.
        second: String,
    },
    /// The name or value of a header is invalid.
    #[error("the header {name:?} cannot be sent")]
    Header {
        /// The header's name. The value is omitted, because it may be a secret.
        name: String,
    },
    /// The parts do not form a valid URI.
    #[error("{path:?} is not a valid request path")]
    Uri {
        /// The path.
        path: String,
    },
}

/// The characters that are not escaped in a path segment, as in Go's `net/url`.
pub(crate) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The characters that are not escaped in a query value.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Accepts only tables, without a fallback to plain objects.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The usual maximum length of a path with its query, in bytes.
const USUAL_PATH: usize = 128;

type Result<T> = std::result::Result<T, RequestError>;

impl Target {
    /// Creates a target for the collection of a resource, in all namespaces.
    #[must_use]
    pub const fn new(resource: ApiResource) -> Self {
        Self { resource, namespace: None, name: None, subresource: None }
    }

    /// Returns this target in a namespace. The empty namespace stands for none.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Returns this target for one object.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns this target for a subresource of the object.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<Cow<'static, str>>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Returns the operation to name in errors about `verb` on this target.
    #[must_use]
    pub fn operation(&self, verb: Verb) -> Operation {
        Operation {
            verb,
            resource: self.resource.group_resource().to_string(),
            subresource: self.subresource.as_deref().map(str::to_owned),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Reads one object.
    pub fn get(&self, resource_version: Option<&str>, content: Content) -> Result<Request<Bytes>> {
        let query = resource_version.map(|version| ("resourceVersion", version));
        self.on_object(Method::GET, query, Bytes::new()).map(|request| accepting(request, accept_object(content)))
    }

    /// Lists the objects of the collection.
    pub fn list(&self, options: &ListOptions, content: Content) -> Result<Request<Bytes>> {
        let request = self.on_collection(Method::GET, options.query_pairs(), Bytes::new())?;
        Ok(accepting(request, accept_list(content)))
    }

    /// Watches the objects of the collection.
    pub fn watch(&self, options: &WatchOptions, content: Content) -> Result<Request<Bytes>> {
        let request = self.on_collection(Method::GET, options.query_pairs(), Bytes::new())?;
        Ok(accepting(request, accept_object(content)))
    }

    /// Creates `object` in the collection, or in a subresource of a named object.
    pub fn create(&self, object: Bytes, options: &WriteOptions) -> Result<Request<Bytes>> {
        let path = if self.name.is_some() {
            self.object_path()?
        } else {
            self.require_namespace()?;
            self.collection_path()?
        };
        build(Method::POST, path, options.query_pairs(), Some(JSON), object)
    }

    /// Replaces the object.
    pub fn update(&self, object: Bytes, options: &WriteOptions) -> Result<Request<Bytes>> {
        self.on_object(Method::PUT, options.query_pairs(), object)
    }

    /// Patches the object. `body` is the encoded patch.
    pub fn patch(&self, patch: &Patch, body: Bytes, options: &PatchOptions) -> Result<Request<Bytes>> {
        let media_type = HeaderValue::from_static(patch.kind().media_type());
        build(Method::PATCH, self.object_path()?, options.query_pairs(), Some(media_type), body)
    }

    /// Deletes the object.
    pub fn delete(&self, options: &DeleteOptions) -> Result<Request<Bytes>> {
        self.on_object(Method::DELETE, None::<(_, &str)>, options.body().into())
    }

    /// Deletes the objects of the collection that match the selectors in `which`.
    pub fn delete_collection(&self, options: &DeleteOptions, which: &ListOptions) -> Result<Request<Bytes>> {
        self.require_namespace()?;
        self.on_collection(Method::DELETE, which.query_pairs(), options.body().into())
    }

    /// Sends a request of any method to a connect subresource of the object, such as `proxy`. `path` is appended to its
    /// URL; it is already encoded, and is empty or starts with a slash.
    pub fn connect(
        &self,
        method: Method,
        path: &str,
        query: impl IntoIterator<Item = (&'static str, impl AsRef<str>)>,
        body: Bytes,
    ) -> Result<Request<Bytes>> {
        let media_type = (!body.is_empty()).then_some(JSON);
        build(method, self.object_path()? + path, query, media_type, body)
    }

    fn on_object(
        &self,
        method: Method,
        query: impl IntoIterator<Item = (&'static str, impl AsRef<str>)>,
        body: Bytes,
    ) -> Result<Request<Bytes>> {
        let media_type = (!body.is_empty()).then_some(JSON);
        build(method, self.object_path()?, query, media_type, body)
    }

    fn on_collection(
        &self,
        method: Method,
        query: impl IntoIterator<Item = (&'static str, impl AsRef<str>)>,
        body: Bytes,
    ) -> Result<Request<Bytes>> {
        let media_type = (!body.is_empty()).then_some(JSON);
        build(method, self.collection_path()?, query, media_type, body)
    }

    fn collection_path(&self) -> Result<String> {
        let resource = &self.resource;
        let mut path = String::with_capacity(USUAL_PATH);
        if resource.group.is_empty() {
            path.push_str("/api");
        } else {
            path.push_str("/apis");
            push_segment(&mut path, "group", &resource.group)?;
        }
        push_segment(&mut path, "version", &resource.version)?;
        if let Some(namespace) = &self.namespace {
            if resource.scope == Scope::Cluster {
                let resource = resource.group_resource().to_string();
                return Err(RequestError::Namespaced { resource, namespace: namespace.clone() });
            }
            path.push_str("/namespaces");
            push_segment(&mut path, "namespace", namespace)?;
        }
        push_segment(&mut path, "resource", &resource.plural)?;
        Ok(path)
    }

    fn object_path(&self) -> Result<String> {
        self.require_namespace()?;
        let mut path = self.collection_path()?;
        push_segment(&mut path, "name", self.name.as_ref().ok_or(RequestError::NoName)?)?;
        if let Some(subresource) = &self.subresource {
            push_segment(&mut path, "subresource", subresource)?;
        }
        Ok(path)
    }

    fn require_namespace(&self) -> Result<()> {
        if self.resource.scope == Scope::Namespaced && self.namespace.is_none() {
            return Err(RequestError::NoNamespace { resource: self.resource.group_resource().to_string() });
        }
        Ok(())
    }
}

/// The fallback for servers without metadata-only responses is the whole object, which decodes as well.
const fn accept_object(content: Content) -> &'static str {
    match content {
        Content::Object | Content::AllFields => "application/json",
        Content::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        Content::Table => TABLE,
    }
}

const fn accept_list(content: Content) -> &'static str {
    match content {
        Content::Object | Content::AllFields => "application/json",
        Content::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        Content::Table => TABLE,
    }
}

fn accepting(mut request: Request<Bytes>, accept: &'static str) -> Request<Bytes> {
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
    request
}

fn push_segment(path: &mut String, part: &'static str, value: &str) -> Result<()> {
    check_segment(part, value)?;
    path.push('/');
    path.extend(utf8_percent_encode(value, SEGMENT));
    Ok(())
}

/// Returns an error if a value is not a single valid path segment.
pub(crate) fn check_segment(part: &'static str, value: &str) -> Result<()> {
    let broken = match value {
        "" => return Err(RequestError::Empty { part }),
        "." | ".." => Some("be that"),
        _ if value.contains('/') => Some("contain a slash"),
        _ if value.contains('%') => Some("contain a percent sign"),
        _ => None,
    };
    match broken {
        Some(rule) => Err(RequestError::Segment { part, value: value.to_owned(), rule }),
        None => Ok(()),
    }
}

/// Appends query parameters to a path without a query.
pub(crate) fn append_query<N, V>(path: &mut String, query: impl IntoIterator<Item = (N, V)>)
where
    N: AsRef<str>,
    V: AsRef<str>,
{
    for (index, (name, value)) in query.into_iter().enumerate() {
        path.push(if index == 0 { '?' } else { '&' });
        path.extend(utf8_percent_encode(name.as_ref(), QUERY));
        path.push('=');
        path.extend(utf8_percent_encode(value.as_ref(), QUERY));
    }
}

fn build(
    method: Method,
    mut path: String,
    query: impl IntoIterator<Item = (&'static str, impl AsRef<str>)>,
    media_type: Option<HeaderValue>,
    body: Bytes,
) -> Result<Request<Bytes>> {
    append_query(&mut path, query);
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().map_err(|_| RequestError::Uri { path })?;
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, JSON);
    if let Some(media_type) = media_type {
        headers.insert(header::CONTENT_TYPE, media_type);
    }
    Ok(request)
}

#[cfg(test)]
mod tests;
