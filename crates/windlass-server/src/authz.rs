//! Whether somebody may do something.
//!
//! Members of `system:masters` may do everything, and until there are roles so may whoever has proven who they are. All
//! others may GET the health endpoints and the version, as the real server's bootstrap policy has it.

use windlass_api::{GroupResource, Status, StatusDetails, reason};

use crate::{
    authn::{AUTHENTICATED, User},
    http::RequestInfo,
};

/// Members of this group may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// What everybody may GET.
pub(crate) const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attempt<'a> {
    /// Anything with a resource: for as long as nobody is told apart by what they do, it does not matter what.
    Resource,
    /// A request for a path that is no resource.
    Path { verb: &'a str, path: &'a str },
}

impl User {
    /// Whether the user may do it.
    pub(crate) fn may(&self, attempt: Attempt<'_>) -> bool {
        if self.is_in(MASTERS) || self.is_in(AUTHENTICATED) {
            return true;
        }
        matches!(attempt, Attempt::Path { verb: "get", path } if PUBLIC.contains(&path) && self.is_in("system:unauthenticated"))
    }

    /// Whether the user may do what the request asks.
    pub(crate) fn authorize(&self, request: &RequestInfo) -> Result<(), Status> {
        let attempt = match request.resource {
            Some(_) => Attempt::Resource,
            None => Attempt::Path { verb: &request.verb, path: &request.path },
        };
        if self.may(attempt) { Ok(()) } else { Err(self.forbidden(request, &request.verb)) }
    }

    /// The refusal of a request; `verb` is what the user may not do.
    pub(crate) fn forbidden(&self, request: &RequestInfo, verb: &str) -> Status {
        let user = &self.name;
        let Some(resource) = &request.resource else {
            let message = format!("forbidden: User {user:?} cannot {verb} path {:?}", request.path);
            return Status::failure(403, reason::FORBIDDEN, message).with_details(StatusDetails::default());
        };
        let what = match resource.subresource.as_str() {
            "" => resource.resource.clone(),
            subresource => format!("{}/{subresource}", resource.resource),
        };
        let whereabouts = match &resource.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let why =
            format!("User {user:?} cannot {verb} resource {what:?} in API group {:?} {whereabouts}", resource.group);
        let group_resource = GroupResource::new(resource.group.clone(), resource.resource.clone());
        Status::forbidden(&group_resource, &resource.name, why)
    }
}
