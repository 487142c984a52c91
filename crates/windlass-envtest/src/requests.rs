//! Requests as tests speak of them: what was asked of which objects.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri, header, request::Parts};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use windlass_api::{ApiResource, Resource};
use windlass_client::Verb;

/// A request, on its way to the server or past it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// What is to be done; [`Verb::Request`] where the path is no resource's.
    pub verb: Verb,
    /// The group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name of the resource; empty where the path is none's.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The namespace, where there is one.
    pub namespace: Option<String>,
    /// The name of the object, where one is named.
    pub name: Option<String>,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; empty where there is none.
    pub body: Bytes,
}

/// Some of the requests that clients send. Everything that is said must hold; of several verbs, one.
///
/// ```
/// use windlass_api::k8s_openapi::api::apps::v1::Deployment;
/// use windlass_envtest::{Requests, Verb};
///
/// let scaling = Requests::any().verb(Verb::Patch).verb(Verb::Apply).of::<Deployment>().named("web").subresource("scale");
/// # let _ = scaling;
/// ```
#[derive(Clone, Default)]
#[must_use = "it only says which requests are meant"]
pub struct Requests {
    /// Empty: any.
    verbs: Vec<Verb>,
    /// Group and plural name.
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

    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether the request may change something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        WRITES.contains(&self.verb)
    }

    /// Reads the path: `/api/VERSION/…` or `/apis/GROUP/VERSION/…`, then `namespaces/NAMESPACE` where the resource is in one.
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
            // These are of the namespace itself.
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
    /// `PATCH /api/v1/namespaces/default/pods/web?…`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.uri)
    }
}

// === impl Requests ===

impl Requests {
    /// All of them.
    pub fn any() -> Self {
        Self::default()
    }

    /// Those that may change something.
    pub fn writes() -> Self {
        Self { verbs: WRITES.into(), ..Self::default() }
    }

    /// Those that read objects, once or for as long as it takes.
    pub fn reads() -> Self {
        Self { verbs: [Verb::Get, Verb::List, Verb::Watch].into(), ..Self::default() }
    }

    /// Those that do this; said several times, those that do one of these.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Those for a kind, in any version.
    pub fn of<K: Resource>(self) -> Self {
        self.of_resource(&K::api_resource())
    }

    /// Those for a resource, in any version.
    pub fn of_resource(mut self, resource: &ApiResource) -> Self {
        self.resource = Some((resource.group.clone().into_owned(), resource.plural.clone().into_owned()));
        self
    }

    /// Those for a subresource. Unless it is said, subresources are as good as their objects.
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.subresource = Some(name.into());
        self
    }

    /// Those in a namespace.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Those that name an object in their path. What is created is named in the body.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Those of which this holds, too.
    pub fn matching(mut self, condition: impl Fn(&Sent) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// Whether a request is one of them.
    #[must_use]
    pub fn contain(&self, sent: &Sent) -> bool {
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.verbs.is_empty() || self.verbs.contains(&sent.verb))
            && self.resource.as_ref().is_none_or(|(group, plural)| *group == sent.group && *plural == sent.resource)
            && is(&self.subresource, &sent.subresource)
            && is(&self.namespace, &sent.namespace)
            && is(&self.name, &sent.name)
            && self.conditions.iter().all(|condition| condition(sent))
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
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
    fn requests_are_told_apart_by_their_paths() {
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
    fn what_is_said_of_requests_must_all_hold() {
        let scale = sent("PUT", "/apis/apps/v1/namespaces/a/deployments/w/scale");
        let deployments = ApiResource {
            group: "apps".into(),
            version: "v1beta1".into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
            scope: windlass_api::Scope::Namespaced,
        };
        let some = Requests::writes().of_resource(&deployments).within("a");
        assert!(some.contain(&scale) && Requests::any().contain(&scale));
        assert!(some.clone().named("w").subresource("scale").contain(&scale));
        for other in [
            Requests::reads(),
            some.clone().named("v"),
            some.clone().subresource("status"),
            some.clone().within("b"),
            some.matching(|sent| !sent.body.is_empty()),
        ] {
            assert!(!other.contain(&scale), "{other:?}");
        }
    }
}
