//! Requests and request matchers for faults and recorders.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri, header, request::Parts};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use windlass_api::{ApiResource, Resource};
use windlass_client::Verb;

/// A request of a client, before it reaches the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// The verb; [`Verb::Request`] if the path is not that of a resource.
    pub verb: Verb,
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name of the resource; empty if the path is not that of a resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The namespace, if the path has one.
    pub namespace: Option<String>,
    /// The name of the object, if the path has one.
    pub name: Option<String>,
    /// The method.
    pub method: Method,
    /// The path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; empty if the request has none.
    pub body: Bytes,
}

/// A matcher for requests. A request must match all criteria. If several verbs are given, it must have one of them.
///
/// ```
/// use windlass_api::k8s_openapi::api::apps::v1::Deployment;
/// use windlass_envtest::{RequestMatcher, Verb};
///
/// let scaling = RequestMatcher::any().verb(Verb::Patch).verb(Verb::Apply).of::<Deployment>().named("web").subresource("scale");
/// # let _ = scaling;
/// ```
#[derive(Clone, Default)]
#[must_use = "a matcher has no effect by itself"]
pub struct RequestMatcher {
    /// The accepted verbs; empty for any verb.
    verbs: Vec<Verb>,
    /// The group and plural name.
    resource: Option<(String, String)>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    conditions: Vec<Arc<Condition>>,
}

type Condition = dyn Fn(&Sent) -> bool + Send + Sync;

const WRITES: [Verb; 6] = [Verb::Create, Verb::Update, Verb::Patch, Verb::Apply, Verb::Delete, Verb::DeleteCollection];

// === impl Sent ===

impl Sent {
    pub(crate) fn new(head: &Parts, body: Bytes) -> Self {
        let mut sent = Self {
            verb: Verb::Request,
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: None,
            namespace: None,
            name: None,
            method: head.method.clone(),
            uri: head.uri.clone(),
            headers: head.headers.clone(),
            body,
        };
        sent.place();
        sent
    }

    /// Returns the body as JSON, or null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns `true` if the request may change an object.
    #[must_use]
    pub fn is_write(&self) -> bool {
        WRITES.contains(&self.verb)
    }

    /// Parses the path: `/api/VERSION/…` or `/apis/GROUP/VERSION/…`, then `namespaces/NAMESPACE` for namespaced
    /// resources.
    fn place(&mut self) {
        let parts = self.uri.path().split('/').filter(|part| !part.is_empty());
        let parts: Vec<String> = parts.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match &parts[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return,
        };
        let (namespace, rest) = match rest {
            // These are subresources of the namespace itself.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let [resource, rest @ ..] = rest else { return };
        (self.group, self.version, self.resource) = (group.to_owned(), version.to_owned(), (*resource).to_owned());
        self.namespace = namespace;
        self.name = rest.first().map(|name| (*name).to_owned());
        self.subresource = rest.get(1).map(|subresource| (*subresource).to_owned());
        self.verb = self.verb_of_resource();
    }

    fn verb_of_resource(&self) -> Verb {
        let query = self.uri.query().unwrap_or_default();
        let watches = query.split('&').any(|option| matches!(option, "watch=true" | "watch=1" | "watch=" | "watch"));
        let kind = self.headers.get(header::CONTENT_TYPE).map_or(&b""[..], http::HeaderValue::as_bytes);
        match (&self.method, &self.name) {
            (&Method::GET, None) if watches => Verb::Watch,
            (&Method::GET, None) => Verb::List,
            (&Method::GET, Some(_)) => Verb::Get,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, _) if kind.starts_with(b"application/apply-patch") => Verb::Apply,
            (&Method::PATCH, _) => Verb::Patch,
            (&Method::DELETE, None) => Verb::DeleteCollection,
            (&Method::DELETE, Some(_)) => Verb::Delete,
            _ => Verb::Request,
        }
    }
}

impl fmt::Display for Sent {
    /// Formats the request as `PATCH /api/v1/namespaces/default/pods/web?…`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.uri)
    }
}

// === impl RequestMatcher ===

impl RequestMatcher {
    /// Matches all requests.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches requests that may change an object.
    pub fn writes() -> Self {
        Self { verbs: WRITES.into(), ..Self::default() }
    }

    /// Matches gets, lists and watches.
    pub fn reads() -> Self {
        Self { verbs: [Verb::Get, Verb::List, Verb::Watch].into(), ..Self::default() }
    }

    /// Matches requests with this verb. After several calls, one of the verbs must match.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Matches requests for a kind, in any version.
    pub fn of<K: Resource>(self) -> Self {
        self.of_resource(&K::api_resource())
    }

    /// Matches requests for a resource, in any version.
    pub fn of_resource(mut self, resource: &ApiResource) -> Self {
        self.resource = Some((resource.group.clone().into_owned(), resource.plural.clone().into_owned()));
        self
    }

    /// Matches requests for a subresource. By default, requests for the object and for all of its subresources match.
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.subresource = Some(name.into());
        self
    }

    /// Matches requests in a namespace.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Matches requests with this object name in their path. A create request has the name in its body instead.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Matches requests for which the closure returns `true`.
    pub fn matching(mut self, condition: impl Fn(&Sent) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// Returns `true` if a request matches.
    #[must_use]
    pub fn matches(&self, sent: &Sent) -> bool {
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.verbs.is_empty() || self.verbs.contains(&sent.verb))
            && self.resource.as_ref().is_none_or(|(group, plural)| *group == sent.group && *plural == sent.resource)
            && is(&self.subresource, &sent.subresource)
            && is(&self.namespace, &sent.namespace)
            && is(&self.name, &sent.name)
            && self.conditions.iter().all(|condition| condition(sent))
    }
}

impl fmt::Debug for RequestMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestMatcher")
            .field("verbs", &self.verbs)
            .field("resource", &self.resource)
            .field("subresource", &self.subresource)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn sent(method: &str, uri: &str) -> Sent {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(header::CONTENT_TYPE, "application/apply-patch+yaml");
        Sent::new(&request.body(()).unwrap().into_parts().0, Bytes::new())
    }

    #[test]
    fn requests_are_distinguished_by_path() {
        let told = |method: &str, uri: &str| {
            let Sent { verb, group, resource, subresource, namespace, name, .. } = sent(method, uri);
            let text = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
            format!("{verb:?} {group}:{resource} {} {} {}", text(namespace), text(name), text(subresource))
        };
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods?limit=5", "List :pods - - -"),
            ("GET", "/api/v1/namespaces/a/pods?watch=true", "Watch :pods a - -"),
            ("GET", "/api/v1/namespaces/a", "Get :namespaces - a -"),
            ("PUT", "/api/v1/namespaces/a/finalize", "Update :namespaces - a finalize"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", "Create apps:deployments a - -"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/w/status", "Apply apps:deployments a w status"),
            (
                "DELETE",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
                "Delete rbac.authorization.k8s.io:clusterroles - a:b -",
            ),
            ("DELETE", "/api/v1/namespaces/a/pods", "DeleteCollection :pods a - -"),
            ("GET", "/readyz", "Request : - - -"),
            ("GET", "/apis/apps/v1", "Request : - - -"),
        ] {
            assert_eq!(told(method, uri), expected, "{method} {uri}");
        }
    }

    #[test]
    fn all_request_conditions_must_hold() {
        let scale = sent("PUT", "/apis/apps/v1/namespaces/a/deployments/w/scale");
        let deployments = ApiResource {
            group: "apps".into(),
            version: "v1beta1".into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
            scope: windlass_api::Scope::Namespaced,
        };
        let some = RequestMatcher::writes().of_resource(&deployments).within("a");
        assert!(some.matches(&scale) && RequestMatcher::any().matches(&scale));
        assert!(some.clone().named("w").subresource("scale").matches(&scale));
        for other in [
            RequestMatcher::reads(),
            some.clone().named("v"),
            some.clone().subresource("status"),
            some.clone().within("b"),
            some.matching(|sent| !sent.body.is_empty()),
        ] {
            assert!(!other.matches(&scale), "{other:?}");
        }
    }
}
