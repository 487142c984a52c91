//! Creating an object by updating it: PUT and server-side apply of a name that does not exist.
//!
//! Such a request was authorized as `update` or `patch`. It also needs `create`, or else that verb would guard nothing.

use std::sync::Arc;

use futures::future::BoxFuture;
use windlass_api::Status;

use super::{Admission, Attributes, Operation};
use crate::{
    authz::{Attempt, Authorizer, Object},
    registry::Registry,
};

/// Rejects objects that a user creates by an update and may not create.
///
/// First of the chain that validates, as in the real server: a webhook is not asked about such a write.
#[derive(Debug)]
pub(crate) struct CreateOnUpdate(pub(crate) Arc<Authorizer>);

impl Admission for CreateOnUpdate {
    fn handles(&self, write: &Attributes) -> bool {
        // A create by POST has no name in its path. What the server itself writes has no user.
        write.operation == Operation::Create
            && write.subresource.is_none()
            && !write.asked.name.is_empty()
            && !write.asked.user.name.is_empty()
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let object = Object::Resource {
                group: &write.resource.group,
                version: &write.resource.version,
                resource: &write.resource.plural,
                subresource: "",
                namespace: &write.namespace,
                name: &write.asked.name,
            };
            let attempt = Attempt { verb: "create", object };
            self.0.require(&**registry.storage(), &write.asked.user, &attempt).await
        })
    }
}
