//! The rules of the resources that a program serves with its own API server.

use std::sync::Arc;

use futures::future::BoxFuture;
use windlass_api::{GroupKind, Status};

use crate::{
    registry::{Admission, Attributes, Operation, Registry},
    resource::{OwnRules, ResourceRules},
};

/// Completes and validates objects by the rules of the program.
#[derive(Debug)]
pub(crate) struct OwnResources(pub(crate) Arc<OwnRules>);

impl OwnResources {
    fn rules(&self, write: &Attributes) -> Option<&Arc<dyn ResourceRules>> {
        self.0.get(&write.resource.group, &write.resource.plural)
    }
}

impl Admission for OwnResources {
    fn handles(&self, write: &Attributes) -> bool {
        matches!(write.operation, Operation::Create | Operation::Update) && self.rules(write).is_some()
    }

    fn admit<'a>(&'a self, _: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        if let Some(rules) = self.rules(write).cloned() {
            rules.complete(&mut write.object);
        }
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, _: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        let causes =
            self.rules(write).map(|rules| rules.validate(&write.object, write.old.as_ref())).unwrap_or_default();
        let result = if causes.is_empty() {
            Ok(())
        } else {
            let kind = GroupKind::new(write.resource.group.clone(), write.resource.kind.clone());
            Err(Status::invalid(&kind, &write.name, causes))
        };
        Box::pin(std::future::ready(result))
    }
}
