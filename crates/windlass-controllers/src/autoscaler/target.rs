//! The target of an autoscaler: any object with a scale subresource.

use k8s_openapi::api::{autoscaling::v1::Scale, autoscaling::v2::CrossVersionObjectReference};
use windlass_api::{ApiResource, DynamicObject, GroupKind, ObjectRef};
use windlass_client::{Client, DeferredRestMapper, Error, MappingError};

use crate::pod_control::server_message;

/// The maximum number of attempts to write a scale, in case of conflicts.
const ATTEMPTS: usize = 5;

/// A target, and its scale as read from the server.
#[derive(Debug)]
pub(super) struct Target {
    resource: ApiResource,
    key: ObjectRef<DynamicObject>,
    scale: Scale,
}

impl Target {
    /// Finds the target of a reference. The error messages equal those of kube-controller-manager.
    pub(super) async fn find(
        client: &Client,
        mapper: &DeferredRestMapper,
        namespace: &str,
        reference: &CrossVersionObjectReference,
    ) -> Result<Self, String> {
        let version = reference.api_version.as_deref().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        if version.matches('/').count() > 1 {
            return Err(format!("unexpected GroupVersion string: {version}"));
        }
        let kind = GroupKind::new(group.to_owned(), reference.kind.clone());
        let found = match mapper.mapping(&kind, &[]).await {
            Ok(found) => found.resource,
            Err(MappingError::NoKind { .. }) => {
                return Err(format!("no matches for kind {:?} in group {group:?}", reference.kind));
            }
            Err(MappingError::Discovery(error)) => return Err(server_message(&error)),
            Err(error) => return Err(error.to_string()),
        };
        let key = ObjectRef::new(reference.name.clone()).within(namespace);
        let scale = client.dynamic(&found).get_scale(key.clone()).await.map_err(|error| server_message(&error))?;
        Ok(Self { resource: found, key, scale })
    }

    /// Returns the desired number of replicas.
    pub(super) fn wanted(&self) -> i32 {
        self.scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
    }

    /// Returns the existing number of replicas.
    pub(super) fn existing(&self) -> i32 {
        self.scale.status.as_ref().map_or(0, |status| status.replicas)
    }

    /// Returns the selector of the target's pods; empty if the scale has none.
    pub(super) fn selector(&self) -> &str {
        self.scale.status.as_ref().and_then(|status| status.selector.as_deref()).unwrap_or_default()
    }

    /// Sets the desired number of replicas. Retries after conflicts.
    pub(super) async fn scale_to(&mut self, client: &Client, replicas: i32) -> Result<(), Error> {
        let scales = client.dynamic(&self.resource);
        let mut attempts = 1;
        loop {
            self.scale.spec.get_or_insert_default().replicas = Some(replicas);
            match scales.update_scale(&self.scale).await {
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                    self.scale = scales.get_scale(self.key.clone()).await?;
                    attempts += 1;
                }
                outcome => return outcome.map(drop),
            }
        }
    }
}
