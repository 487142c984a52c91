//! Creation by update: PUT and server-side apply of a name that does not exist.
//!
//! Such a request was authorized as `update` or `patch`. It also needs `create`; otherwise that verb would protect
//! nothing.

use std::sync::Arc;

use futures::future::BoxFuture;
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    authz::{AccessAttributes, Authorizer, Object},
    registry::Registry,
};

/// Rejects an update that creates an object if the user may not create it.
///
/// The first validating plugin, as in kube-apiserver, so no webhook is called for such a write.
#[derive(Debug)]
pub(crate) struct CreateOnUpdate(pub(crate) Arc<Authorizer>);

impl Admission for CreateOnUpdate {
    fn handles(&self, write: &Attributes) -> bool {
        // A create by POST has no name in its path. The server's own writes have no user.
        write.operation == Operation::Create
            && write.subresource.is_none()
            && !write.context.name.is_empty()
            && !write.context.user.name.is_empty()
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let object = Object::Resource {
                group: &write.resource.group,
                version: &write.resource.version,
                resource: &write.resource.plural,
                subresource: "",
                namespace: &write.namespace,
                name: &write.context.name,
            };
            let attempt = AccessAttributes::new("create", object);
            self.0.require(registry.storage(), &write.context.user, &attempt).await
        })
    }
}
