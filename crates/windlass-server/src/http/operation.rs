//! The operation that the method and the path of a request select.

use http::Method;
use windlass_api::{Status, StatusDetails, reason};

use super::Failure;
use crate::{encoded::Style, request::ResourcePath, resource::ResourceInfo};

/// The requested operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Operation {
    /// Returns the operation of a method on a path of this resource.
    pub(super) fn of(method: &Method, path: &ResourcePath, resource: &ResourceInfo) -> Result<Self, Failure> {
        let custom = !is_built_in(resource);
        let missing = || if custom { Failure::NotFound } else { Status::unknown_resource().into() };
        // A namespace object is cluster-scoped, but its own path contains its name as the namespace.
        let in_namespace = path.namespace.is_some() && (path.resource != "namespaces" || path.name.is_empty());
        if in_namespace && !resource.is_namespaced() {
            return Err(missing());
        }
        let everywhere = resource.is_namespaced() && !in_namespace;
        if everywhere && (custom || !path.name.is_empty()) && (*method != Method::GET || !path.name.is_empty()) {
            return Err(missing());
        }
        let verbs = if path.subresource.is_empty() {
            &resource.verbs
        } else {
            let found = resource.subresource(&path.subresource).filter(|_| path.rest.is_empty() && !path.legacy_watch);
            let unknown = || if custom { not_found(path, resource) } else { missing() };
            &found.ok_or_else(unknown)?.verbs
        };
        // Resources with the single verb `create` have no paths for objects.
        if !path.name.is_empty() && path.subresource.is_empty() && *verbs == ["create"] {
            return Err(missing());
        }
        let reads = *method == Method::GET || (custom && *method == Method::HEAD);
        let collection = path.name.is_empty();
        let (operation, verb) = match *method {
            _ if path.legacy_watch && reads => (Self::Watch, "watch"),
            _ if path.legacy_watch => return Err(Status::method_not_allowed().into()),
            _ if reads && collection => (Self::List, "list"),
            _ if reads => (Self::Get, "get"),
            Method::POST if collection && !everywhere || !path.subresource.is_empty() => (Self::Create, "create"),
            Method::PUT if !collection => (Self::Update, "update"),
            Method::PATCH if !collection => (Self::Patch, "patch"),
            Method::DELETE if collection && !everywhere => (Self::DeleteCollection, "deletecollection"),
            Method::DELETE if !collection => (Self::Delete, "delete"),
            _ => return Err(not_supported(resource, method)),
        };
        if *method == Method::POST && path.subresource.is_empty() && !collection {
            return Err(not_supported(resource, method));
        }
        if verbs.iter().any(|own| own == verb) { Ok(operation) } else { Err(not_supported(resource, method)) }
    }
}

pub(super) fn is_built_in(resource: &ResourceInfo) -> bool {
    resource.shape.style() == Style::BuiltIn
}

/// Returns the error for a subresource that this custom resource does not have.
fn not_found(path: &ResourcePath, resource: &ResourceInfo) -> Failure {
    Status::not_found(&resource.group_resource(), &path.name).into()
}

/// Returns the error for a method that the resource does not support.
fn not_supported(resource: &ResourceInfo, method: &Method) -> Failure {
    if is_built_in(resource) {
        return Status::method_not_allowed().into();
    }
    let verb = match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    };
    let group_resource = resource.group_resource();
    let message = format!("{verb} is not supported on resources of kind \"{group_resource}\"");
    let details =
        StatusDetails { group: resource.group.clone(), kind: resource.plural.clone(), ..StatusDetails::default() };
    Status::failure(405, reason::METHOD_NOT_ALLOWED, message).with_details(details).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kinds::{self, KindOptions},
        kubernetes::KubernetesVersion,
        request::{Query, RequestInfo},
    };

    fn ask(method: &str, path: &str) -> Result<Operation, String> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let info = RequestInfo::new(&method, path, &Query::default()).unwrap();
        let path = info.resource.unwrap();
        let options = KindOptions::of(KubernetesVersion::default());
        let table = kinds::built_ins(&options);
        let resource = table.iter().find(|resource| resource.group == path.group && resource.plural == path.resource);
        Operation::of(&method, &path, resource.unwrap()).map_err(|failure| match failure {
            Failure::Status(status) => status.code.to_string(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn method_and_path_decide_the_operation() {
        use Operation::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
        for (method, path, expected) in [
            ("GET", "/api/v1/pods", Ok(List)),
            ("GET", "/api/v1/namespaces/a/pods/", Ok(List)),
            ("GET", "/api/v1/namespaces/a/pods/p", Ok(Get)),
            ("POST", "/api/v1/namespaces/a/pods", Ok(Create)),
            ("PUT", "/api/v1/namespaces/a/pods/p/status", Ok(Update)),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", Ok(Patch)),
            ("POST", "/api/v1/namespaces/a/pods/p/binding", Ok(Create)),
            ("DELETE", "/api/v1/namespaces/a/pods", Ok(DeleteCollection)),
            ("DELETE", "/api/v1/namespaces/a", Ok(Delete)),
            ("PUT", "/api/v1/namespaces/a/finalize", Ok(Update)),
            ("GET", "/api/v1/watch/namespaces/a/pods/p", Ok(Watch)),
            ("POST", "/api/v1/watch/namespaces/a", Err("405")),
            ("POST", "/api/v1/pods", Err("405")),
            ("DELETE", "/api/v1/pods", Err("405")),
            ("DELETE", "/api/v1/namespaces", Err("405")),
            ("POST", "/api/v1/namespaces/a/pods/p", Err("405")),
            ("PUT", "/api/v1/namespaces/a/pods", Err("405")),
            ("HEAD", "/api/v1/pods", Err("405")),
            ("OPTIONS", "/api/v1/pods", Err("405")),
            ("BREW", "/api/v1/pods", Err("405")),
            ("GET", "/api/v1/namespaces/a/pods/p/binding", Err("405")),
            ("GET", "/api/v1/pods/p", Err("404")),
            ("GET", "/api/v1/namespaces/a/nodes", Err("404")),
            ("GET", "/api/v1/namespaces/a/configmaps/c/status", Err("404")),
            ("GET", "/api/v1/namespaces/a/pods/p/status/x", Err("404")),
            ("GET", "/apis/apps/v1/watch/namespaces/a/deployments/d/status", Err("404")),
        ] {
            assert_eq!(ask(method, path), expected.map_err(str::to_owned), "{method} {path}");
        }
    }
}
