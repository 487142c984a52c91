//! Request information from the method and path alone.
//!
//! Every path has an interpretation here, even if nothing is served under it: authorization comes before the lookup of
//! resources.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;
use windlass_api::FieldSelector;

use crate::object::path_segment;
use crate::request::Query;

/// The verb and the resource of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// The path, percent-decoded.
    pub(crate) path: String,
    /// `get`, `list`, `watch`, …; for paths that are not resources, the method in lower case.
    pub(crate) verb: Cow<'static, str>,
    /// `None` if the path is not under `/api/{version}/` or `/apis/{group}/{version}/`.
    pub(crate) resource: Option<ResourcePath>,
}

/// The parts of a path under `/api/{version}/` or `/apis/{group}/{version}/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// The path has the deprecated `/watch/` before the resource.
    pub(crate) legacy_watch: bool,
    /// As in kube-apiserver, the path of a namespace object has this namespace.
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    /// Empty for the collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// The path segments after the subresource.
    pub(crate) rest: Vec<String>,
    /// The single name that the field selector of a collection request selects. Permission for that object is enough
    /// for the request.
    pub(crate) selected: String,
    /// The value that the field selector of a collection request requires in `spec.nodeName`.
    pub(crate) selected_node: Option<String>,
}

/// The error for a path that is neither a resource path nor any other valid path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidPath {
    pub(crate) path: String,
}

/// The subresources of namespaces. As the last segment of a path they are not resources in the namespace.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl ResourcePath {
    /// Returns the name of the requested object: the name in the path, or else the single name that the field selector
    /// selects.
    pub(crate) fn requested_name(&self) -> &str {
        if self.name.is_empty() { &self.selected } else { &self.name }
    }
}

impl RequestInfo {
    /// Parses a request. The path is still percent-encoded.
    pub(crate) fn new(method: &Method, path: &str, query: &Query) -> Result<Self, InvalidPath> {
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let lower = || Cow::Owned(method.as_str().to_ascii_lowercase());
        let trimmed = path.trim_matches('/');
        let mut parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        let group = match parts.as_slice() {
            ["api", _, _, ..] => parts.drain(..1).next().map(|_| ""),
            ["apis", group, _, _, ..] => {
                let group = *group;
                parts.drain(..2);
                Some(group)
            }
            _ => None,
        };
        let Some(group) = group else { return Ok(Self { verb: lower(), resource: None, path }) };
        let version = parts.remove(0).to_owned();

        let legacy = matches!(parts.first(), Some(&"watch" | &"proxy"));
        let mut verb = match (legacy, parts.first()) {
            (true, Some(&special)) => {
                if parts.len() < 2 {
                    return Err(InvalidPath { path });
                }
                parts.remove(0);
                if special == "watch" { "watch" } else { "proxy" }
            }
            _ => match *method {
                Method::POST => "create",
                Method::GET | Method::HEAD => "get",
                Method::PUT => "update",
                Method::PATCH => "patch",
                Method::DELETE => "delete",
                _ => "",
            },
        };
        let mut resource =
            ResourcePath { group: group.to_owned(), version, legacy_watch: verb == "watch", ..ResourcePath::default() };
        if let ["namespaces", namespace, ..] = parts.as_slice() {
            resource.namespace = Some((*namespace).to_owned());
            if parts.get(2).is_some_and(|part| !NAMESPACE_SUBRESOURCES.contains(part)) {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter().map(str::to_owned);
        resource.resource = parts.next().unwrap_or_default();
        resource.name = parts.next().unwrap_or_default();
        resource.subresource = parts.next().unwrap_or_default();
        resource.rest = parts.collect();
        if resource.name.is_empty() || resource.legacy_watch {
            resource.selected_node = selected_value(query, "spec.nodeName");
        }
        if resource.name.is_empty() {
            verb = match verb {
                "get" => {
                    resource.selected = selected_name(query).unwrap_or_default();
                    if query.boolean("watch") { "watch" } else { "list" }
                }
                "delete" => "deletecollection",
                verb => verb,
            };
        }
        Ok(Self { verb: Cow::Borrowed(verb), resource: Some(resource), path })
    }

    /// Returns the path that a proxy forwards: the segments after the subresource.
    pub(crate) fn passed_path(&self) -> String {
        let parts = self.resource.iter().flat_map(|resource| &resource.rest);
        let mut passed = parts.fold(String::new(), |passed, part| passed + "/" + part);
        if self.path.ends_with('/') && !passed.ends_with('/') {
            passed.push('/');
        }
        passed
    }

    /// Reports whether the response ends only when the client disconnects or the server stops.
    pub(crate) fn is_long_running(&self) -> bool {
        self.resource.is_some() && self.verb == "watch"
    }

    /// Reports whether the request must be answered within a time limit. Watches and connections to pods, nodes and services
    /// need not.
    pub(crate) fn has_time_limit(&self) -> bool {
        let connects = |resource: &ResourcePath| {
            matches!(&*resource.subresource, "attach" | "exec" | "proxy" | "log" | "portforward")
        };
        !matches!(&*self.verb, "watch" | "proxy") && !self.resource.as_ref().is_some_and(connects)
    }
}

/// Returns the name that the field selector requires, if any.
fn selected_name(query: &Query) -> Option<String> {
    selected_value(query, "metadata.name").filter(|name| path_segment(name).is_empty())
}

/// Returns the value that the field selector requires in a field, if any.
fn selected_value(query: &Query, field: &str) -> Option<String> {
    let selector: FieldSelector = query.text("fieldSelector")?.parse().ok()?;
    selector.exact(field).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use crate::request::info::*;

    fn route(method: &str, target: &str) -> Result<RequestInfo, InvalidPath> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        RequestInfo::new(&Method::from_bytes(method.as_bytes()).unwrap(), path, &Query::parse(query))
    }

    /// Formats a request as `verb group/version namespace resource name subresource`, with `-` for missing parts.
    fn describe(method: &str, target: &str) -> String {
        let info = route(method, target).unwrap();
        let Some(resource) = info.resource else { return format!("{} {}", info.verb, info.path) };
        let or = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        format!(
            "{} {}/{} {} {} {} {}",
            or(&info.verb),
            or(&resource.group),
            resource.version,
            or(resource.namespace.as_deref().unwrap_or("")),
            resource.resource,
            or(&resource.name),
            or(&resource.subresource)
        )
    }

    #[test]
    fn methods_and_paths_become_verbs() {
        for (method, target, expected) in [
            ("GET", "/api/v1/pods", "list -/v1 - pods - -"),
            ("HEAD", "/api/v1/pods", "list -/v1 - pods - -"),
            ("GET", "/api/v1/pods?watch=", "watch -/v1 - pods - -"),
            ("GET", "/api/v1/pods?watch=False", "list -/v1 - pods - -"),
            ("GET", "/api/v1/namespaces/a/pods/", "list -/v1 a pods - -"),
            ("GET", "/api/v1/namespaces/a/pods/p?watch=1", "get -/v1 a pods p -"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", "create apps/v1 a deployments - -"),
            ("PUT", "/apis/apps/v1/namespaces/a/deployments/d/status", "update apps/v1 a deployments d status"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", "patch apps/v1 a deployments d scale"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection -/v1 a pods - -"),
            ("DELETE", "/api/v1/namespaces/a", "delete -/v1 a namespaces a -"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update -/v1 a namespaces a finalize"),
            ("GET", "/api/v1/namespaces/a/status", "get -/v1 a namespaces a status"),
            ("GET", "/api/v1/watch/namespaces/a/pods/p", "watch -/v1 a pods p -"),
            ("GET", "/apis/apps/v1/watch/deployments", "watch apps/v1 - deployments - -"),
            ("GET", "/apis/r.io/v1/roles/system%3Anode", "get r.io/v1 - roles system:node -"),
            ("OPTIONS", "/api/v1/pods", "- -/v1 - pods - -"),
            ("GET", "/api/v1", "get /api/v1"),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("POST", "/version", "post /version"),
            ("GET", "/", "get /"),
        ] {
            assert_eq!(describe(method, target), expected, "{method} {target}");
        }
    }

    #[test]
    fn watch_path_without_resource_is_not_routed() {
        assert!(route("GET", "/api/v1/watch").is_err());
        assert!(route("GET", "/api/v1/watch/").is_err());
    }
}
